//! Everything of a plan that depends on the symbols' values only, as numbers, with the checks that keep accesses inside memory.

use super::bind::eval;
use super::lives::Lives;
use crate::artifact::Artifact;
use crate::dtype::DType;
use crate::error::{Result, bail};
use crate::plan::{BufferId, Matrix, Place, Plan, Step};
use crate::tensor::row_major_strides;

/// Where a buffer's memory comes from, aliases followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Root {
    Input(u32),
    Output(u32),
    Arena,
    Constant,
    /// The memory of the buffer with this number.
    Block(u32),
}

/// A buffer with numbers.
#[derive(Clone, Debug)]
pub(super) struct ResolvedBuffer {
    pub dtype: DType,
    pub shape: Vec<i64>,
    pub strides: Vec<i64>,
    pub root: Root,
    /// Bytes from the root's address.
    pub offset: i64,
    /// Bytes from element 0 to the end of the last.
    pub bytes: i64,
}

/// Numbers of a step.
#[derive(Clone, Debug)]
pub(super) enum ResolvedStep {
    /// Nothing to do: an empty grid, result or copy.
    Skip,
    Launch {
        symbols: Vec<i64>,
        grid: [u64; 3],
    },
    /// m, n, k, batch; strides of lhs, rhs and out.
    Product {
        size: [i64; 4],
        strides: [[i64; 3]; 3],
    },
    HostCall {
        symbols: Vec<i64>,
    },
    /// The buffers say it all.
    Plain,
}

/// A plan for one set of symbol values.
#[derive(Debug)]
pub(super) struct Resolved {
    pub symbols: Vec<i64>,
    pub buffers: Vec<ResolvedBuffer>,
    pub steps: Vec<ResolvedStep>,
    pub arena: i64,
    pub lives: Lives,
}

impl Resolved {
    pub fn new(artifact: &Artifact, symbols: &[i64]) -> Result<Self> {
        let plan = &artifact.plan;
        let arena = eval(&plan.arena, symbols, "the arena's size")?.max(0);
        let mut out = Self {
            symbols: symbols.to_vec(),
            buffers: Vec::new(),
            steps: Vec::new(),
            arena,
            lives: Lives::default(),
        };
        for b in &plan.buffers {
            let sizes = |list: &[crate::sym::Expr], what| {
                list.iter().map(|e| eval(e, symbols, what)).collect::<Result<Vec<i64>>>()
            };
            let shape = sizes(&b.shape, "a size")?;
            let strides = match &b.strides {
                Some(s) => sizes(s, "a stride")?,
                None => row_major_strides(&shape),
            };
            let bytes = extent(&shape, &strides, b.dtype)?;
            // Roots are filled in below: an alias may name a later buffer.
            out.buffers.push(ResolvedBuffer {
                dtype: b.dtype,
                shape,
                strides,
                root: Root::Arena,
                offset: 0,
                bytes,
            });
        }
        for i in 0..plan.buffers.len() {
            let (root, offset) = follow(plan, symbols, i)?;
            out.buffers[i].root = root;
            out.buffers[i].offset = offset;
        }
        out.check_bounds(plan, artifact.constants.len() as i64)?;
        for (i, step) in plan.steps.iter().enumerate() {
            let resolved = out.step(step, symbols).map_err(|e| e.at(format_args!("step {i}")))?;
            out.steps.push(resolved);
        }
        out.lives = Lives::new(plan, &out.buffers);
        Ok(out)
    }

    /// Every buffer lies inside its root.
    fn check_bounds(&self, plan: &Plan, constants: i64) -> Result<()> {
        for (i, b) in self.buffers.iter().enumerate().filter(|(_, b)| b.bytes > 0) {
            let of = |id: BufferId| self.buffers[id.0 as usize].bytes;
            let (room, name) = match b.root {
                Root::Arena => (self.arena, "the arena".to_owned()),
                Root::Constant => (constants, "the constants".to_owned()),
                Root::Input(n) => (of(plan.inputs[n as usize].buffer), format!("input {n}")),
                Root::Output(n) => (of(plan.outputs[n as usize].buffer), format!("result {n}")),
                Root::Block(n) => (of(BufferId(n)), format!("the block b{n}")),
            };
            if b.offset < 0 || b.offset.checked_add(b.bytes).is_none_or(|end| end > room) {
                bail!(
                    Plan,
                    "buffer b{i} needs bytes {}..{} of {name}, which has {room} (symbols {:?})",
                    b.offset,
                    b.offset.saturating_add(b.bytes),
                    self.symbols
                );
            }
        }
        Ok(())
    }

    fn buffer(&self, id: BufferId) -> &ResolvedBuffer {
        &self.buffers[id.0 as usize]
    }

    fn step(&self, step: &Step, symbols: &[i64]) -> Result<ResolvedStep> {
        let list = |l: &[crate::sym::Expr], what| {
            l.iter().map(|e| eval(e, symbols, what)).collect::<Result<Vec<_>>>()
        };
        let empty = |id: BufferId| self.buffer(id).bytes == 0;
        Ok(match step {
            Step::Launch { symbols: args, grid, .. } => {
                let mut g = [1u64; 3];
                for (g, e) in g.iter_mut().zip(grid) {
                    *g = eval(e, symbols, "a grid size")?.max(0) as u64;
                }
                if g.contains(&0) {
                    return Ok(ResolvedStep::Skip);
                }
                ResolvedStep::Launch { symbols: list(args, "a kernel's symbol")?, grid: g }
            }
            Step::Product(p) => {
                let size = [&p.m, &p.n, &p.k, &p.batch].map(|e| eval(e, symbols, "a product's size"));
                let [m, n, k, batch] = size;
                let size = [m?, n?, k?.max(0), batch?];
                if size[0] <= 0 || size[1] <= 0 || size[3] <= 0 {
                    return Ok(ResolvedStep::Skip);
                }
                let [m, n, k, batch] = size;
                let mut strides = [[0; 3]; 3];
                let operands = [(&p.lhs, m, k, "lhs"), (&p.rhs, k, n, "rhs"), (&p.out, m, n, "out")];
                for (s, (matrix, rows, cols, what)) in strides.iter_mut().zip(operands) {
                    *s = self.matrix(matrix, symbols, [batch, rows, cols], what)?;
                }
                if let Some(b) = p.bias {
                    let b = self.buffer(b);
                    if b.shape.iter().product::<i64>() < n || b.bytes < n * b.dtype.size() as i64 {
                        bail!(Plan, "a product's bias has shape {:?}, not {n} contiguous elements", b.shape);
                    }
                }
                ResolvedStep::Product { size, strides }
            }
            Step::Convolution(c) if empty(c.out) => ResolvedStep::Skip,
            Step::Convolution(_) => ResolvedStep::Plain,
            Step::Copy { from, to } => {
                let (f, t) = (self.buffer(*from), self.buffer(*to));
                if f.shape != t.shape || f.dtype != t.dtype {
                    bail!(Plan, "a copy from {} {:?} to {} {:?}", f.dtype, f.shape, t.dtype, t.shape);
                }
                if t.bytes == 0 { ResolvedStep::Skip } else { ResolvedStep::Plain }
            }
            Step::HostCall(h) => {
                ResolvedStep::HostCall { symbols: list(&h.symbols, "a host call's argument")? }
            }
        })
    }

    /// The strides of a matrix, after a check that it lies inside its buffer.
    fn matrix(&self, m: &Matrix, symbols: &[i64], sizes: [i64; 3], what: &str) -> Result<[i64; 3]> {
        let mut strides = [0; 3];
        for (s, e) in strides.iter_mut().zip([&m.batch_stride, &m.row_stride, &m.col_stride]) {
            *s = eval(e, symbols, "a stride")?;
        }
        let b = self.buffer(m.buffer);
        let bytes = extent(&sizes, &strides, b.dtype)?;
        if bytes > b.bytes {
            bail!(
                Plan,
                "the product's {what} reads {sizes:?} with strides {strides:?}: {bytes} bytes of b{}, which has {}",
                m.buffer.0,
                b.bytes
            );
        }
        Ok(strides)
    }
}

/// Bytes from element 0 to the end of the last one.
fn extent(shape: &[i64], strides: &[i64], dtype: DType) -> Result<i64> {
    if let Some(n) = shape.iter().find(|&&n| n < 0) {
        bail!(Input, "a size is {n}; sizes are not negative");
    }
    if shape.contains(&0) {
        return Ok(0);
    }
    let mut last = 0i64;
    for (&n, &s) in shape.iter().zip(strides) {
        if s < 0 && n > 1 {
            bail!(Unsupported, "a negative stride ({s}) in a plan's buffer");
        }
        let step = if n > 1 { (n - 1).checked_mul(s) } else { Some(0) };
        match step.and_then(|x| last.checked_add(x)) {
            Some(x) => last = x,
            None => {
                bail!(Input, "a tensor of shape {shape:?} and strides {strides:?} does not fit in memory")
            }
        }
    }
    match last.checked_add(1).and_then(|n| n.checked_mul(dtype.size() as i64)) {
        Some(bytes) => Ok(bytes),
        None => bail!(Input, "a tensor of shape {shape:?} does not fit in memory"),
    }
}

/// The memory behind a buffer and its offset in bytes.
fn follow(plan: &Plan, symbols: &[i64], buffer: usize) -> Result<(Root, i64)> {
    let (mut at, mut offset) = (buffer, 0i64);
    for _ in 0..=plan.buffers.len() {
        let b = &plan.buffers[at];
        match &b.place {
            Place::Input(n) => return Ok((Root::Input(*n), offset)),
            Place::Output(n) => return Ok((Root::Output(*n), offset)),
            Place::Block => return Ok((Root::Block(at as u32), offset)),
            Place::Constant { offset: o } => return Ok((Root::Constant, offset.saturating_add_unsigned(*o))),
            Place::Arena(o) => {
                return Ok((Root::Arena, offset.saturating_add(eval(o, symbols, "an arena offset")?)));
            }
            Place::Alias { of, offset: o } => {
                let elements = eval(o, symbols, "an alias's offset")?;
                offset = offset.saturating_add(elements.saturating_mul(b.dtype.size() as i64));
                at = of.0 as usize;
            }
        }
    }
    bail!(Plan, "buffer b{buffer} is an alias of itself")
}
