//! Matrix products through cuBLASLt.

use super::driver::{Context, handle};
use super::error::check_blas;
use super::library;
use super::product_desc::{Description, Preference, Scales, describe};
use super::product_layout::{Bias, Problem};
use super::workspace::WORKSPACE_BYTES;
use crate::device::{DevicePtr, Stream};
use crate::error::{ErrorKind, Result, err};
use cudarc::cublaslt::sys::{self, cublasLtMatmulDescAttributes_t as DescAttribute};
use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::sync::{Arc, Mutex};

/// The addresses of one product.
#[derive(Clone, Copy, Debug)]
pub struct Operands {
    /// cuBLASLt's A.
    pub a: DevicePtr,
    /// cuBLASLt's B.
    pub b: DevicePtr,
    /// The result.
    pub d: DevicePtr,
    /// The bias, for [`Bias::Epilogue`].
    pub bias: DevicePtr,
}

/// cuBLASLt in one context, with the kernels chosen so far.
#[derive(Debug)]
pub struct Products {
    context: Arc<Context>,
    handle: sys::cublasLtHandle_t,
    /// A refusal is remembered too: asking again costs as much as the first time.
    chosen: Mutex<BTreeMap<Problem, Result<Arc<Chosen>>>>,
}

// SAFETY: cuBLASLt handles and descriptors may be used from any thread; those that are changed sit behind locks.
unsafe impl Send for Products {}
// SAFETY: as above.
unsafe impl Sync for Products {}

/// Descriptors and the kernel chosen for a problem.
#[derive(Debug)]
struct Chosen {
    description: Description,
    /// Setting the bias address and using it is one step.
    bias: Mutex<()>,
    algorithm: sys::cublasLtMatmulAlgo_t,
}

// SAFETY: the descriptors are read only, but for the bias address, which `bias` guards.
unsafe impl Send for Chosen {}
// SAFETY: as above.
unsafe impl Sync for Chosen {}

impl Products {
    /// Loads cuBLASLt and makes a handle.
    pub fn new(context: &Arc<Context>) -> Result<Self> {
        library::cublaslt()?;
        let _entered = context.enter()?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the library is loaded and the context current.
        check_blas(unsafe { sys::cublasLtCreate(&mut handle) }, || "starting cuBLASLt".into())?;
        Ok(Self { context: context.clone(), handle, chosen: Mutex::default() })
    }

    /// cuBLASLt's version, such as 130000.
    pub fn version(&self) -> usize {
        // SAFETY: loaded.
        unsafe { sys::cublasLtGetVersion() }
    }

    /// Whether cuBLASLt has a kernel; `Err` of kind `Unsupported` where not.
    pub fn prepare(&self, problem: &Problem) -> Result<()> {
        self.choose(problem).map(drop)
    }

    /// Queues a product. For [`Bias::Prefilled`] the result holds the bias already.
    ///
    /// # Safety
    /// The operands must be this context's memory and fit the problem.
    pub unsafe fn run(
        &self,
        problem: &Problem,
        operands: Operands,
        workspace: DevicePtr,
        stream: Stream,
    ) -> Result<()> {
        let chosen = self.choose(problem)?;
        let _entered = self.context.enter()?;
        let guard =
            (problem.bias == Bias::Epilogue).then(|| chosen.bias.lock().unwrap_or_else(|e| e.into_inner()));
        if guard.is_some() {
            chosen.description.set(DescAttribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER, &operands.bias.0)?;
        }
        let scale = Scales::of(problem);
        let d = &chosen.description;
        // SAFETY: by this function's contract; descriptors and scales live until the call returns, which copies them.
        let code = unsafe {
            sys::cublasLtMatmul(
                self.handle,
                d.operation,
                scale.alpha(),
                operands.a.as_host(),
                d.layouts[0],
                operands.b.as_host(),
                d.layouts[1],
                scale.beta(),
                operands.d.as_host(),
                d.layouts[2],
                operands.d.as_host(),
                d.layouts[2],
                &chosen.algorithm,
                workspace.as_host(),
                WORKSPACE_BYTES,
                handle(stream).cast(),
            )
        };
        check_blas(code, || describe(problem))
    }

    /// The kernel for a problem. The first choice of a process takes a tenth of a second, later ones 0.2 ms, known ones none.
    fn choose(&self, problem: &Problem) -> Result<Arc<Chosen>> {
        let mut chosen = self.chosen.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(known) = chosen.get(problem) {
            return known.clone();
        }
        let made = self.choose_anew(problem);
        if made.as_ref().err().is_none_or(|e| e.kind() == ErrorKind::Unsupported) {
            chosen.insert(*problem, made.clone());
        }
        made
    }

    fn choose_anew(&self, problem: &Problem) -> Result<Arc<Chosen>> {
        let description = Description::new(problem)?;
        let _entered = self.context.enter()?;
        let preference = Preference::new(problem)?;
        let mut best = MaybeUninit::<sys::cublasLtMatmulHeuristicResult_t>::zeroed();
        let mut found = 0;
        let [a, b, d] = description.layouts;
        // SAFETY: live descriptors; room for the one result asked for.
        let code = unsafe {
            sys::cublasLtMatmulAlgoGetHeuristic(
                self.handle,
                description.operation,
                a,
                b,
                d,
                d,
                preference.0,
                1,
                best.as_mut_ptr(),
                &mut found,
            )
        };
        check_blas(code, || format!("choosing a kernel for {}", describe(problem)))?;
        if found < 1 {
            return Err(err!(
                Unsupported,
                "no library path for this product: cuBLASLt offers no kernel for {}",
                describe(problem)
            )
            .next("use an own kernel"));
        }
        // SAFETY: the library wrote one result (and all zeros would be a valid value too).
        let best = unsafe { best.assume_init() };
        check_blas(best.state, || format!("choosing a kernel for {}", describe(problem)))?;
        Ok(Arc::new(Chosen { description, bias: Mutex::new(()), algorithm: best.algo }))
    }
}

impl Drop for Products {
    fn drop(&mut self) {
        if let Ok(_entered) = self.context.enter() {
            // SAFETY: ours.
            let _ = unsafe { sys::cublasLtDestroy(self.handle) };
        }
    }
}
