//! The CUDA device as the plan's interpreter sees it.

use super::conv::Convolutions;
use super::conv_layout;
use super::copy::Copier;
use super::driver::Context;
use super::error::failure;
use super::graph::Graph;
use super::link::{CubinCache, LinkOptions, NoCache, Ptx, link_all};
use super::memory;
use super::module::{Function, LoadedModule};
use super::product::{Operands, Products};
use super::product_layout::{self, Bias};
use super::stream::{Event, OwnedStream};
use super::workspace::{WORKSPACE_BYTES, Workspaces};
use crate::artifact::{Image, ImageKind};
use crate::device::{
    Device, DevicePtr, Launch, Libraries, Module, ResolvedConvolution, ResolvedProduct, Stream, TensorRef,
    Timestamp,
};
use crate::error::{ErrorKind, Result, err};
use crate::plan::{DeviceKind, Epilogue, Kernel};
use std::sync::{Arc, OnceLock};

/// A GPU.
pub struct CudaDevice {
    // Fields drop in this order: what holds GPU objects before the context.
    products: OnceLock<Result<Products>>,
    convolutions: OnceLock<Result<Convolutions>>,
    workspaces: Workspaces,
    copier: Copier,
    cache: Box<dyn CubinCache + Send>,
    options: LinkOptions,
    context: Arc<Context>,
}

impl CudaDevice {
    /// GPU `ordinal`, in its primary context.
    pub fn new(ordinal: u32) -> Result<Self> {
        Ok(Self {
            products: OnceLock::new(),
            convolutions: OnceLock::new(),
            workspaces: Workspaces::default(),
            copier: Copier::default(),
            cache: Box::new(NoCache),
            options: LinkOptions::default(),
            context: Context::primary(ordinal)?,
        })
    }

    /// Keeps the binaries of PTX images in `cache`.
    #[must_use]
    pub fn with_cache(mut self, cache: impl CubinCache + Send + 'static) -> Self {
        self.cache = Box::new(cache);
        self
    }

    /// Assembles PTX images with `options`.
    #[must_use]
    pub fn with_link_options(mut self, options: LinkOptions) -> Self {
        self.options = options;
        self
    }

    /// The context.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// A stream for a program that has none. CUDA graphs cannot be recorded on the default stream.
    pub fn new_stream(&self) -> Result<OwnedStream> {
        OwnedStream::new(&self.context)
    }

    /// Records what `work` queues in `stream` for replay.
    pub fn record_graph(&self, stream: Stream, work: impl FnOnce() -> Result<()>) -> Result<Graph> {
        Graph::record(&self.context, stream, work)
    }

    /// cuBLASLt, loaded when first asked for.
    pub fn products(&self) -> Result<&Products> {
        self.products.get_or_init(|| Products::new(&self.context)).as_ref().map_err(Clone::clone)
    }

    /// cuDNN, loaded when first asked for.
    pub fn convolutions(&self) -> Result<&Convolutions> {
        self.convolutions.get_or_init(|| Convolutions::new(&self.context)).as_ref().map_err(Clone::clone)
    }

    /// Loads several images at once, their PTX assembled on all processors.
    pub fn load_all(&self, images: &[(&Image, &[&Kernel])]) -> Result<Vec<CudaModule>> {
        let mut texts = Vec::new();
        for (at, (image, kernels)) in images.iter().enumerate() {
            let name = kernels.first().map_or("an image", |k| k.name.as_str());
            check_image(image, name)?;
            if image.kind == ImageKind::Ptx {
                texts.push((at, Ptx { name, text: ptx_text(image, name)? }));
            }
        }
        let ptx: Vec<Ptx<'_>> = texts.iter().map(|(_, p)| p.clone()).collect();
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let cubins = link_all(&self.context, &ptx, &self.options, threads, &*self.cache)?;
        for (cubin, ptx) in cubins.iter().zip(&ptx) {
            for warning in &cubin.warnings {
                tracing::warn!(kernel = ptx.name, "{warning}");
            }
            for r in cubin.resources.iter().filter(|r| r.spill_stores + r.spill_loads > 0) {
                tracing::warn!(
                    kernel = r.kernel,
                    registers = r.registers,
                    bytes = r.spill_stores,
                    "registers spill"
                );
            }
        }
        let mut binaries: Vec<&[u8]> = images.iter().map(|(image, _)| &image.bytes[..]).collect();
        for ((at, _), cubin) in texts.iter().zip(&cubins) {
            binaries[*at] = &cubin.bytes;
        }
        let load = |(bytes, (_, kernels)): (&[u8], &(&Image, &[&Kernel]))| self.load_binary(bytes, kernels);
        binaries.into_iter().zip(images).map(load).collect()
    }

    fn load_binary(&self, bytes: &[u8], kernels: &[&Kernel]) -> Result<CudaModule> {
        let name = kernels.first().map_or("an image without kernels", |k| k.name.as_str());
        let loaded = LoadedModule::load(&self.context, bytes, name)?;
        let function = |k: &&Kernel| loaded.function(&k.name, k.block, k.shared_bytes);
        Ok(CudaModule { functions: kernels.iter().map(function).collect::<Result<_>>()? })
    }

    /// What the caller gave, or a piece of our own.
    fn workspace(&self, given: Option<DevicePtr>, stream: Stream) -> Result<DevicePtr> {
        given.map_or_else(|| self.workspaces.of(&self.context, stream), Ok)
    }

    /// A product of no terms: zeros, or the bias.
    unsafe fn empty_product(&self, p: &ResolvedProduct, stream: Stream) -> Result<()> {
        let shape = [p.batch as i64, p.m as i64, p.n as i64];
        let strides = [p.out.batch_stride, p.out.row_stride, p.out.col_stride];
        let out = TensorRef { ptr: p.out.ptr, dtype: p.out.dtype, shape: &shape, strides: &strides };
        match (p.bias, p.epilogue) {
            // Every activation here maps 0 to 0.
            // SAFETY: the result is the caller's, for writing.
            (None, _) => unsafe { self.copier.zero(&self.context, &out, stream) },
            // SAFETY: the caller's promises.
            (Some(_), Epilogue::None) => unsafe { self.spread_bias(p, stream) },
            (Some(_), _) => Err(err!(
                Unsupported,
                "no library path for this product: an activation of a bias alone (k = 0)"
            )
            .next("use an own kernel")),
        }
    }

    /// Writes the bias to every row of the result.
    unsafe fn spread_bias(&self, p: &ResolvedProduct, stream: Stream) -> Result<()> {
        let Some((ptr, dtype)) = p.bias else { return Ok(()) };
        let shape = [p.batch as i64, p.m as i64, p.n as i64];
        let strides = [p.out.batch_stride, p.out.row_stride, p.out.col_stride];
        let out = TensorRef { ptr: p.out.ptr, dtype: p.out.dtype, shape: &shape, strides: &strides };
        let bias = TensorRef { ptr, dtype, shape: &shape, strides: &[0, 0, 1] };
        // SAFETY: the bias has `n` elements, the result is the caller's, for writing.
        unsafe { self.copier.copy(&self.context, &out, &bias, stream) }
    }
}

fn event(timestamp: &Timestamp) -> Result<&Event> {
    timestamp.downcast_ref::<Event>().ok_or_else(|| {
        err!(Device, "a timestamp of another device").next("measure with the device that made the marks")
    })
}

fn check_image(image: &Image, name: &str) -> Result<()> {
    if image.kind == ImageKind::ElfX86_64 {
        return Err(failure(
            ErrorKind::Artifact,
            format!("loading '{name}'"),
            format!("its image is {} for {}, not for a GPU", image.kind, image.target),
            "compile with `--device cuda`, or run on the CPU",
        ));
    }
    Ok(())
}

fn ptx_text<'a>(image: &'a Image, name: &str) -> Result<&'a str> {
    std::str::from_utf8(&image.bytes).map_err(|e| {
        failure(
            ErrorKind::Artifact,
            format!("loading '{name}'"),
            format!("its PTX is not text: {e}"),
            "compile it again: the image is damaged",
        )
    })
}

/// The loaded kernels of one image.
pub struct CudaModule {
    functions: Vec<Function>,
}

impl CudaModule {
    /// The kernels, in the order they were asked for.
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }
}

impl Module for CudaModule {
    unsafe fn launch(&self, kernel: usize, launch: &Launch<'_>, stream: Stream) -> Result<()> {
        let Some(function) = self.functions.get(kernel) else {
            return Err(err!(Device, "launching kernel {kernel} of {}", self.functions.len())
                .next("report this plan as a bug"));
        };
        // SAFETY: by this function's contract.
        unsafe { function.launch(launch, stream) }
    }
}

impl Device for CudaDevice {
    fn kind(&self) -> DeviceKind {
        DeviceKind::Cuda
    }

    fn name(&self) -> String {
        self.context.info().name.clone()
    }

    fn libraries(&self) -> (Libraries, Vec<crate::Error>) {
        let (products, convolutions) = (super::library::cublaslt(), super::library::cudnn());
        let found = Libraries { products: products.is_ok(), convolutions: convolutions.is_ok() };
        (found, [products, convolutions].into_iter().filter_map(Result::err).collect())
    }

    fn alloc(&self, bytes: usize, stream: Stream) -> Result<DevicePtr> {
        memory::alloc(&self.context, bytes, stream)
    }

    unsafe fn free(&self, ptr: DevicePtr, _bytes: usize, stream: Stream) {
        // SAFETY: by this function's contract.
        unsafe { memory::free(&self.context, ptr, stream) }
    }

    unsafe fn copy_from_host(&self, dst: DevicePtr, src: &[u8], stream: Stream) -> Result<()> {
        // SAFETY: by this function's contract.
        unsafe { memory::upload(&self.context, dst, src, stream) }
    }

    unsafe fn copy_to_host(&self, dst: &mut [u8], src: DevicePtr, stream: Stream) -> Result<()> {
        // SAFETY: by this function's contract.
        unsafe { memory::download(&self.context, dst, src, stream) }
    }

    unsafe fn copy(&self, dst: DevicePtr, src: DevicePtr, bytes: usize, stream: Stream) -> Result<()> {
        // SAFETY: by this function's contract.
        unsafe { memory::copy(&self.context, dst, src, bytes, stream) }
    }

    unsafe fn copy_strided(&self, dst: &TensorRef<'_>, src: &TensorRef<'_>, stream: Stream) -> Result<()> {
        // SAFETY: by this function's contract.
        unsafe { self.copier.copy(&self.context, dst, src, stream) }
    }

    fn load(&self, image: &Image, kernels: &[&Kernel]) -> Result<Box<dyn Module>> {
        let loaded = self.load_all(&[(image, kernels)])?;
        let one: Option<CudaModule> = loaded.into_iter().next();
        Ok(Box::new(one.expect("one image gives one module")))
    }

    fn load_several(&self, images: &[(&Image, &[&Kernel])]) -> Result<Vec<Box<dyn Module>>> {
        let modules = self.load_all(images)?;
        Ok(modules.into_iter().map(|m| Box::new(m) as Box<dyn Module>).collect())
    }

    fn workspace_bytes(&self) -> usize {
        WORKSPACE_BYTES
    }

    unsafe fn product(
        &self,
        p: &ResolvedProduct,
        workspace: Option<DevicePtr>,
        stream: Stream,
    ) -> Result<()> {
        if p.m == 0 || p.n == 0 || p.batch == 0 {
            return Ok(());
        }
        if p.k == 0 {
            // SAFETY: by this function's contract.
            return unsafe { self.empty_product(p, stream) };
        }
        let mut problem = product_layout::problem(p)?;
        let products = self.products()?;
        if problem.bias == Bias::Epilogue
            && products.prepare(&problem).is_err_and(|e| e.kind() == ErrorKind::Unsupported)
        {
            problem.bias = Bias::Prefilled;
        }
        if problem.bias == Bias::Prefilled {
            // SAFETY: by this function's contract.
            unsafe { self.spread_bias(p, stream) }?;
        }
        let (a, b) = if problem.swapped { (p.rhs.ptr, p.lhs.ptr) } else { (p.lhs.ptr, p.rhs.ptr) };
        let bias = p.bias.map_or(DevicePtr::NULL, |(ptr, _)| ptr);
        let operands = Operands { a, b, d: p.out.ptr, bias };
        // SAFETY: by this function's contract.
        unsafe { products.run(&problem, operands, self.workspace(workspace, stream)?, stream) }
    }

    unsafe fn convolution(
        &self,
        c: &ResolvedConvolution<'_>,
        workspace: Option<DevicePtr>,
        stream: Stream,
    ) -> Result<()> {
        if c.out.elements() == 0 {
            return Ok(());
        }
        if c.input.elements() == 0 || c.weight.elements() == 0 {
            // A sum of no terms.
            // SAFETY: by this function's contract.
            return unsafe { self.copier.zero(&self.context, &c.out, stream) };
        }
        let problem = conv_layout::problem(c)?;
        let addresses = [c.input.ptr, c.weight.ptr, c.out.ptr];
        // SAFETY: by this function's contract.
        unsafe { self.convolutions()?.run(&problem, addresses, self.workspace(workspace, stream)?, stream) }
    }

    fn synchronize(&self, stream: Stream) -> Result<()> {
        self.context.wait_for(stream)
    }

    fn record(&self, stream: Stream) -> Result<Timestamp> {
        let event = Event::new(&self.context)?;
        event.record(stream)?;
        Ok(Box::new(event))
    }

    fn elapsed_ns(&self, from: &Timestamp, to: &Timestamp) -> Result<u64> {
        let (from, to) = (event(from)?, event(to)?);
        to.synchronize()?;
        Ok((f64::from(to.milliseconds_since(from)?) * 1e6).round() as u64)
    }
}

/// Whether this machine has a usable GPU; the reason where not.
pub fn probe() -> Result<u32> {
    let count = super::driver::device_count()?;
    if count == 0 {
        return Err(failure(
            ErrorKind::Device,
            "looking for a GPU",
            "the driver sees none",
            "run `nvidia-smi`; check CUDA_VISIBLE_DEVICES, or use the CPU device",
        ));
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_for_other_machines_are_refused() {
        let image = |kind, bytes: &[u8]| Image { kind, target: "x86-64-v3".into(), bytes: bytes.into() };
        let e = check_image(&image(ImageKind::ElfX86_64, b"\x7fELF"), "k0").unwrap_err();
        insta::assert_snapshot!(e.to_string(), @r"
        loading 'k0': its image is elf-x86_64 for x86-64-v3, not for a GPU
          next: compile with `--device cuda`, or run on the CPU
        ");
        let e = ptx_text(&image(ImageKind::Ptx, b"\xff"), "k0").unwrap_err().to_string();
        assert!(e.contains("is not text"), "{e}");
    }

    #[test]
    fn without_a_gpu_opening_says_what_to_do() {
        if probe().is_ok() {
            eprintln!("this machine has a GPU: nothing to see here; run the self-test");
            return;
        }
        let Err(e) = CudaDevice::new(0) else { panic!("opened a GPU that is not there") };
        assert_eq!(e.kind(), ErrorKind::Device);
        assert!(!e.next_step().is_empty(), "{e}");
        assert!(probe().unwrap_err().to_string().contains("next: "));
    }
}
