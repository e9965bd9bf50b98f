//! Convolutions through cuDNN.

use super::conv_desc::{Description, describe, wanted_math};
use super::conv_layout::ConvProblem;
use super::cudnn_api as sys;
use super::driver::{Context, handle};
use super::error::check_dnn;
use super::library;
use super::workspace::WORKSPACE_BYTES;
use crate::device::{DevicePtr, Stream};
use crate::dtype::DType;
use crate::error::{Result, err};
use cudarc::cudnn::sys::{
    cudnnConvolutionFwdAlgo_t as Algorithm, cudnnMathType_t as Math, cudnnStatus_t as Status,
};
use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// cuDNN in one context, with the kernels chosen so far.
#[derive(Debug)]
pub struct Convolutions {
    context: Arc<Context>,
    /// A cuDNN handle serves one thread at a time.
    handle: Mutex<Handle>,
    chosen: Mutex<BTreeMap<ConvProblem, Arc<Chosen>>>,
}

#[derive(Debug)]
struct Handle(sys::cudnnHandle_t);
// SAFETY: used by one thread at a time, behind the lock.
unsafe impl Send for Handle {}

/// Descriptors and the algorithms that may run, best first.
#[derive(Debug)]
struct Chosen {
    description: Description,
    candidates: Vec<Candidate>,
    /// The first that has not been refused at run time.
    good: AtomicUsize,
}

// SAFETY: the descriptors are only used while the handle is locked.
unsafe impl Send for Chosen {}
// SAFETY: as above.
unsafe impl Sync for Chosen {}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Candidate {
    algorithm: Algorithm,
    math: Math,
    bytes: usize,
}

impl Convolutions {
    /// Loads cuDNN and makes a handle.
    pub fn new(context: &Arc<Context>) -> Result<Self> {
        library::cudnn()?;
        let _entered = context.enter()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: the library is loaded and the context current.
        check_dnn(unsafe { sys::cudnnCreate(&mut raw) }, || "starting cuDNN".into())?;
        Ok(Self { context: context.clone(), handle: Mutex::new(Handle(raw)), chosen: Mutex::default() })
    }

    /// cuDNN's version, such as 91900.
    pub fn version(&self) -> usize {
        // SAFETY: loaded.
        unsafe { sys::cudnnGetVersion() }
    }

    /// Queues a convolution.
    ///
    /// # Safety
    /// The addresses must be this context's memory and fit the problem.
    pub unsafe fn run(
        &self,
        problem: &ConvProblem,
        [input, weight, out]: [DevicePtr; 3],
        workspace: DevicePtr,
        stream: Stream,
    ) -> Result<()> {
        let _entered = self.context.enter()?;
        let raw = self.handle.lock().unwrap_or_else(|e| e.into_inner());
        // SAFETY: a live handle and stream.
        check_dnn(unsafe { sys::cudnnSetStream(raw.0, handle(stream).cast()) }, || {
            "setting cuDNN's stream".into()
        })?;
        let chosen = self.choose(problem, &raw)?;
        let d = &chosen.description;
        let (one, zero) = ([1.0f32, 0.0], [1.0f64, 0.0]);
        let (alpha, beta): (*const std::ffi::c_void, *const std::ffi::c_void) = match problem.dtype {
            DType::F64 => ((&raw const zero[0]).cast(), (&raw const zero[1]).cast()),
            _ => ((&raw const one[0]).cast(), (&raw const one[1]).cast()),
        };
        let mut at = chosen.good.load(Ordering::Relaxed);
        loop {
            let candidate = chosen.candidates[at];
            // SAFETY: by this function's contract; the descriptors live, and scales are read before the calls return.
            let code = unsafe {
                let code = sys::cudnnSetConvolutionMathType(d.convolution, candidate.math);
                check_dnn(code, || "setting cuDNN's math".into())?;
                sys::cudnnConvolutionForward(
                    raw.0,
                    alpha,
                    d.input,
                    input.as_host(),
                    d.weight,
                    weight.as_host(),
                    d.convolution,
                    candidate.algorithm,
                    workspace.as_host(),
                    candidate.bytes,
                    beta,
                    d.out,
                    out.as_host(),
                )
            };
            // The forecast can promise what the kernel then refuses: go to the next.
            let refused = matches!(code as u32, 3000..=3999);
            if refused && at + 1 < chosen.candidates.len() {
                at += 1;
                chosen.good.store(at, Ordering::Relaxed);
                continue;
            }
            return check_dnn(code, || describe(problem));
        }
    }

    fn choose(&self, problem: &ConvProblem, handle: &Handle) -> Result<Arc<Chosen>> {
        let mut chosen = self.chosen.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(known) = chosen.get(problem) {
            return Ok(known.clone());
        }
        let description = Description::new(problem)?;
        let candidates = candidates(&description, problem, handle)?;
        let made = Arc::new(Chosen { description, candidates, good: AtomicUsize::new(0) });
        chosen.insert(problem.clone(), made.clone());
        Ok(made)
    }
}

impl Drop for Convolutions {
    fn drop(&mut self) {
        if let Ok(_entered) = self.context.enter() {
            let raw = self.handle.lock().unwrap_or_else(|e| e.into_inner());
            // SAFETY: ours.
            let _ = unsafe { sys::cudnnDestroy(raw.0) };
        }
    }
}

fn candidates(d: &Description, problem: &ConvProblem, handle: &Handle) -> Result<Vec<Candidate>> {
    const MOST: usize = 16;
    let mut forecasts: [MaybeUninit<sys::cudnnConvolutionFwdAlgoPerf_t>; MOST] =
        [const { MaybeUninit::zeroed() }; MOST];
    let mut found = 0;
    // SAFETY: live handle and descriptors; room for as many forecasts as asked for.
    let code = unsafe {
        sys::cudnnGetConvolutionForwardAlgorithm_v7(
            handle.0,
            d.input,
            d.weight,
            d.convolution,
            d.out,
            MOST as i32,
            &mut found,
            forecasts.as_mut_ptr().cast(),
        )
    };
    check_dnn(code, || format!("choosing a kernel for {}", describe(problem)))?;
    let found = usize::try_from(found).unwrap_or(0).min(MOST);
    // SAFETY: the library wrote that many.
    let forecasts: Vec<_> = forecasts[..found].iter().map(|f| unsafe { f.assume_init() }).collect();
    let mut list = Vec::new();
    for f in forecasts.iter().filter(|f| f.status == Status::CUDNN_STATUS_SUCCESS) {
        if let Some(math) = allowed_math(problem.dtype, f.mathType) {
            list.push(Candidate { algorithm: f.algo, math, bytes: f.memory });
        }
    }
    // The one that takes any shape and layout, as the last resort.
    let (algorithm, math) = (Algorithm::CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, wanted_math(problem.dtype));
    let mut bytes = 0;
    // SAFETY: live handle and descriptors.
    let code = unsafe {
        sys::cudnnGetConvolutionForwardWorkspaceSize(
            handle.0,
            d.input,
            d.weight,
            d.convolution,
            d.out,
            algorithm,
            &mut bytes,
        )
    };
    let last = Candidate { algorithm, math, bytes };
    if code == Status::CUDNN_STATUS_SUCCESS && !list.iter().any(|c| c.algorithm == algorithm) {
        list.push(last);
    }
    let smallest = list.iter().map(|c| c.bytes).min();
    list.retain(|c| c.bytes <= WORKSPACE_BYTES);
    if list.is_empty() {
        let reason = match smallest {
            Some(bytes) => {
                format!("every kernel needs {bytes} bytes of scratch or more; there are {WORKSPACE_BYTES}")
            }
            None => "cuDNN offers no kernel".to_string(),
        };
        return Err(err!(
            Unsupported,
            "no library path for this convolution: {reason}: {}",
            describe(problem)
        )
        .next("use an own kernel, or split the batch"));
    }
    Ok(list)
}

/// The math to run a forecast with; `None` where it would lose precision.
fn allowed_math(dtype: DType, forecast: Math) -> Option<Math> {
    use Math::*;
    match (dtype, forecast) {
        (DType::F16 | DType::BF16, CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION) => Some(CUDNN_TENSOR_OP_MATH),
        (DType::F16 | DType::BF16, math) => Some(math),
        // cuDNN's default math includes TF32.
        (_, CUDNN_DEFAULT_MATH | CUDNN_FMA_MATH) => Some(CUDNN_FMA_MATH),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::cuda::conv_desc::data_type;
    use crate::device::cuda::conv_layout::{Format, Tensor};

    fn sample(dtype: DType, spatial: usize) -> ConvProblem {
        let dims = |n: i32, c: i32| [vec![n, c], vec![8; spatial]].concat();
        let strides = |c: i32| {
            let size = 8i32.pow(spatial as u32);
            let inner = (0..spatial as u32).rev().map(|d| 8i32.pow(d));
            [vec![c * size, size], inner.collect()].concat()
        };
        ConvProblem {
            dtype,
            input: Tensor { dims: dims(2, 4), strides: strides(4) },
            weight: [vec![6, 2], vec![3; spatial]].concat(),
            format: Format::ChannelsFirst,
            out: Tensor { dims: dims(2, 6), strides: strides(6) },
            padding: vec![1; spatial],
            stride: vec![1; spatial],
            dilation: vec![1; spatial],
            groups: 2,
        }
    }

    #[test]
    fn single_precision_never_rounds_to_tf32() {
        use Math::*;
        assert_eq!(wanted_math(DType::F32), CUDNN_FMA_MATH);
        assert_eq!(allowed_math(DType::F32, CUDNN_DEFAULT_MATH), Some(CUDNN_FMA_MATH));
        assert_eq!(allowed_math(DType::F32, CUDNN_TENSOR_OP_MATH), None);
        assert_eq!(allowed_math(DType::F32, CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION), None);
        assert_eq!(allowed_math(DType::BF16, CUDNN_TENSOR_OP_MATH), Some(CUDNN_TENSOR_OP_MATH));
    }

    #[test]
    fn messages_name_the_convolution() {
        insta::assert_snapshot!(
            describe(&sample(DType::F16, 2)),
            @"a convolution of f16, input [2, 4, 8, 8], weight [6, 2, 3, 3] ChannelsFirst, stride [1, 1], padding [1, 1], dilation [1, 1], 2 group(s)"
        );
        assert_eq!(data_type(DType::I8).unwrap_err().kind(), crate::ErrorKind::Unsupported);
    }

    /// Descriptors need the library but no GPU.
    #[test]
    fn the_library_accepts_every_description() {
        if let Err(e) = library::cudnn() {
            eprintln!("not run: {e}");
            return;
        }
        for dtype in [DType::F64, DType::F32, DType::F16, DType::BF16] {
            for spatial in [2, 3] {
                let problem = sample(dtype, spatial);
                let d = Description::new(&problem).unwrap();
                let mut sizes = vec![0; spatial + 2];
                // SAFETY: live descriptors; room for that many sizes.
                let code = unsafe {
                    sys::cudnnGetConvolutionNdForwardOutputDim(
                        d.convolution,
                        d.input,
                        d.weight,
                        sizes.len() as i32,
                        sizes.as_mut_ptr(),
                    )
                };
                check_dnn(code, || describe(&problem)).unwrap();
                assert_eq!(sizes, problem.out.dims);
            }
        }
    }
}
