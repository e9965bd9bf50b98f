//! cuDNN's descriptors of a convolution.

use super::conv_layout::{ConvProblem, Format, Tensor};
use super::cudnn_api as sys;
use super::error::check_dnn;
use crate::dtype::DType;
use crate::error::{Result, err};
use cudarc::cudnn::sys::{cudnnDataType_t as DataType, cudnnMathType_t as Math};

/// The library's descriptors of a problem. They need no GPU.
#[derive(Debug)]
pub(super) struct Description {
    pub(super) input: sys::cudnnTensorDescriptor_t,
    pub(super) weight: sys::cudnnFilterDescriptor_t,
    pub(super) out: sys::cudnnTensorDescriptor_t,
    pub(super) convolution: sys::cudnnConvolutionDescriptor_t,
}

impl Description {
    pub(super) fn new(problem: &ConvProblem) -> Result<Self> {
        let what = || format!("describing {}", describe(problem));
        let null = std::ptr::null_mut();
        // Dropping a half-made description frees what there is.
        let mut made =
            Self { input: null, weight: std::ptr::null_mut(), out: null, convolution: std::ptr::null_mut() };
        let kind = data_type(problem.dtype)?;
        let compute = match problem.dtype {
            DType::F64 => DataType::CUDNN_DATA_DOUBLE,
            _ => DataType::CUDNN_DATA_FLOAT,
        };
        let format = match problem.format {
            Format::ChannelsFirst => sys::cudnnTensorFormat_t::CUDNN_TENSOR_NCHW,
            Format::ChannelsLast => sys::cudnnTensorFormat_t::CUDNN_TENSOR_NHWC,
        };
        for (slot, tensor) in [(&mut made.input, &problem.input), (&mut made.out, &problem.out)] {
            let Tensor { dims, strides } = tensor;
            // SAFETY: the library is loaded (`Convolutions` exists, or a test loaded it); lists have the length passed.
            unsafe {
                check_dnn(sys::cudnnCreateTensorDescriptor(slot), what)?;
                let rank = dims.len() as i32;
                let code =
                    sys::cudnnSetTensorNdDescriptor(*slot, kind, rank, dims.as_ptr(), strides.as_ptr());
                check_dnn(code, what)?;
            }
        }
        let spatial = problem.stride.len() as i32;
        // SAFETY: as above.
        unsafe {
            check_dnn(sys::cudnnCreateFilterDescriptor(&mut made.weight), what)?;
            let (rank, dims) = (problem.weight.len() as i32, problem.weight.as_ptr());
            check_dnn(sys::cudnnSetFilterNdDescriptor(made.weight, kind, format, rank, dims), what)?;
            check_dnn(sys::cudnnCreateConvolutionDescriptor(&mut made.convolution), what)?;
            let code = sys::cudnnSetConvolutionNdDescriptor(
                made.convolution,
                spatial,
                problem.padding.as_ptr(),
                problem.stride.as_ptr(),
                problem.dilation.as_ptr(),
                sys::cudnnConvolutionMode_t::CUDNN_CROSS_CORRELATION,
                compute,
            );
            check_dnn(code, what)?;
            check_dnn(sys::cudnnSetConvolutionGroupCount(made.convolution, problem.groups), what)?;
            let math = wanted_math(problem.dtype);
            check_dnn(sys::cudnnSetConvolutionMathType(made.convolution, math), what)?;
        }
        Ok(made)
    }
}

impl Drop for Description {
    fn drop(&mut self) {
        // SAFETY: ours; null was never made.
        unsafe {
            for tensor in [self.input, self.out].into_iter().filter(|t| !t.is_null()) {
                let _ = sys::cudnnDestroyTensorDescriptor(tensor);
            }
            if !self.weight.is_null() {
                let _ = sys::cudnnDestroyFilterDescriptor(self.weight);
            }
            if !self.convolution.is_null() {
                let _ = sys::cudnnDestroyConvolutionDescriptor(self.convolution);
            }
        }
    }
}

pub(super) fn data_type(dtype: DType) -> Result<DataType> {
    Ok(match dtype {
        DType::F64 => DataType::CUDNN_DATA_DOUBLE,
        DType::F32 => DataType::CUDNN_DATA_FLOAT,
        DType::F16 => DataType::CUDNN_DATA_HALF,
        DType::BF16 => DataType::CUDNN_DATA_BFLOAT16,
        other => {
            return Err(
                err!(Unsupported, "no library path for convolutions of {other}").next("use an own kernel")
            );
        }
    })
}

/// A problem for messages.
pub(super) fn describe(p: &ConvProblem) -> String {
    format!(
        "a convolution of {}, input {:?}, weight {:?} {:?}, stride {:?}, padding {:?}, dilation {:?}, {} group(s)",
        p.dtype, p.input.dims, p.weight, p.format, p.stride, p.padding, p.dilation, p.groups
    )
}

/// TF32 rounds the factors of f32 to 10 bits: only the halves may use tensor cores.
pub(super) fn wanted_math(dtype: DType) -> Math {
    match dtype {
        DType::F16 | DType::BF16 => Math::CUDNN_TENSOR_OP_MATH,
        _ => Math::CUDNN_FMA_MATH,
    }
}
