//! Schedules: how a kernel's work is spread over blocks, warps, threads and vectors. Plain data.

use serde::{Deserialize, Serialize};

/// How a kernel is scheduled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Schedule {
    /// Each thread computes vectors of neighbouring elements of the outputs.
    Pointwise {
        /// Elements of a vector.
        vector: i64,
        /// Threads of a block.
        threads: i64,
        /// Vectors of a thread.
        per_thread: i64,
    },
    /// Rows are reduced by the threads of a warp or a block, in stages; a thread keeps its part of the row in registers.
    Rows {
        /// Elements of a vector.
        vector: i64,
        /// Threads that share a row: 32 with several rows a block, else all of the block.
        threads: i64,
        /// Rows of a block.
        rows: i64,
        /// Whether each stage goes through the row again, in a loop, instead of keeping it in registers.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        looped: bool,
        /// Of looped rows: whether what is read again is in shared memory.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        shared: bool,
    },
    /// Tiles of the outputs, and of the operands that cross their order, which go through shared memory.
    Tiles {
        /// Positions of a tile along each of the two dimensions.
        tile: i64,
        /// Elements of a vector that is written.
        vector: i64,
        /// Elements of a vector that is read into a tile.
        read: i64,
        /// Threads of a block.
        threads: i64,
    },
    /// Columns are reduced by blocks of `threads / lanes` groups, each of `lanes` threads side by side.
    Columns {
        /// Elements of a vector, along what is kept.
        vector: i64,
        /// Threads side by side.
        lanes: i64,
        /// Threads of a block.
        threads: i64,
        /// Blocks that share a column, the last of which combines their results.
        parts: i64,
    },
    /// A long row is reduced by several blocks, the last of which combines their results.
    LongRows {
        /// Elements of a vector.
        vector: i64,
        /// Threads of a block.
        threads: i64,
        /// Blocks that share a row.
        parts: i64,
    },
    /// A block goes along a row and combines as it goes.
    Scan {
        /// Threads that share a row.
        threads: i64,
    },
    /// On the CPU: tasks of whole rows, along which running combinations are made.
    ScanTasks {
        /// Rows of a task.
        rows: i64,
    },
    /// A block sorts a row, comparing pairs of elements.
    Sort {
        /// Threads that share a row.
        threads: i64,
        /// Whether the row is in shared memory meanwhile, not in the results' buffers.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        shared: bool,
    },
    /// On the CPU: tasks of whole rows, which are sorted by merging, with as much memory again as the results have.
    SortTasks {
        /// Rows of a task.
        rows: i64,
    },
    /// On the CPU: tasks of neighbouring elements of the outputs, vectors inside.
    Tasks {
        /// Elements of a vector.
        vector: i64,
        /// Elements of a task.
        task: i64,
    },
    /// On the CPU: tasks of neighbouring rows of the outputs, in tiles, where operands cross their order.
    TileTasks {
        /// Elements of a vector.
        vector: i64,
        /// Positions of a tile along the innermost dimension.
        along: i64,
        /// Positions of a tile, and of a task, along the other.
        across: i64,
    },
    /// On the CPU: tasks of whole rows, which are reduced in stages.
    RowTasks {
        /// Elements of a vector.
        vector: i64,
        /// Rows of a task.
        rows: i64,
        /// Vectors that are combined side by side.
        unroll: i64,
    },
}

impl Schedule {
    /// The text kept in `loop.schedule`.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("plain data")
    }

    /// Threads of a block on the GPU; `None` for schedules of the CPU.
    pub fn block(&self) -> Option<i64> {
        match self {
            Self::Pointwise { threads, .. } => Some(*threads),
            Self::Rows { threads, rows, .. } => Some(threads * rows),
            Self::Scan { threads }
            | Self::Sort { threads, .. }
            | Self::Columns { threads, .. }
            | Self::Tiles { threads, .. }
            | Self::LongRows { threads, .. } => Some(*threads),
            Self::Tasks { .. }
            | Self::TileTasks { .. }
            | Self::RowTasks { .. }
            | Self::ScanTasks { .. }
            | Self::SortTasks { .. } => None,
        }
    }
}
