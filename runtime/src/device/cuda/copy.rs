//! Strided copies: the driver's pitched copies where they fit, else one small PTX kernel.

use super::copy_plan::{CopyPlan, Dim, MAX_RANK, plan};
use super::driver::{Context, handle};
use super::error::check;
use super::link::{LinkOptions, Ptx, link};
use super::module::{Arguments, Function, LoadedModule};
use super::{memory, memory::Fixed};
use crate::device::{DevicePtr, Stream, TensorRef};
use crate::error::Result;
use cudarc::driver::sys;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, OnceLock};

const BLOCK: u32 = 256;

/// The copy kernels of a context, each made when first needed.
#[derive(Debug, Default)]
pub struct Copier {
    kernels: Mutex<BTreeMap<(u64, bool), Arc<Function>>>,
    zero: OnceLock<Fixed>,
}

impl Copier {
    /// Queues a copy of all elements of `from` to `to`.
    ///
    /// # Safety
    /// Both must be memory of this context and not overlap.
    pub unsafe fn copy(
        &self,
        context: &Arc<Context>,
        to: &TensorRef<'_>,
        from: &TensorRef<'_>,
        stream: Stream,
    ) -> Result<()> {
        match plan(to, from, context.info().max_pitch)? {
            CopyPlan::Nothing => Ok(()),
            // SAFETY: both sides are one run of that many bytes.
            CopyPlan::Flat { bytes } => unsafe {
                memory::copy(context, to.ptr, from.ptr, bytes as usize, stream)
            },
            CopyPlan::Rows { width, height, depth, to: t, from: f } => {
                let job = pitched((to.ptr, t), (from.ptr, f), [width, height, depth]);
                let _entered = context.enter()?;
                // SAFETY: the plan stays within both tensors.
                check(unsafe { sys::cuMemcpy3DAsync_v2(&job, handle(stream)) }, || {
                    format!("copying {depth}x{height} rows of {width} bytes on the GPU")
                })
            }
            CopyPlan::Kernel { element, dims } => {
                let total: u64 = dims.iter().map(|d| d.size).product();
                let kernel = self.kernel(context, element, total > u64::from(u32::MAX))?;
                let arguments = arguments(to.ptr, from.ptr, total, &dims);
                // SAFETY: the plan stays within both tensors; the arguments are the kernel's own.
                unsafe { kernel.launch_packed(arguments, [total.div_ceil(u64::from(BLOCK)), 1, 1], stream) }
            }
        }
    }

    /// Queues the setting of all elements of `to` to zero.
    ///
    /// # Safety
    /// `to` must be memory of this context.
    pub unsafe fn zero(&self, context: &Arc<Context>, to: &TensorRef<'_>, stream: Stream) -> Result<()> {
        let ptr = self.zero_element(context)?;
        let strides = vec![0; to.shape.len()];
        let from = TensorRef { ptr, strides: &strides, ..*to };
        // SAFETY: by this function's contract; every element of the source is the one zero.
        unsafe { self.copy(context, to, &from, stream) }
    }

    fn zero_element(&self, context: &Arc<Context>) -> Result<DevicePtr> {
        if let Some(zero) = self.zero.get() {
            return Ok(zero.ptr());
        }
        let made = Fixed::new(context, 256)?;
        // SAFETY: just allocated; the default stream is always live.
        unsafe { memory::upload(context, made.ptr(), &[0; 256], Stream(0)) }?;
        Ok(self.zero.get_or_init(|| made).ptr())
    }

    fn kernel(&self, context: &Arc<Context>, element: u64, wide: bool) -> Result<Arc<Function>> {
        let mut kernels = self.kernels.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(kernel) = kernels.get(&(element, wide)) {
            return Ok(kernel.clone());
        }
        let text = ptx(element, wide);
        let cubin = link(context, &Ptx { name: "copy", text: &text }, &LinkOptions::default())?;
        let function = LoadedModule::load(context, &cubin.bytes, "copy")?.function("copy", BLOCK, 0)?;
        let function = Arc::new(function);
        kernels.insert((element, wide), function.clone());
        Ok(function)
    }
}

/// A pitched copy within the GPU, of `[width, height, depth]`; a side is its address, bytes a row and rows a slice.
fn pitched(
    (to, (to_pitch, to_rows)): (DevicePtr, (u64, u64)),
    (from, (from_pitch, from_rows)): (DevicePtr, (u64, u64)),
    [width, height, depth]: [u64; 3],
) -> sys::CUDA_MEMCPY3D {
    let (device, null) = (sys::CUmemorytype::CU_MEMORYTYPE_DEVICE, std::ptr::null_mut());
    sys::CUDA_MEMCPY3D {
        srcXInBytes: 0,
        srcY: 0,
        srcZ: 0,
        srcLOD: 0,
        srcMemoryType: device,
        srcHost: std::ptr::null(),
        srcDevice: from.0,
        srcArray: std::ptr::null_mut(),
        reserved0: null,
        srcPitch: from_pitch as usize,
        srcHeight: from_rows as usize,
        dstXInBytes: 0,
        dstY: 0,
        dstZ: 0,
        dstLOD: 0,
        dstMemoryType: device,
        dstHost: null,
        dstDevice: to.0,
        dstArray: std::ptr::null_mut(),
        reserved1: null,
        dstPitch: to_pitch as usize,
        dstHeight: to_rows as usize,
        WidthInBytes: width as usize,
        Height: height as usize,
        Depth: depth as usize,
    }
}

/// Destination, source, elements, rank, then per dimension size and strides in bytes.
fn arguments(to: DevicePtr, from: DevicePtr, total: u64, dims: &[Dim]) -> Arguments {
    let mut numbers = vec![total as i64, dims.len() as i64];
    for at in 0..MAX_RANK {
        let d = dims.get(at).copied().unwrap_or(Dim { size: 1, to: 0, from: 0 });
        numbers.extend([d.size as i64, d.to, d.from]);
    }
    Arguments::pack(&[to, from], &numbers)
}

/// The kernel for elements of 1, 2, 4, 8 or 16 bytes; `wide` counts elements in 64 bits.
pub fn ptx(element: u64, wide: bool) -> String {
    let mut parameters =
        String::from(".param .u64 to, .param .u64 from, .param .u64 total, .param .u64 rank");
    let mut body = String::new();
    for d in 0..MAX_RANK {
        _ = write!(parameters, ",\n  .param .u64 size{d}, .param .u64 to{d}, .param .u64 from{d}");
        // The outermost dimension needs no division: what is left of the index is its own.
        let divide = if wide {
            "  div.u64 %quotient, %index, %size;
  mul.lo.u64 %part, %quotient, %size;
  sub.u64 %here, %index, %part;
  mov.u64 %index, %quotient;"
        } else {
            "  cvt.u32.u64 %narrow_index, %index;
  cvt.u32.u64 %narrow_size, %size;
  div.u32 %narrow_quotient, %narrow_index, %narrow_size;
  mul.lo.u32 %narrow_part, %narrow_quotient, %narrow_size;
  sub.u32 %narrow_part, %narrow_index, %narrow_part;
  cvt.u64.u32 %here, %narrow_part;
  cvt.u64.u32 %index, %narrow_quotient;"
        };
        _ = writeln!(
            body,
            "  setp.le.u64 %done, %rank, {d};
  @%done bra MOVE;
  ld.param.u64 %size, [size{d}];
  mov.u64 %here, %index;
  setp.eq.u64 %last, %rank, {next};
  @%last bra ADD{d};
{divide}
ADD{d}:
  ld.param.u64 %stride, [to{d}];
  mad.lo.u64 %to, %here, %stride, %to;
  ld.param.u64 %stride, [from{d}];
  mad.lo.u64 %from, %here, %stride, %from;",
            next = d + 1,
        );
    }
    // Bytes have no registers of their own.
    let (registers, values, kind) = match element {
        1 => (".reg .b16 %v<2>;", "%v0", "u8"),
        2 => (".reg .b16 %v<2>;", "%v0", "u16"),
        4 => (".reg .b32 %v<2>;", "%v0", "u32"),
        8 => (".reg .b64 %v<2>;", "%v0", "u64"),
        _ => (".reg .b64 %v<2>;", "{%v0, %v1}", "v2.u64"),
    };
    format!(
        ".version 7.0
.target sm_70
.address_size 64
.visible .entry copy(
  {parameters}
)
{{
  .reg .pred %done, %last;
  .reg .b32 %block, %threads, %thread;
  .reg .b32 %narrow_index, %narrow_size, %narrow_quotient, %narrow_part;
  .reg .b64 %index, %size, %quotient, %part, %here, %stride, %to, %from, %total, %rank, %offset;
  {registers}
  mov.u32 %block, %ctaid.x;
  mov.u32 %threads, %ntid.x;
  mov.u32 %thread, %tid.x;
  mul.wide.u32 %index, %block, %threads;
  cvt.u64.u32 %offset, %thread;
  add.u64 %index, %index, %offset;
  ld.param.u64 %total, [total];
  setp.ge.u64 %done, %index, %total;
  @%done bra END;
  ld.param.u64 %rank, [rank];
  ld.param.u64 %to, [to];
  ld.param.u64 %from, [from];
  cvta.to.global.u64 %to, %to;
  cvta.to.global.u64 %from, %from;
{body}MOVE:
  ld.global.{kind} {values}, [%from];
  st.global.{kind} [%to], {values};
END:
  ret;
}}
"
    )
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    #[test]
    fn pitched_copies_name_both_sides() {
        let job = pitched((DevicePtr(64), (1200, 10)), (DevicePtr(32), (1024, 5)), [1000, 3, 2]);
        assert_eq!((job.dstDevice, job.dstPitch, job.dstHeight), (64, 1200, 10));
        assert_eq!((job.srcDevice, job.srcPitch, job.srcHeight), (32, 1024, 5));
        assert_eq!((job.WidthInBytes, job.Height, job.Depth), (1000, 3, 2));
    }

    #[test]
    fn arguments_fill_every_dimension() {
        let dims = [Dim { size: 5, to: 4, from: -4 }];
        let a = arguments(DevicePtr(16), DevicePtr(32), 5, &dims);
        let mut want = vec![5, 1, 5, 4, -4];
        want.extend([1, 0, 0].repeat(MAX_RANK - 1));
        assert_eq!(a, Arguments::pack(&[DevicePtr(16), DevicePtr(32)], &want));
    }

    /// The assembler: named in `STRATA_PTXAS`, on the path, or of the Python package `nvidia-cuda-nvcc` in an environment
    /// on the path or under `/opt`. Without one the test says so and passes.
    pub(crate) fn ptxas() -> Option<std::path::PathBuf> {
        let list = |p: &std::path::Path| -> Vec<std::path::PathBuf> {
            std::fs::read_dir(p).into_iter().flatten().flatten().map(|e| e.path()).collect()
        };
        let path: Vec<_> = std::env::var_os("PATH").iter().flat_map(std::env::split_paths).collect();
        let prefixes = path.iter().filter_map(|p| p.parent().map(Into::into)).chain(list("/opt".as_ref()));
        let wheels = prefixes
            .flat_map(|p| list(&p.join("lib")))
            .map(|python| python.join("site-packages/nvidia/cuda_nvcc/bin/ptxas"));
        let named = std::env::var_os("STRATA_PTXAS").map(std::path::PathBuf::from);
        let found =
            named.into_iter().chain(path.iter().map(|p| p.join("ptxas"))).chain(wheels).find(|p| p.is_file());
        if found.is_none() {
            eprintln!("no ptxas here: the copy kernel was not assembled (pip install nvidia-cuda-nvcc-cu12)");
        }
        found
    }

    #[test]
    fn the_assembler_accepts_every_kernel() {
        let Some(ptxas) = ptxas() else { return };
        let folder = tempfile::tempdir().unwrap();
        for element in [1, 2, 4, 8, 16] {
            for wide in [false, true] {
                for target in ["sm_75", "sm_80", "sm_90a"] {
                    let source = folder.path().join("copy.ptx");
                    std::fs::write(&source, ptx(element, wide)).unwrap();
                    let out = std::process::Command::new(&ptxas)
                        .args(["-v", "-arch", target, "-o"])
                        .arg(folder.path().join("copy.cubin"))
                        .arg(&source)
                        .output()
                        .unwrap();
                    let log = String::from_utf8_lossy(&out.stderr);
                    assert!(out.status.success(), "{element} {wide} {target}: {log}");
                    let uses = super::super::link_log::resources(&log);
                    assert_eq!(uses.len(), 1, "{log}");
                    assert_eq!((uses[0].kernel.as_str(), uses[0].spill_stores), ("copy", 0), "{log}");
                    assert!(uses[0].registers > 0, "{log}");
                }
            }
        }
    }
}
