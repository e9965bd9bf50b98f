//! What the plan needs to know of a kernel.

use serde::{Deserialize, Serialize};
use strata_runtime::plan::Check;
use strata_runtime::sym::Expr;

/// How a kernel is launched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelMeta {
    /// Symbol name in the image.
    pub name: String,
    /// Blocks (GPU: x, y, z) or tasks (CPU), over the kernel's symbols.
    pub grid: Vec<Expr>,
    /// Threads a block; 1 on the CPU.
    pub block: u32,
    /// Dynamic shared memory in bytes.
    pub shared_bytes: u32,
    /// What it checks, by the number that it reports (CPU).
    pub checks: Vec<Check>,
}
