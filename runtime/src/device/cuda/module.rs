//! Loaded kernels and their launch.

use super::driver::{Context, handle};
use super::error::{check, failure};
use crate::device::{DevicePtr, Launch, Stream};
use crate::error::{ErrorKind, Result};
use cudarc::driver::sys::{self, CUfunction, CUfunction_attribute, CUmodule};
use std::ffi::{CString, c_void};
use std::sync::Arc;

/// A cubin in the context. Unloads when the last of its functions is dropped.
#[derive(Debug)]
pub struct LoadedModule {
    context: Arc<Context>,
    raw: CUmodule,
}

// SAFETY: module handles may be used from any thread with the context current.
unsafe impl Send for LoadedModule {}
// SAFETY: as above; the driver locks.
unsafe impl Sync for LoadedModule {}

impl LoadedModule {
    /// Loads a cubin (or PTX, which then is assembled on this thread).
    pub fn load(context: &Arc<Context>, image: &[u8], name: &str) -> Result<Arc<Self>> {
        if image.is_empty() {
            return Err(failure(
                ErrorKind::Artifact,
                format!("loading '{name}'"),
                "the image is empty",
                "compile it again",
            ));
        }
        // The driver reads PTX up to a zero byte; a cubin has its length in its header, and one more byte harms none.
        let mut bytes = image.to_vec();
        bytes.push(0);
        let _entered = context.enter()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: the context is current; the driver copies the image.
        check(unsafe { sys::cuModuleLoadData(&mut raw, bytes.as_ptr().cast()) }, || {
            let (major, minor) = context.info().capability;
            format!("loading '{name}' on a GPU of architecture sm_{major}{minor}")
        })?;
        Ok(Arc::new(Self { context: context.clone(), raw }))
    }

    /// A kernel, ready for blocks of `block` threads with `shared_bytes` of dynamic shared memory.
    pub fn function(self: &Arc<Self>, name: &str, block: u32, shared_bytes: u32) -> Result<Function> {
        let bad = |reason: String, next| {
            failure(ErrorKind::Artifact, format!("preparing kernel '{name}'"), reason, next)
        };
        let c_name = CString::new(name)
            .map_err(|_| bad("its name has a zero byte".into(), "compile it again: the plan is damaged"))?;
        let _entered = self.context.enter()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: the module is live, the name nul-terminated.
        check(unsafe { sys::cuModuleGetFunction(&mut raw, self.raw, c_name.as_ptr()) }, || {
            format!("looking for kernel '{name}'")
        })?;
        let function = Function { module: self.clone(), raw, name: name.into(), block, shared_bytes };
        let most = function.attribute(CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?;
        if block == 0 || block > most {
            return Err(bad(
                format!("blocks of {block} threads, but with its registers it can have 1 to {most}"),
                "choose a schedule with fewer threads a block, or limit its registers",
            ));
        }
        let fixed = function.attribute(CUfunction_attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?;
        let limit = self.context.info().shared_bytes_per_block;
        if fixed.saturating_add(shared_bytes) > limit {
            return Err(bad(
                format!("{fixed} + {shared_bytes} bytes of shared memory; the GPU allows {limit} a block"),
                "choose a schedule with smaller tiles",
            ));
        }
        // More than 48 KiB in all has to be asked for; asking for less is harmless.
        if fixed + shared_bytes > 48 << 10 {
            let which = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: a live function.
            check(unsafe { sys::cuFuncSetAttribute(raw, which, shared_bytes as i32) }, || {
                format!("asking for {shared_bytes} bytes of shared memory for '{name}'")
            })?;
        }
        Ok(function)
    }
}

impl Drop for LoadedModule {
    fn drop(&mut self) {
        if let Ok(_entered) = self.context.enter() {
            // SAFETY: ours, and no function of it is left.
            let _ = unsafe { sys::cuModuleUnload(self.raw) };
        }
    }
}

/// A kernel with its block size.
#[derive(Debug)]
pub struct Function {
    module: Arc<LoadedModule>,
    raw: CUfunction,
    name: String,
    block: u32,
    shared_bytes: u32,
}

// SAFETY: function handles may be used from any thread with the context current.
unsafe impl Send for Function {}
// SAFETY: as above; the driver locks.
unsafe impl Sync for Function {}

/// The arguments of a launch as the driver takes them: every parameter of the kernel ABI is eight bytes.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Arguments {
    words: Vec<u64>,
}

impl Arguments {
    /// Pointers first, then symbols.
    pub fn pack(buffers: &[DevicePtr], symbols: &[i64]) -> Self {
        let pointers = buffers.iter().map(|b| b.0);
        Self { words: pointers.chain(symbols.iter().map(|&s| s as u64)).collect() }
    }

    /// One address per word. Valid while `self` is not changed or moved.
    fn addresses(&mut self) -> Vec<*mut c_void> {
        self.words.iter_mut().map(|w| std::ptr::from_mut(w).cast()).collect()
    }
}

/// The largest grid per dimension, on every GPU since 2012.
const GRID_LIMITS: [u64; 3] = [i32::MAX as u64, 65535, 65535];

/// A grid as the driver takes it; `None` where nothing runs.
pub fn grid(kernel: &str, blocks: [u64; 3]) -> Result<Option<[u32; 3]>> {
    if blocks.contains(&0) {
        return Ok(None);
    }
    if let Some(d) = (0..3).find(|&d| blocks[d] > GRID_LIMITS[d]) {
        return Err(failure(
            ErrorKind::Device,
            format!("launching '{kernel}'"),
            format!("{} blocks in dimension {d}; a GPU takes {}", blocks[d], GRID_LIMITS[d]),
            "choose a schedule with more work a block, or run smaller sizes",
        ));
    }
    Ok(Some(blocks.map(|b| b as u32)))
}

impl Function {
    fn attribute(&self, which: CUfunction_attribute) -> Result<u32> {
        let _entered = self.module.context.enter()?;
        let mut value = 0;
        // SAFETY: a live function.
        check(unsafe { sys::cuFuncGetAttribute(&mut value, which, self.raw) }, || {
            format!("asking '{}' for {which:?}", self.name)
        })?;
        Ok(value.max(0) as u32)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Registers a thread.
    pub fn registers(&self) -> Result<u32> {
        self.attribute(CUfunction_attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)
    }

    /// Bytes of local memory a thread: private arrays and spilled registers.
    pub fn local_bytes(&self) -> Result<u32> {
        self.attribute(CUfunction_attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)
    }

    /// How many of its blocks run on one multiprocessor at a time.
    pub fn occupancy(&self) -> Result<u32> {
        let _entered = self.module.context.enter()?;
        let mut blocks = 0;
        // SAFETY: a live function.
        let code = unsafe {
            sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(
                &mut blocks,
                self.raw,
                self.block as i32,
                self.shared_bytes as usize,
            )
        };
        check(code, || format!("asking for the occupancy of '{}'", self.name))?;
        Ok(blocks.max(0) as u32)
    }

    /// Queues the kernel.
    ///
    /// # Safety
    /// The arguments must fit the kernel, and the buffers must be this context's memory.
    pub unsafe fn launch(&self, launch: &Launch<'_>, stream: Stream) -> Result<()> {
        // SAFETY: by this function's contract.
        unsafe { self.launch_packed(Arguments::pack(launch.buffers, launch.symbols), launch.grid, stream) }
    }

    /// As [`Function::launch`], with the arguments packed already.
    ///
    /// # Safety
    /// As for [`Function::launch`].
    pub unsafe fn launch_packed(
        &self,
        mut arguments: Arguments,
        blocks: [u64; 3],
        stream: Stream,
    ) -> Result<()> {
        let Some([x, y, z]) = grid(&self.name, blocks)? else { return Ok(()) };
        let mut parameters = arguments.addresses();
        let _entered = self.module.context.enter()?;
        // SAFETY: parameters hold the address of each argument, which the driver copies before it returns.
        let code = unsafe {
            sys::cuLaunchKernel(
                self.raw,
                x,
                y,
                z,
                self.block,
                1,
                1,
                self.shared_bytes,
                handle(stream),
                parameters.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        };
        check(code, || format!("launching '{}' with {x}x{y}x{z} blocks of {} threads", self.name, self.block))
    }

    /// As [`Function::launch`], with clusters of `cluster` blocks along x that share distributed memory.
    ///
    /// # Safety
    /// As for [`Function::launch`].
    pub unsafe fn launch_cluster(&self, launch: &Launch<'_>, cluster: u32, stream: Stream) -> Result<()> {
        let Some([x, y, z]) = grid(&self.name, launch.grid)? else { return Ok(()) };
        let (major, minor) = self.module.context.info().capability;
        let refuse = |reason: String, next| {
            Err(failure(ErrorKind::Device, format!("launching '{}' in clusters", self.name), reason, next))
        };
        if major < 9 {
            return refuse(
                format!("sm_{major}{minor} has no clusters"),
                "compile for this GPU's architecture",
            );
        }
        if cluster == 0 || !x.is_multiple_of(cluster) {
            return refuse(
                format!("{x} blocks do not divide into clusters of {cluster}"),
                "round the grid up to whole clusters",
            );
        }
        let mut arguments = Arguments::pack(launch.buffers, launch.symbols);
        let mut parameters = arguments.addresses();
        // SAFETY: all zeros is a valid value of the union of plain data.
        let mut value: sys::CUlaunchAttributeValue = unsafe { std::mem::zeroed() };
        value.clusterDim = sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x: cluster, y: 1, z: 1 };
        let mut attribute = sys::CUlaunchAttribute {
            id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
            pad: [0; 4],
            value,
        };
        let config = sys::CUlaunchConfig {
            gridDimX: x,
            gridDimY: y,
            gridDimZ: z,
            blockDimX: self.block,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: self.shared_bytes,
            hStream: handle(stream),
            attrs: &mut attribute,
            numAttrs: 1,
        };
        let _entered = self.module.context.enter()?;
        // SAFETY: as in `launch_packed`; config and attribute outlive the call.
        let code = unsafe {
            sys::cuLaunchKernelEx(&config, self.raw, parameters.as_mut_ptr(), std::ptr::null_mut())
        };
        check(code, || format!("launching '{}' in clusters of {cluster}", self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_pointers_then_symbols() {
        let mut a = Arguments::pack(&[DevicePtr(0x1000), DevicePtr(0x2000)], &[7, -1]);
        assert_eq!(a.words, [0x1000, 0x2000, 7, u64::MAX]);
        // SAFETY: the addresses point at the words, which live and do not move here.
        let read: Vec<u64> = a.addresses().iter().map(|p| unsafe { *p.cast::<u64>() }).collect();
        assert_eq!(read, a.words);
    }

    #[test]
    fn grids() {
        assert_eq!(grid("k", [1, 0, 1]).unwrap(), None);
        assert_eq!(grid("k", [i32::MAX as u64, 65535, 1]).unwrap(), Some([i32::MAX as u32, 65535, 1]));
        assert!(grid("k", [1, 65536, 1]).is_err());
        let e = grid("k", [1 << 31, 1, 1]).unwrap_err();
        assert!(e.reason().contains("2147483648 blocks in dimension 0"), "{e}");
    }
}
