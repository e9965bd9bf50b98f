//! cuBLASLt's descriptors of a product.

use super::error::check_blas;
use super::product_layout::{Bias, EpilogueKey, Layout, Problem};
use super::workspace::WORKSPACE_BYTES;
use crate::dtype::DType;
use crate::error::{Result, err};
use cudarc::cublaslt::sys::{
    self, cublasComputeType_t as Compute, cublasLtEpilogue_t as Epilogue,
    cublasLtMatmulDescAttributes_t as DescAttribute,
    cublasLtMatmulPreferenceAttributes_t as PreferenceAttribute,
    cublasLtMatrixLayoutAttribute_t as LayoutAttribute, cudaDataType_t as DataType,
};

/// Alpha and beta, in the type that cuBLASLt reads for the problem.
pub(super) struct Scales {
    double: bool,
    f32: [f32; 2],
    f64: [f64; 2],
}

impl Scales {
    pub(super) fn of(problem: &Problem) -> Self {
        let beta = problem.bias == Bias::Prefilled;
        Self {
            double: problem.d.dtype == DType::F64,
            f32: [1.0, f32::from(beta)],
            f64: [1.0, f64::from(beta)],
        }
    }

    pub(super) fn alpha(&self) -> *const std::ffi::c_void {
        if self.double { (&raw const self.f64[0]).cast() } else { (&raw const self.f32[0]).cast() }
    }

    pub(super) fn beta(&self) -> *const std::ffi::c_void {
        if self.double { (&raw const self.f64[1]).cast() } else { (&raw const self.f32[1]).cast() }
    }
}

/// The library's descriptors of a problem. They need no GPU.
#[derive(Debug)]
pub(super) struct Description {
    pub(super) operation: sys::cublasLtMatmulDesc_t,
    /// A, B, D.
    pub(super) layouts: [sys::cublasLtMatrixLayout_t; 3],
}

impl Description {
    pub(super) fn new(problem: &Problem) -> Result<Self> {
        let what = || format!("describing {}", describe(problem));
        let (compute, scale) = match problem.d.dtype {
            DType::F64 => (Compute::CUBLAS_COMPUTE_64F, DataType::CUDA_R_64F),
            _ => (Compute::CUBLAS_COMPUTE_32F, DataType::CUDA_R_32F),
        };
        // Dropping a half-made description frees what there is.
        let mut made = Self { operation: std::ptr::null_mut(), layouts: [std::ptr::null_mut(); 3] };
        // SAFETY: the library is loaded (`Products` exists, or a test loaded it); so below.
        check_blas(unsafe { sys::cublasLtMatmulDescCreate(&mut made.operation, compute, scale) }, what)?;
        for (slot, layout) in made.layouts.iter_mut().zip([problem.a, problem.b, problem.d]) {
            let Layout { dtype, rows, cols, ld, batch_stride } = layout;
            // SAFETY: as above.
            check_blas(
                unsafe { sys::cublasLtMatrixLayoutCreate(slot, data_type(dtype)?, rows, cols, ld) },
                what,
            )?;
            let batch = (LayoutAttribute::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, problem.batch);
            let offset = (LayoutAttribute::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, batch_stride);
            // SAFETY: an int32 and an int64, as the attributes want.
            unsafe {
                let code =
                    sys::cublasLtMatrixLayoutSetAttribute(*slot, batch.0, (&raw const batch.1).cast(), 4);
                check_blas(code, what)?;
                let code =
                    sys::cublasLtMatrixLayoutSetAttribute(*slot, offset.0, (&raw const offset.1).cast(), 8);
                check_blas(code, what)?;
            }
        }
        // cublasOperation_t: 0 as stored, 1 transposed.
        made.set(DescAttribute::CUBLASLT_MATMUL_DESC_TRANSA, &i32::from(problem.trans_a))?;
        made.set(DescAttribute::CUBLASLT_MATMUL_DESC_TRANSB, &i32::from(problem.trans_b))?;
        made.set(DescAttribute::CUBLASLT_MATMUL_DESC_EPILOGUE, &(epilogue(problem) as u32))?;
        if problem.bias == Bias::Epilogue {
            // The choice of a kernel may look at the address' alignment: stand in with an address that has it.
            let stand_in = u64::from(problem.alignment[3]);
            made.set(DescAttribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER, &stand_in)?;
        }
        Ok(made)
    }

    pub(super) fn set<T: Copy>(&self, attribute: DescAttribute, value: &T) -> Result<()> {
        // SAFETY: the callers pass each attribute's documented type.
        let code = unsafe {
            sys::cublasLtMatmulDescSetAttribute(
                self.operation,
                attribute,
                std::ptr::from_ref(value).cast(),
                size_of::<T>(),
            )
        };
        check_blas(code, || format!("setting {attribute:?}"))
    }
}

impl Drop for Description {
    fn drop(&mut self) {
        // SAFETY: ours; null was never made.
        unsafe {
            for layout in self.layouts.iter().filter(|l| !l.is_null()) {
                let _ = sys::cublasLtMatrixLayoutDestroy(*layout);
            }
            if !self.operation.is_null() {
                let _ = sys::cublasLtMatmulDescDestroy(self.operation);
            }
        }
    }
}

/// `CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE`.
const COMPUTE_TYPE_REDUCTION: u32 = 2;

/// What the choice of a kernel is bound by.
pub(super) struct Preference(pub(super) sys::cublasLtMatmulPreference_t);

impl Preference {
    pub(super) fn new(problem: &Problem) -> Result<Self> {
        use PreferenceAttribute::*;
        let what = || "describing a preference".to_string();
        let mut raw = std::ptr::null_mut();
        // SAFETY: the library is loaded.
        check_blas(unsafe { sys::cublasLtMatmulPreferenceCreate(&mut raw) }, what)?;
        let made = Self(raw);
        let [a, b, d, _] = problem.alignment;
        let bytes = WORKSPACE_BYTES as u64;
        // SAFETY: a u64 and u32s, as the attributes want.
        unsafe {
            let attribute = CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
            let code =
                sys::cublasLtMatmulPreferenceSetAttribute(raw, attribute, (&raw const bytes).cast(), 8);
            check_blas(code, what)?;
            for (attribute, bytes) in [
                // Sums that are split are added up in the type they are computed in, in a fixed order.
                (CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, COMPUTE_TYPE_REDUCTION),
                (CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, a),
                (CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, b),
                (CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, d),
                (CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, d),
            ] {
                let code =
                    sys::cublasLtMatmulPreferenceSetAttribute(raw, attribute, (&raw const bytes).cast(), 4);
                check_blas(code, what)?;
            }
        }
        Ok(made)
    }
}

impl Drop for Preference {
    fn drop(&mut self) {
        // SAFETY: ours.
        let _ = unsafe { sys::cublasLtMatmulPreferenceDestroy(self.0) };
    }
}

fn epilogue(problem: &Problem) -> Epilogue {
    use Epilogue::*;
    match (problem.epilogue, problem.bias == Bias::Epilogue) {
        (EpilogueKey::None, false) => CUBLASLT_EPILOGUE_DEFAULT,
        (EpilogueKey::None, true) => CUBLASLT_EPILOGUE_BIAS,
        (EpilogueKey::Relu, false) => CUBLASLT_EPILOGUE_RELU,
        (EpilogueKey::Relu, true) => CUBLASLT_EPILOGUE_RELU_BIAS,
        (EpilogueKey::Gelu, false) => CUBLASLT_EPILOGUE_GELU,
        (EpilogueKey::Gelu, true) => CUBLASLT_EPILOGUE_GELU_BIAS,
    }
}

fn data_type(dtype: DType) -> Result<DataType> {
    Ok(match dtype {
        DType::F64 => DataType::CUDA_R_64F,
        DType::F32 => DataType::CUDA_R_32F,
        DType::F16 => DataType::CUDA_R_16F,
        DType::BF16 => DataType::CUDA_R_16BF,
        other => {
            return Err(
                err!(Unsupported, "no library path for products of {other}").next("use an own kernel")
            );
        }
    })
}

/// A problem for messages.
pub(super) fn describe(p: &Problem) -> String {
    let terms = if p.trans_a { p.a.rows } else { p.a.cols };
    let (rows, cols) = if p.swapped { (p.d.cols, p.d.rows) } else { (p.d.rows, p.d.cols) };
    let mut text = format!("a product of {}, m={rows} n={cols} k={terms}", p.a.dtype);
    if p.batch > 1 {
        text.push_str(&format!(" batch={}", p.batch));
    }
    if p.bias != Bias::None {
        text.push_str(" with bias");
    }
    if p.epilogue != EpilogueKey::None {
        text.push_str(&format!(" and {:?}", p.epilogue));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::cuda::{library, product_layout};
    use crate::device::{DevicePtr, ResolvedMatrix, ResolvedProduct};
    use crate::plan::Epilogue as PlanEpilogue;

    fn sample(dtype: DType, bias: bool, epilogue: PlanEpilogue) -> Problem {
        let matrix = |row_stride| ResolvedMatrix {
            ptr: DevicePtr(4096),
            dtype,
            batch_stride: 4096,
            row_stride,
            col_stride: 1,
        };
        product_layout::problem(&ResolvedProduct {
            lhs: matrix(64),
            rhs: matrix(32),
            out: matrix(32),
            bias: bias.then_some((DevicePtr(4096), dtype)),
            epilogue,
            m: 16,
            n: 32,
            k: 64,
            batch: 3,
        })
        .unwrap()
    }

    #[test]
    fn epilogues() {
        use Epilogue::*;
        let of = |bias, e| epilogue(&sample(DType::BF16, bias, e));
        assert_eq!(of(false, PlanEpilogue::None), CUBLASLT_EPILOGUE_DEFAULT);
        assert_eq!(of(true, PlanEpilogue::None), CUBLASLT_EPILOGUE_BIAS);
        assert_eq!(of(true, PlanEpilogue::Relu), CUBLASLT_EPILOGUE_RELU_BIAS);
        assert_eq!(of(false, PlanEpilogue::GeluTanh), CUBLASLT_EPILOGUE_GELU);
        assert_eq!(of(true, PlanEpilogue::GeluTanh), CUBLASLT_EPILOGUE_GELU_BIAS);
    }

    #[test]
    fn prefilled_bias_is_added() {
        let s = Scales::of(&sample(DType::F64, true, PlanEpilogue::None));
        assert!(s.double);
        // SAFETY: the pointers point into `s`.
        assert_eq!(unsafe { (*s.alpha().cast::<f64>(), *s.beta().cast::<f64>()) }, (1.0, 1.0));
        let s = Scales::of(&sample(DType::F16, true, PlanEpilogue::None));
        // SAFETY: as above.
        assert_eq!(unsafe { (*s.alpha().cast::<f32>(), *s.beta().cast::<f32>()) }, (1.0, 0.0));
    }

    #[test]
    fn messages_name_the_product_in_the_user_s_terms() {
        insta::assert_snapshot!(
            describe(&sample(DType::BF16, true, PlanEpilogue::Relu)),
            @"a product of bf16, m=16 n=32 k=64 batch=3 with bias and Relu"
        );
    }

    /// Descriptors need the library but no GPU.
    #[test]
    fn the_library_accepts_every_description() {
        if let Err(e) = library::cublaslt() {
            eprintln!("not run: {e}");
            return;
        }
        for dtype in [DType::F64, DType::F32, DType::F16, DType::BF16] {
            for bias in [false, true] {
                let problem = sample(dtype, bias, PlanEpilogue::None);
                Description::new(&problem).unwrap();
                Preference::new(&problem).unwrap();
            }
        }
    }
}
