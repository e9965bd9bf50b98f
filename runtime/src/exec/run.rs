//! Running a plan's steps.

use super::lives::Lives;
use super::memory::PoolAllocator;
use super::resolve::{Resolved, ResolvedStep, Root};
use super::{Allocator, DeviceTensor, Executable, Profile, bind};
use crate::device::{
    DevicePtr, Launch, ResolvedConvolution, ResolvedMatrix, ResolvedProduct, Stream, TensorRef,
};
use crate::dtype::DType;
use crate::error::{Error, Result, err};
use crate::plan::{BufferId, HostCall, Matrix, Plan, Step};
use std::borrow::Cow;
use std::sync::Arc;

/// Bytes of the widest access of a GPU thread.
const VECTOR_BYTES: u64 = 16;

/// How an embedder runs the ops that have no lowering.
pub trait HostCalls {
    /// Runs one op: reads `inputs`, writes `outputs`, in `stream`'s order.
    fn call(
        &mut self,
        call: &HostCall,
        inputs: &[TensorRef<'_>],
        symbols: &[i64],
        outputs: &[TensorRef<'_>],
        stream: Stream,
    ) -> Result<()>;
}

/// For programs without an embedder: any host call is an error.
pub struct NoHostCalls;

impl HostCalls for NoHostCalls {
    fn call(
        &mut self,
        call: &HostCall,
        _: &[TensorRef<'_>],
        _: &[i64],
        _: &[TensorRef<'_>],
        _: Stream,
    ) -> Result<()> {
        Err(err!(
            Unsupported,
            "the op {} runs in the host program, which offers no way to: {}",
            call.name,
            call.reason
        )
        .next("run the artifact from PyTorch, or compile with fallback=error to see all such ops"))
    }
}

/// What a run takes besides its tensors.
#[derive(Default)]
pub struct RunOptions<'a> {
    /// Integer arguments.
    pub scalars: &'a [i64],
    /// Where the work is queued.
    pub stream: Stream,
    /// Runs the host calls; without it they are errors.
    pub host: Option<&'a mut dyn HostCalls>,
    /// Takes the steps' times. Each step is waited for, so the whole is slower.
    pub profile: Option<&'a mut Profile>,
}

/// Where a result's memory comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// What the allocator gave for the result of this number; two results may share it.
    Output(usize),
    /// The memory of this input.
    Input(usize),
    /// The artifact's constants: read-only, alive as long as the executable.
    Constant,
}

/// A result of [`Executable::run_raw`].
#[derive(Clone, Debug)]
pub struct OutputRef {
    /// Address of element 0.
    pub ptr: DevicePtr,
    /// Element type.
    pub dtype: DType,
    /// Sizes.
    pub shape: Vec<i64>,
    /// Strides in elements.
    pub strides: Vec<i64>,
    /// Whose memory it is.
    pub origin: Origin,
}

impl Executable {
    /// Runs on tensors of the device; outputs and the arena come from the pool.
    pub fn run_with(&self, inputs: &[DeviceTensor], options: RunOptions<'_>) -> Result<Vec<DeviceTensor>> {
        let refs: Vec<TensorRef<'_>> = inputs.iter().map(DeviceTensor::as_ref).collect();
        let stream = options.stream;
        let mut allocator = PoolAllocator {
            pool: &self.pool,
            stream,
            kept: Vec::new(),
            blocks: Default::default(),
            outputs: Vec::new(),
        };
        // SAFETY: a `DeviceTensor` owns its memory, or whoever made it answers for it.
        let outputs = unsafe { self.run_raw(&refs, &mut allocator, options)? };
        outputs
            .into_iter()
            .map(|o| {
                let OutputRef { mut ptr, dtype, shape, strides, origin } = o;
                let owner = match origin {
                    Origin::Output(n) => Some(allocator.block_of(n)?),
                    Origin::Input(n) => inputs[n].owner.clone(),
                    Origin::Constant => {
                        let view = TensorRef { ptr, dtype, shape: &shape, strides: &strides };
                        let copy = self.constant_copy(&view, stream)?;
                        ptr = copy.0;
                        Some(copy.1)
                    }
                };
                Ok(DeviceTensor { ptr, dtype, shape, strides, owner, device: self.device.clone() })
            })
            .collect()
    }

    /// A copy of a constant with the same strides, so that the result outlives the executable and may be written.
    fn constant_copy(
        &self,
        t: &TensorRef<'_>,
        stream: Stream,
    ) -> Result<(DevicePtr, Arc<super::memory::Block>)> {
        let last: i64 = t.shape.iter().zip(t.strides).map(|(n, s)| (n - 1).max(0) * s).sum();
        let bytes = if t.elements() == 0 { 0 } else { (last as usize + 1) * t.dtype.size() };
        let block = self.pool.block(bytes, stream)?;
        // SAFETY: the resolver checked that the constant has these bytes; the block is new.
        unsafe { self.device.copy(block.ptr(), t.ptr, bytes, stream)? };
        Ok((block.ptr(), Arc::new(block)))
    }

    /// Where the inputs start. GPU kernels read whole vectors: an input that begins between them, such as a slice of a larger tensor, is
    /// copied first.
    fn aligned_inputs<'a>(
        &self,
        layout: &Layout,
        inputs: &'a [DevicePtr],
        allocator: &mut dyn Allocator,
        stream: Stream,
    ) -> Result<Cow<'a, [DevicePtr]>> {
        if self.device.host_memory() || inputs.iter().all(|p| p.0 % VECTOR_BYTES == 0) {
            return Ok(Cow::Borrowed(inputs));
        }
        let mut starts = inputs.to_vec();
        for (start, input) in starts.iter_mut().zip(&self.plan().inputs) {
            let bytes = layout.0.buffers[input.buffer.0 as usize].bytes as usize;
            if start.0 % VECTOR_BYTES != 0 && bytes > 0 {
                let copy = allocator.scratch(bytes)?;
                // SAFETY: the caller of the run answers for the input's memory; the copy's is new.
                unsafe { self.device.copy(copy, *start, bytes, stream)? };
                *start = copy;
            }
        }
        Ok(Cow::Owned(starts))
    }

    /// Checks arguments, and works out all sizes for them.
    pub fn layout(&self, inputs: &[TensorRef<'_>], scalars: &[i64]) -> Result<Layout> {
        let plan = self.plan();
        let at = |e: Error| e.at(format_args!("@{}", plan.name));
        let symbols = bind::bind(plan, inputs, scalars).map_err(at)?;
        self.resolve(&symbols).map(Layout).map_err(at)
    }

    /// Takes memory from an embedder for a run on inputs at these addresses, and copies those that kernels cannot read where they are.
    ///
    /// # Safety
    /// The inputs lie on this executable's device, as the layout has them, and stay until the work is done.
    pub unsafe fn place(
        &self,
        layout: &Layout,
        inputs: &[DevicePtr],
        allocator: &mut dyn Allocator,
        stream: Stream,
    ) -> Result<Placed> {
        let (plan, resolved) = (self.plan(), &layout.0);
        let at = |e: Error| e.at(format_args!("@{}", plan.name));
        if inputs.len() != plan.inputs.len() {
            return Err(at(err!(Input, "{} inputs are expected, got {}", plan.inputs.len(), inputs.len())));
        }
        let arena = match resolved.arena {
            0 => DevicePtr::NULL,
            bytes => allocator.arena(bytes as usize).map_err(at)?,
        };
        let mut results = vec![DevicePtr::NULL; plan.outputs.len()];
        for &n in &resolved.lives.early {
            results[n as usize] = self.result_memory(resolved, n, allocator).map_err(at)?;
        }
        let starts = self.aligned_inputs(layout, inputs, allocator, stream).map_err(at)?;
        let addresses = (resolved.buffers.iter())
            .map(|b| {
                let root = match b.root {
                    Root::Input(n) => starts[n as usize],
                    Root::Output(n) => results[n as usize],
                    Root::Arena => arena,
                    Root::Constant => self.constants,
                    // Taken when the first step that touches it runs.
                    Root::Block(_) => DevicePtr::NULL,
                };
                root.offset(b.offset)
            })
            .collect();
        let workspace = match self.workspace_bytes {
            0 => None,
            bytes => allocator.workspace(bytes).map_err(at)?,
        };
        Ok(Placed { addresses, workspace })
    }

    /// Memory for a result from an embedder.
    fn result_memory(
        &self,
        resolved: &Resolved,
        number: u32,
        allocator: &mut dyn Allocator,
    ) -> Result<DevicePtr> {
        let b = &resolved.buffers[self.plan().outputs[number as usize].buffer.0 as usize];
        allocator.output(number as usize, b.dtype, &b.shape, &b.strides, b.bytes as usize)
    }

    /// Runs the steps; `allocator` is the one that `placed` is from. Work may still be queued in the stream when this returns.
    ///
    /// # Safety
    /// `placed` was made by [`Executable::place`] of this executable for this layout and stream, and its memory stays until the work is
    /// done.
    pub unsafe fn execute(
        &self,
        layout: &Layout,
        placed: &mut Placed,
        allocator: &mut dyn Allocator,
        options: RunOptions<'_>,
    ) -> Result<()> {
        let plan = self.plan();
        let at = |e: Error| e.at(format_args!("@{}", plan.name));
        let mut none = NoHostCalls;
        let mut run = Run {
            exe: self,
            resolved: &layout.0,
            addresses: &mut placed.addresses,
            workspace: placed.workspace,
            allocator,
            lives: &layout.0.lives,
            next: (0, 0),
            stream: options.stream,
            host: options.host.unwrap_or(&mut none),
            scratch: Vec::new(),
        };
        match options.profile {
            None => {
                for i in 0..plan.steps.len() {
                    run.step(i).map_err(at)?;
                }
            }
            Some(profile) => {
                profile.calls += 1;
                let mut before = self.device.record(options.stream)?;
                for i in 0..plan.steps.len() {
                    run.step(i).map_err(at)?;
                    let after = self.device.record(options.stream)?;
                    profile.add(i, self.device.elapsed_ns(&before, &after)?);
                    before = after;
                }
            }
        }
        Ok(())
    }

    /// Runs on borrowed memory, with memory from an embedder. Work may still be queued in the stream when this returns.
    ///
    /// # Safety
    /// The inputs lie on this executable's device, with the sizes and strides that they claim, and stay until the work is done.
    pub unsafe fn run_raw(
        &self,
        inputs: &[TensorRef<'_>],
        allocator: &mut dyn Allocator,
        options: RunOptions<'_>,
    ) -> Result<Vec<OutputRef>> {
        let layout = self.layout(inputs, options.scalars)?;
        let starts: Vec<DevicePtr> = inputs.iter().map(|t| t.ptr).collect();
        // SAFETY: the caller's promises.
        let placed = unsafe {
            let mut placed = self.place(&layout, &starts, allocator, options.stream)?;
            self.execute(&layout, &mut placed, allocator, options)?;
            placed
        };
        let output = |(number, o): (usize, &crate::plan::Output)| {
            let r = layout.result(self.plan(), number)?;
            let ptr = match r.origin {
                // The caller's own memory, also where kernels read an aligned copy.
                Origin::Input(n) => starts[n].offset(r.offset),
                _ => placed.addresses[o.buffer.0 as usize],
            };
            let (shape, strides) = (r.shape.to_vec(), r.strides.to_vec());
            Ok(OutputRef { ptr, dtype: r.dtype, shape, strides, origin: r.origin })
        };
        self.plan().outputs.iter().enumerate().map(output).collect()
    }
}

/// The sizes of everything in a plan for one set of argument sizes, checked: good for any number of runs.
#[derive(Clone, Debug)]
pub struct Layout(pub(super) Arc<Resolved>);

/// A result in a [`Layout`].
#[derive(Clone, Copy, Debug)]
pub struct LaidOut<'a> {
    /// Whose memory it is.
    pub origin: Origin,
    /// Bytes from the start of that memory; for a constant of that of all constants.
    pub offset: i64,
    /// Element type.
    pub dtype: DType,
    /// Sizes.
    pub shape: &'a [i64],
    /// Strides in elements.
    pub strides: &'a [i64],
}

impl Layout {
    /// A result of `plan`, which this is a layout of.
    ///
    /// # Errors
    /// A plan that returns memory of its own.
    pub fn result(&self, plan: &Plan, number: usize) -> Result<LaidOut<'_>> {
        let output = &plan.outputs[number];
        let b = &self.0.buffers[output.buffer.0 as usize];
        let origin = match b.root {
            Root::Input(n) => Origin::Input(n as usize),
            Root::Output(n) => Origin::Output(n as usize),
            Root::Constant => Origin::Constant,
            Root::Arena | Root::Block(_) => {
                return Err(err!(Plan, "result {} lies in memory that the run gives back", output.name));
            }
        };
        Ok(LaidOut { origin, offset: b.offset, dtype: b.dtype, shape: &b.shape, strides: &b.strides })
    }
}

/// Where every buffer of a run lies.
#[derive(Debug)]
pub struct Placed {
    addresses: Vec<DevicePtr>,
    workspace: Option<DevicePtr>,
}

/// One run of a plan.
struct Run<'a> {
    exe: &'a Executable,
    resolved: &'a Resolved,
    addresses: &'a mut [DevicePtr],
    workspace: Option<DevicePtr>,
    allocator: &'a mut dyn Allocator,
    lives: &'a Lives,
    /// What of `lives.taken` and `lives.given_back` comes next.
    next: (usize, usize),
    stream: Stream,
    host: &'a mut dyn HostCalls,
    scratch: Vec<DevicePtr>,
}

impl<'a> Run<'a> {
    fn tensor(&self, id: BufferId) -> TensorRef<'a> {
        let b = &self.resolved.buffers[id.0 as usize];
        TensorRef { ptr: self.addresses[id.0 as usize], dtype: b.dtype, shape: &b.shape, strides: &b.strides }
    }

    fn step(&mut self, i: usize) -> Result<()> {
        let step = &self.exe.plan().steps[i];
        let done = self.take(i).and_then(|()| self.run(step, &self.resolved.steps[i]));
        // The place is put together only where something failed.
        done.map_err(|e| {
            let location = crate::plan::location(step);
            let known = location.is_empty() || location == e.place();
            let place = if known { format!("step {i}") } else { format!("{location}, step {i}") };
            e.at(place)
        })?;
        self.give_back(i);
        Ok(())
    }

    /// Takes the memory that step `i` is the first to touch.
    fn take(&mut self, i: usize) -> Result<()> {
        while let Some(memory) = self.lives.taken.get(self.next.0).filter(|m| m.step == i) {
            self.next.0 += 1;
            let base = match memory.root {
                Root::Output(n) => self.exe.result_memory(self.resolved, n, self.allocator)?,
                Root::Block(b) => {
                    let bytes = self.resolved.buffers[b as usize].bytes as usize;
                    self.allocator.block(b as usize, bytes)?
                }
                _ => continue,
            };
            for b in &memory.buffers {
                self.addresses[b.0 as usize] = base.offset(self.resolved.buffers[b.0 as usize].offset);
            }
        }
        Ok(())
    }

    /// Gives back the memory that step `i` was the last to touch.
    fn give_back(&mut self, i: usize) {
        while let Some(memory) = self.lives.given_back.get(self.next.1).filter(|m| m.step == i) {
            self.next.1 += 1;
            match memory.root {
                Root::Block(b) => self.allocator.release(b as usize),
                Root::Input(n) => self.allocator.release_input(n as usize),
                _ => {}
            }
        }
    }

    fn run(&mut self, step: &Step, resolved: &ResolvedStep) -> Result<()> {
        let device = &self.exe.device;
        match (step, resolved) {
            (_, ResolvedStep::Skip) => Ok(()),
            (Step::Launch { kernel, operands, results, .. }, ResolvedStep::Launch { symbols, grid }) => {
                self.scratch.clear();
                let arguments = operands.iter().chain(results);
                self.scratch.extend(arguments.map(|b| self.addresses[b.0 as usize]));
                let (module, index) = self.exe.kernels[*kernel as usize];
                let launch = Launch { buffers: &self.scratch, symbols, grid: *grid };
                // SAFETY: the resolver checked that every buffer lies in its memory; the kernel is the compiler's.
                unsafe { self.exe.modules[module].launch(index, &launch, self.stream) }
            }
            (Step::Product(p), ResolvedStep::Product { size, strides }) => {
                let matrix = |m: &Matrix, s: [i64; 3]| ResolvedMatrix {
                    ptr: self.addresses[m.buffer.0 as usize],
                    dtype: self.resolved.buffers[m.buffer.0 as usize].dtype,
                    batch_stride: s[0],
                    row_stride: s[1],
                    col_stride: s[2],
                };
                let [m, n, k, batch] = size.map(|x| x as usize);
                let product = ResolvedProduct {
                    lhs: matrix(&p.lhs, strides[0]),
                    rhs: matrix(&p.rhs, strides[1]),
                    out: matrix(&p.out, strides[2]),
                    bias: p
                        .bias
                        .map(|b| (self.addresses[b.0 as usize], self.resolved.buffers[b.0 as usize].dtype)),
                    epilogue: p.epilogue,
                    m,
                    n,
                    k,
                    batch,
                };
                // SAFETY: the resolver checked that the matrices lie in their buffers.
                unsafe { device.product(&product, self.workspace, self.stream) }
            }
            (Step::Convolution(c), _) => {
                let convolution = ResolvedConvolution {
                    input: self.tensor(c.input),
                    weight: self.tensor(c.weight),
                    out: self.tensor(c.out),
                    stride: &c.stride,
                    padding: &c.padding,
                    dilation: &c.dilation,
                    groups: c.groups,
                };
                // SAFETY: the resolver checked that the buffers lie in their memory.
                unsafe { device.convolution(&convolution, self.workspace, self.stream) }
            }
            (Step::Copy { from, to }, _) => {
                let (src, dst) = (self.tensor(*from), self.tensor(*to));
                // SAFETY: as above; the verifier refuses copies between overlapping buffers.
                unsafe {
                    if src.is_contiguous() && dst.is_contiguous() {
                        let bytes = src.elements() as usize * src.dtype.size();
                        device.copy(dst.ptr, src.ptr, bytes, self.stream)
                    } else {
                        device.copy_strided(&dst, &src, self.stream)
                    }
                }
            }
            (Step::HostCall(h), ResolvedStep::HostCall { symbols }) => {
                let inputs: Vec<_> = h.inputs.iter().map(|b| self.tensor(*b)).collect();
                let outputs: Vec<_> = h.outputs.iter().map(|b| self.tensor(*b)).collect();
                self.host
                    .call(h, &inputs, symbols, &outputs, self.stream)
                    .map_err(|e| e.at(format_args!("host call {}", h.name)))
            }
            _ => Err(err!(Plan, "a step and its sizes do not fit").next("report this as a bug")),
        }
    }
}
