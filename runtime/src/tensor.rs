//! Tensors on the host: dtype, shape, row-major data.

mod npy;
mod random;

use crate::aligned::AlignedBytes;
use crate::dtype::DType;
use crate::error::{Result, bail, err};
use crate::float8::{F8E4M3, F8E5M2};
use half::{bf16, f16};
use serde::{Deserialize, Serialize};

pub use npy::{from_npy, to_npy};
pub use random::SplitMix64;

/// A dense row-major tensor in host memory, aligned to 64 bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostTensor {
    dtype: DType,
    shape: Vec<usize>,
    data: AlignedBytes,
}

/// A Rust type that is some [`DType`] in memory.
pub trait Element: Copy + Send + Sync + 'static + sealed::Sealed {
    /// The type's dtypes: `u8` reads `i1` (0 or 1) and `i8` too.
    fn fits(dtype: DType) -> bool;
    /// The dtype of a tensor made of these.
    const DTYPE: DType;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! elements {
    ($($t:ty = $d:ident $(or $e:ident)*),* $(,)?) => {$(
        impl sealed::Sealed for $t {}
        impl Element for $t {
            const DTYPE: DType = DType::$d;
            fn fits(dtype: DType) -> bool { matches!(dtype, DType::$d $(| DType::$e)*) }
        }
    )*};
}
elements!(
    f64 = F64,
    f32 = F32,
    f16 = F16,
    bf16 = BF16,
    F8E4M3 = F8E4M3,
    F8E5M2 = F8E5M2,
    i64 = I64,
    i32 = I32,
    i16 = I16,
    i8 = I8,
    u8 = U8 or I8 or I1,
    Bit = I1,
);

/// An `i1` in memory: 0 or 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Bit(u8);

/// Runs the body with the Rust type `$t` for `$dtype` in memory.
macro_rules! with_element {
    ($dtype:expr, $t:ident => $body:expr) => {
        match $dtype {
            $crate::dtype::DType::F64 => {
                type $t = f64;
                $body
            }
            $crate::dtype::DType::F32 => {
                type $t = f32;
                $body
            }
            $crate::dtype::DType::F16 => {
                type $t = ::half::f16;
                $body
            }
            $crate::dtype::DType::BF16 => {
                type $t = ::half::bf16;
                $body
            }
            $crate::dtype::DType::I64 => {
                type $t = i64;
                $body
            }
            $crate::dtype::DType::I32 => {
                type $t = i32;
                $body
            }
            $crate::dtype::DType::I8 => {
                type $t = i8;
                $body
            }
            $crate::dtype::DType::F8E4M3 => {
                type $t = $crate::float8::F8E4M3;
                $body
            }
            $crate::dtype::DType::F8E5M2 => {
                type $t = $crate::float8::F8E5M2;
                $body
            }
            $crate::dtype::DType::I16 => {
                type $t = i16;
                $body
            }
            $crate::dtype::DType::U8 => {
                type $t = u8;
                $body
            }
            $crate::dtype::DType::I1 => {
                type $t = $crate::tensor::Bit;
                $body
            }
        }
    };
}
pub(crate) use with_element;

/// Conversion of one element from and to wide numbers, rounding or wrapping as [`DType::round`] and [`DType::wrap`] do.
pub(crate) trait Scalar: Element {
    fn to_f64(self) -> f64;
    fn of_f64(x: f64) -> Self;
    fn to_i64(self) -> i64;
    fn of_i64(x: i64) -> Self;
}

macro_rules! scalars {
    ($($t:ty: $to_f:expr, $of_f:expr, $to_i:expr, $of_i:expr;)*) => {$(
        impl Scalar for $t {
            fn to_f64(self) -> f64 { let f: fn($t) -> f64 = $to_f; f(self) }
            fn of_f64(x: f64) -> Self { let f: fn(f64) -> $t = $of_f; f(x) }
            fn to_i64(self) -> i64 { let f: fn($t) -> i64 = $to_i; f(self) }
            fn of_i64(x: i64) -> Self { let f: fn(i64) -> $t = $of_i; f(x) }
        }
    )*};
}
scalars! {
    f64: |x| x, |x| x, |x| x as i64, |x| x as f64;
    f32: |x| x as f64, |x| x as f32, |x| x as i64, |x| x as f32;
    f16: f16::to_f64, f16::from_f64, |x| x.to_f64() as i64, |x| f16::from_f64(x as f64);
    bf16: bf16::to_f64, bf16::from_f64, |x| x.to_f64() as i64, |x| bf16::from_f64(x as f64);
    i64: |x| x as f64, |x| x as i64, |x| x, |x| x;
    i32: |x| x as f64, |x| x as i64 as i32, |x| x as i64, |x| x as i32;
    i8: |x| x as f64, |x| x as i64 as i8, |x| x as i64, |x| x as i8;
    i16: |x| x as f64, |x| x as i64 as i16, |x| x as i64, |x| x as i16;
    u8: |x| x as f64, |x| x as i64 as u8, |x| x as i64, |x| x as u8;
    F8E4M3: F8E4M3::to_f64, F8E4M3::from_f64, |x| x.to_f64() as i64, |x| F8E4M3::from_f64(x as f64);
    F8E5M2: F8E5M2::to_f64, F8E5M2::from_f64, |x| x.to_f64() as i64, |x| F8E5M2::from_f64(x as f64);
    Bit: |x| (x.0 & 1) as f64, |x| Bit((x as i64 & 1) as u8), |x| (x.0 & 1) as i64, |x| Bit((x & 1) as u8);
}

/// Number of elements of a shape, if it fits.
pub(crate) fn checked_elements(shape: &[usize]) -> Option<usize> {
    // A zero anywhere makes the tensor empty, even beside sizes whose product overflows.
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d))
}

fn checked_bytes(dtype: DType, shape: &[usize]) -> Result<usize> {
    checked_elements(shape)
        .and_then(|n| n.checked_mul(dtype.size()))
        .filter(|&b| b <= isize::MAX as usize)
        .ok_or_else(|| {
            err!(Tensor, "a tensor of shape {shape:?} and type {dtype} does not fit in an address space")
        })
}

impl HostTensor {
    /// A tensor of zeros.
    ///
    /// # Errors
    /// The host has not so much memory.
    pub fn zeros(dtype: DType, shape: &[usize]) -> Result<Self> {
        let bytes = checked_bytes(dtype, shape)?;
        let data = AlignedBytes::try_zeroed(bytes).ok_or_else(|| {
            err!(Memory, "no memory for a tensor of shape {shape:?} and type {dtype}: {bytes} bytes")
                .next("use smaller sizes or a machine with more memory")
        })?;
        Ok(Self { dtype, shape: shape.to_vec(), data })
    }

    /// A tensor from its bytes (native order, row-major).
    pub fn from_bytes(dtype: DType, shape: &[usize], bytes: &[u8]) -> Result<Self> {
        let expected = checked_bytes(dtype, shape)?;
        if bytes.len() != expected {
            bail!(Tensor, "shape {shape:?} of {dtype} takes {expected} bytes, got {}", bytes.len());
        }
        Ok(Self { dtype, shape: shape.to_vec(), data: bytes.into() })
    }

    /// A tensor of `T`'s dtype.
    pub fn from_slice<T: Element>(shape: &[usize], values: &[T]) -> Result<Self> {
        check_count(shape, values.len())?;
        let mut out = Self::zeros(T::DTYPE, shape)?;
        out.as_mut_slice::<T>()?.copy_from_slice(values);
        Ok(out)
    }

    /// A tensor with each value rounded to `dtype` (floats to nearest even; integers truncate, then wrap).
    pub fn from_f64(dtype: DType, shape: &[usize], values: &[f64]) -> Result<Self> {
        check_count(shape, values.len())?;
        let mut out = Self::zeros(dtype, shape)?;
        with_element!(dtype, T => {
            for (o, &v) in out.as_mut_slice::<T>()?.iter_mut().zip(values) {
                *o = T::of_f64(v);
            }
        });
        Ok(out)
    }

    /// A tensor with each value converted to `dtype` (integers wrap; floats round to nearest even).
    pub fn from_i64(dtype: DType, shape: &[usize], values: &[i64]) -> Result<Self> {
        check_count(shape, values.len())?;
        let mut out = Self::zeros(dtype, shape)?;
        with_element!(dtype, T => {
            for (o, &v) in out.as_mut_slice::<T>()?.iter_mut().zip(values) {
                *o = T::of_i64(v);
            }
        });
        Ok(out)
    }

    /// A scalar (rank 0).
    pub fn scalar<T: Element>(value: T) -> Self {
        Self::from_slice(&[], &[value]).expect("one element for rank 0")
    }

    /// Standard normal values for floats, small integers in `[-8, 8)`, fair bits for `i1`; the same for the same seed,
    /// everywhere. See [`SplitMix64`].
    pub fn random(dtype: DType, shape: &[usize], seed: u64) -> Result<Self> {
        let mut out = Self::zeros(dtype, shape)?;
        random::fill(&mut out, seed)?;
        Ok(out)
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Sizes, outermost first.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.data.len() / self.dtype.size()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// The bytes, row-major, in native order.
    pub fn bytes(&self) -> &[u8] {
        &self.data
    }

    /// The bytes, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.data
    }

    /// The elements as `T`; an error where the tensor holds another type.
    pub fn as_slice<T: Element>(&self) -> Result<&[T]> {
        self.check_type::<T>()?;
        // SAFETY: the data is aligned to 64, holds `len` elements of this size, and every bit pattern is a `T`.
        Ok(unsafe { std::slice::from_raw_parts(self.data.as_ptr().cast(), self.len()) })
    }

    /// The elements as `T`, to be written.
    pub fn as_mut_slice<T: Element>(&mut self) -> Result<&mut [T]> {
        self.check_type::<T>()?;
        let len = self.len();
        // SAFETY: as in `as_slice`.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.data.as_mut_ptr().cast(), len) })
    }

    fn check_type<T: Element>(&self) -> Result<()> {
        if !T::fits(self.dtype) {
            bail!(Tensor, "a tensor of {} read as {}", self.dtype, std::any::type_name::<T>());
        }
        Ok(())
    }

    /// Every element widened to f64.
    pub fn to_f64(&self) -> Vec<f64> {
        with_element!(self.dtype, T => {
            self.as_slice::<T>().expect("the type was chosen by dtype").iter().map(|&x| Scalar::to_f64(x)).collect()
        })
    }

    /// Every element as an integer; floats truncate.
    pub fn to_i64(&self) -> Vec<i64> {
        with_element!(self.dtype, T => {
            self.as_slice::<T>().expect("the type was chosen by dtype").iter().map(|&x| Scalar::to_i64(x)).collect()
        })
    }

    /// The same elements in another shape of as many.
    pub fn reshaped(mut self, shape: &[usize]) -> Result<Self> {
        check_count(shape, self.len())?;
        self.shape = shape.to_vec();
        Ok(self)
    }

    /// The elements converted to another type.
    pub fn cast(&self, dtype: DType) -> Result<Self> {
        match (self.dtype.is_float(), dtype) {
            (_, d) if d == self.dtype => Ok(self.clone()),
            (true, _) => Self::from_f64(dtype, &self.shape, &self.to_f64()),
            (false, _) => Self::from_i64(dtype, &self.shape, &self.to_i64()),
        }
    }
}

fn check_count(shape: &[usize], len: usize) -> Result<()> {
    match checked_elements(shape) {
        Some(n) if n == len => Ok(()),
        _ => bail!(Tensor, "shape {shape:?} does not hold {len} elements"),
    }
}

/// Row-major strides in elements.
pub fn row_major_strides(shape: &[i64]) -> Vec<i64> {
    let mut strides = vec![1i64; shape.len()];
    for d in (1..shape.len()).rev() {
        strides[d - 1] = strides[d].saturating_mul(shape[d].max(1));
    }
    strides
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rank_zero_and_empty_tensors() {
        let s = HostTensor::scalar(2.5f32);
        assert_eq!((s.shape(), s.len(), s.to_f64()), (&[][..], 1, vec![2.5]));
        let e = HostTensor::zeros(DType::I64, &[usize::MAX, 0, 3]).unwrap();
        assert!(e.is_empty() && e.as_slice::<i64>().unwrap().is_empty());
    }

    #[test]
    fn impossible_shapes_and_wrong_types_are_errors() {
        assert!(
            HostTensor::zeros(DType::F64, &[usize::MAX, 2]).unwrap_err().reason().contains("does not fit")
        );
        assert_eq!(HostTensor::zeros(DType::I8, &[1 << 46]).unwrap_err().kind(), crate::ErrorKind::Memory);
        let t = HostTensor::zeros(DType::F32, &[2]).unwrap();
        assert_eq!(t.as_slice::<f64>().unwrap_err().reason(), "a tensor of f32 read as f64");
        assert!(HostTensor::from_f64(DType::F32, &[2, 2], &[1.0]).is_err());
    }

    proptest! {
        #[test]
        fn conversions_round_as_the_dtype_says(d in 0..DType::ALL.len(), x in prop_oneof![-1e5..1e5, any::<f64>()], n: i64) {
            let d = DType::ALL[d];
            let y = HostTensor::from_f64(d, &[], &[x]).unwrap().to_f64()[0];
            prop_assert!(y == d.round(x) || y.is_nan() && d.round(x).is_nan(), "{y} {}", d.round(x));
            let m = HostTensor::from_i64(d, &[1], &[n]).unwrap();
            if !d.is_float() {
                prop_assert_eq!(m.to_i64()[0], d.wrap(n));
            }
        }
    }
}
