//! Plans: what the runtime does to run one compiled function, as plain data.
//!
//! A plan is a list of steps over buffers. Sizes are expressions over the plan's symbols, which are bound once a call
//! from the sizes of the inputs. [`text`] prints and [`parse`] reads a plan one to one; the interpreter of a plan is
//! the runtime itself ([`crate::exec`]).

mod lexer;
pub mod parse;
mod scratch;
pub mod text;
pub mod verify;

use crate::dtype::DType;
use crate::sym::{Expr, Symbol};
use serde::{Deserialize, Serialize};

/// Where a plan runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum DeviceKind {
    /// The host's processor.
    Cpu,
    /// An NVIDIA GPU through the CUDA driver.
    Cuda,
}

impl DeviceKind {
    /// The name in text: `cpu`, `cuda`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cuda => "cuda",
        }
    }
}

impl std::fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// The source location of a step; empty where it has none.
pub fn location(step: &Step) -> &str {
    match step {
        Step::Launch { location, .. } => location,
        Step::Product(p) => &p.location,
        Step::Convolution(c) => &c.location,
        Step::HostCall(h) => &h.location,
        Step::Copy { .. } => "",
    }
}

/// A compiled function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The function's name.
    pub name: String,
    /// Where it runs.
    pub device: DeviceKind,
    /// The symbols and how a call binds them.
    pub symbols: Vec<PlanSymbol>,
    /// The parameters, in order. Each is also a buffer.
    pub inputs: Vec<Input>,
    /// The results, in order.
    pub outputs: Vec<Output>,
    /// Every buffer; [`BufferId`] indexes it.
    pub buffers: Vec<Buffer>,
    /// Every kernel; steps index it.
    pub kernels: Vec<Kernel>,
    /// Bytes of the arena that holds the intermediate buffers.
    pub arena: Expr,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

/// A symbol with the way its value is found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanSymbol {
    /// Name, range, divisibility, hint: checked against the value at each call.
    pub info: Symbol,
    /// Where the value comes from.
    pub binding: Binding,
}

/// How a symbol gets its value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Binding {
    /// The size of dimension `dim` of input `input`.
    InputDim {
        /// Index into [`Plan::inputs`].
        input: u32,
        /// Dimension.
        dim: u32,
    },
    /// The stride (in elements) of dimension `dim` of input `input`.
    InputStride {
        /// Index into [`Plan::inputs`].
        input: u32,
        /// Dimension.
        dim: u32,
    },
    /// An integer argument of the call: the `n`-th.
    Scalar(u32),
    /// An expression over earlier symbols.
    Defined(Expr),
}

/// A parameter: what a caller must pass. A mismatch is an error that names the parameter and the dimension.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Input {
    /// The parameter's name.
    pub name: String,
    /// Its buffer.
    pub buffer: BufferId,
}

/// A result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Output {
    /// The result's name.
    pub name: String,
    /// Its buffer. Two results may share one; a result may be an input or a constant, or an alias of one.
    pub buffer: BufferId,
}

/// Index into [`Plan::buffers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BufferId(pub u32);

/// A tensor in memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Buffer {
    /// Element type.
    pub dtype: DType,
    /// Sizes, outermost first.
    pub shape: Vec<Expr>,
    /// Strides in elements, outermost first. `None`: contiguous, row-major.
    pub strides: Option<Vec<Expr>>,
    /// Where it lies.
    pub place: Place,
}

/// Where a buffer lies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Place {
    /// Parameter number.
    Input(u32),
    /// Memory of its own that the caller gets: result number (the first that names this buffer).
    Output(u32),
    /// Bytes into the arena; a multiple of 256.
    Arena(Expr),
    /// Bytes into the artifact's constant section; a multiple of 64.
    Constant {
        /// Offset in bytes.
        offset: u64,
    },
    /// The same memory as another buffer, `offset` elements further; for views.
    Alias {
        /// The other buffer.
        of: BufferId,
        /// Elements of this buffer's type.
        offset: Expr,
    },
    /// Memory of its own, from the first step that touches it to the last.
    Block,
}

/// A kernel in the artifact.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kernel {
    /// Symbol name in its image.
    pub name: String,
    /// Which image of the artifact holds it.
    pub image: u32,
    /// What it computes, for reports: the ops fused in it, in the user's order, with their source locations.
    pub summary: String,
    /// Threads a block (GPU); 1 on the CPU.
    pub block: u32,
    /// Dynamic shared memory in bytes (GPU).
    pub shared_bytes: u32,
    /// What it checks as it runs; it reports the number of the first that fails (CPU).
    pub checks: Vec<Check>,
}

/// A check of a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// What is wrong where it fails.
    pub message: String,
    /// The source location; empty where there is none.
    pub location: String,
}

/// One thing to do.
// A plan has hundreds of steps at most; a box in each product would only make them harder to match on.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Step {
    /// Run a kernel.
    Launch {
        /// Index into [`Plan::kernels`].
        kernel: u32,
        /// What it reads.
        operands: Vec<BufferId>,
        /// What it writes; the kernel's arguments are the operands, then these.
        results: Vec<BufferId>,
        /// Its symbol arguments.
        symbols: Vec<Expr>,
        /// Blocks (GPU) or tasks (CPU), up to three dimensions; nothing runs where one is 0.
        grid: Vec<Expr>,
        /// The source location, for events and profiles.
        location: String,
    },
    /// A batched matrix product through a library.
    Product(Product),
    /// A convolution through a library.
    Convolution(Convolution),
    /// Copy all elements of one buffer to another of the same shape and type; strides may differ.
    Copy {
        /// Source.
        from: BufferId,
        /// Destination.
        to: BufferId,
    },
    /// A call out of the compiled program, for an op without lowering.
    HostCall(HostCall),
}

impl Step {
    /// The buffers that it reads, and those that it writes.
    pub fn buffers(&self) -> (Vec<BufferId>, Vec<BufferId>) {
        match self {
            Self::Launch { operands, results, .. } => (operands.clone(), results.clone()),
            Self::Product(p) => {
                ([p.lhs.buffer, p.rhs.buffer].into_iter().chain(p.bias).collect(), vec![p.out.buffer])
            }
            Self::Convolution(c) => (vec![c.input, c.weight], vec![c.out]),
            Self::Copy { from, to } => (vec![*from], vec![*to]),
            Self::HostCall(h) => (h.inputs.clone(), h.outputs.clone()),
        }
    }
}

/// `out[b] = op(lhs[b]) · op(rhs[b])`, each of `batch` products `m × k` times `k × n`, accumulated in f32 (f64 for f64).
///
/// Element `[b, i, j]` of `lhs` (as `[batch, m, k]`) lies at `b*batch_stride + i*row_stride + j*col_stride`, one of the last two
/// strides is 1; likewise `rhs` as `[batch, k, n]` and `out` as `[batch, m, n]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Product {
    /// Left factor.
    pub lhs: Matrix,
    /// Right factor.
    pub rhs: Matrix,
    /// Result.
    pub out: Matrix,
    /// A vector of `n` elements added to each row.
    pub bias: Option<BufferId>,
    /// What is applied to each element at the end.
    pub epilogue: Epilogue,
    /// Rows of the result.
    pub m: Expr,
    /// Columns of the result.
    pub n: Expr,
    /// Terms of each sum.
    pub k: Expr,
    /// Number of products.
    pub batch: Expr,
    /// The source location.
    pub location: String,
}

/// A factor or the result of a [`Product`]: a buffer read as a stack of matrices. Strides in elements.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Matrix {
    /// The memory.
    pub buffer: BufferId,
    /// Distance between products; 0 repeats one matrix.
    pub batch_stride: Expr,
    /// Distance between rows.
    pub row_stride: Expr,
    /// Distance between columns.
    pub col_stride: Expr,
}

/// What a product applies to each element of its result after the bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Epilogue {
    /// Nothing.
    None,
    /// `max(x, 0)`.
    Relu,
    /// The tanh form of GELU.
    GeluTanh,
}

/// A convolution over `spatial` dimensions: `input [n, c, …]`, `weight [o, c/groups, …]`, `out [n, o, …]` (logical order; the buffers' strides
/// say how they lie in memory).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Convolution {
    /// Input.
    pub input: BufferId,
    /// Weight.
    pub weight: BufferId,
    /// Result.
    pub out: BufferId,
    /// Stride per spatial dimension.
    pub stride: Vec<i64>,
    /// Zeros before and after, per spatial dimension.
    pub padding: Vec<(i64, i64)>,
    /// Distance between weight elements, per spatial dimension.
    pub dilation: Vec<i64>,
    /// Groups.
    pub groups: i64,
    /// The source location.
    pub location: String,
}

/// A call of the host program's own op, by name. The embedder registers how such calls are made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostCall {
    /// The op, such as `aten.nonzero.default`.
    pub name: String,
    /// What else the embedder needs (JSON), uninterpreted here.
    pub payload: String,
    /// Buffers that the op reads.
    pub inputs: Vec<BufferId>,
    /// Integer arguments.
    pub symbols: Vec<Expr>,
    /// Buffers that take the results.
    pub outputs: Vec<BufferId>,
    /// Why the op has no lowering; empty where it is a library of the embedding program.
    pub reason: String,
    /// The source location.
    pub location: String,
}
