//! cuDNN's functions, from the library that was found.
//!
//! cudarc opens cuDNN by its bare name, so that a system's copy wins over the one that a program such as PyTorch has open already; two
//! versions in one process refuse to work together. Its types are used, its loading is not.

pub(super) use cudarc::cudnn::sys::*;
use std::ffi::{CString, c_int, c_void};
use std::sync::OnceLock;

static HANDLE: OnceLock<usize> = OnceLock::new();

/// Takes functions from this library, opened by `dlopen`, from now on. The first call counts.
pub(super) fn use_library(handle: *mut c_void) {
    HANDLE.get_or_init(|| handle as usize);
}

/// The address of a function. Panics where the library is not open or lacks it: callers open it first, and cuDNN 9 has all of them.
fn address(name: &str) -> *mut c_void {
    let handle = *HANDLE.get().expect("cuDNN is opened before it is called") as *mut c_void;
    let symbol = CString::new(name).expect("names of functions have no zero byte");
    // SAFETY: an open library and a nul-terminated name.
    let address = unsafe { libc::dlsym(handle, symbol.as_ptr()) };
    assert!(!address.is_null(), "cuDNN has no function {name}");
    address
}

macro_rules! functions {
    ($(fn $name:ident($($argument:ident: $ty:ty),*) -> $ret:ty;)*) => {
        $(
            #[allow(non_snake_case, clippy::too_many_arguments, dead_code)]
            /// cuDNN's function of that name.
            ///
            /// # Safety
            /// As the library's manual says.
            pub unsafe fn $name($($argument: $ty),*) -> $ret {
                static FUNCTION: OnceLock<usize> = OnceLock::new();
                type Function = unsafe extern "C" fn($($ty),*) -> $ret;
                let address = *FUNCTION.get_or_init(|| address(stringify!($name)) as usize);
                // SAFETY: the function's own type; the caller keeps its rules.
                unsafe { std::mem::transmute::<usize, Function>(address)($($argument),*) }
            }
        )*
    };
}

functions! {
    fn cudnnConvolutionForward(handle: cudnnHandle_t, alpha: *const c_void, x_desc: cudnnTensorDescriptor_t, x: *const c_void, w_desc: cudnnFilterDescriptor_t, w: *const c_void, conv_desc: cudnnConvolutionDescriptor_t, algo: cudnnConvolutionFwdAlgo_t, work_space: *mut c_void, work_space_size_in_bytes: usize, beta: *const c_void, y_desc: cudnnTensorDescriptor_t, y: *mut c_void) -> cudnnStatus_t;
    fn cudnnCreate(handle: *mut cudnnHandle_t) -> cudnnStatus_t;
    fn cudnnCreateConvolutionDescriptor(conv_desc: *mut cudnnConvolutionDescriptor_t) -> cudnnStatus_t;
    fn cudnnCreateFilterDescriptor(filter_desc: *mut cudnnFilterDescriptor_t) -> cudnnStatus_t;
    fn cudnnCreateTensorDescriptor(tensor_desc: *mut cudnnTensorDescriptor_t) -> cudnnStatus_t;
    fn cudnnDestroy(handle: cudnnHandle_t) -> cudnnStatus_t;
    fn cudnnDestroyConvolutionDescriptor(conv_desc: cudnnConvolutionDescriptor_t) -> cudnnStatus_t;
    fn cudnnDestroyFilterDescriptor(filter_desc: cudnnFilterDescriptor_t) -> cudnnStatus_t;
    fn cudnnDestroyTensorDescriptor(tensor_desc: cudnnTensorDescriptor_t) -> cudnnStatus_t;
    fn cudnnGetConvolutionForwardAlgorithm_v7(handle: cudnnHandle_t, src_desc: cudnnTensorDescriptor_t, filter_desc: cudnnFilterDescriptor_t, conv_desc: cudnnConvolutionDescriptor_t, dest_desc: cudnnTensorDescriptor_t, requested_algo_count: c_int, returned_algo_count: *mut c_int, perf_results: *mut cudnnConvolutionFwdAlgoPerf_t) -> cudnnStatus_t;
    fn cudnnGetConvolutionForwardWorkspaceSize(handle: cudnnHandle_t, x_desc: cudnnTensorDescriptor_t, w_desc: cudnnFilterDescriptor_t, conv_desc: cudnnConvolutionDescriptor_t, y_desc: cudnnTensorDescriptor_t, algo: cudnnConvolutionFwdAlgo_t, size_in_bytes: *mut usize) -> cudnnStatus_t;
    fn cudnnGetConvolutionNdForwardOutputDim(conv_desc: cudnnConvolutionDescriptor_t, input_tensor_desc: cudnnTensorDescriptor_t, filter_desc: cudnnFilterDescriptor_t, nb_dims: c_int, tensor_ouput_dim_a: *mut c_int) -> cudnnStatus_t;
    fn cudnnGetVersion() -> usize;
    fn cudnnSetConvolutionGroupCount(conv_desc: cudnnConvolutionDescriptor_t, group_count: c_int) -> cudnnStatus_t;
    fn cudnnSetConvolutionMathType(conv_desc: cudnnConvolutionDescriptor_t, math_type: cudnnMathType_t) -> cudnnStatus_t;
    fn cudnnSetConvolutionNdDescriptor(conv_desc: cudnnConvolutionDescriptor_t, array_length: c_int, pad_a: *const c_int, filter_stride_a: *const c_int, dilation_a: *const c_int, mode: cudnnConvolutionMode_t, compute_type: cudnnDataType_t) -> cudnnStatus_t;
    fn cudnnSetFilterNdDescriptor(filter_desc: cudnnFilterDescriptor_t, data_type: cudnnDataType_t, format: cudnnTensorFormat_t, nb_dims: c_int, filter_dim_a: *const c_int) -> cudnnStatus_t;
    fn cudnnSetStream(handle: cudnnHandle_t, stream_id: cudaStream_t) -> cudnnStatus_t;
    fn cudnnSetTensorNdDescriptor(tensor_desc: cudnnTensorDescriptor_t, data_type: cudnnDataType_t, nb_dims: c_int, dim_a: *const c_int, stride_a: *const c_int) -> cudnnStatus_t;
}
