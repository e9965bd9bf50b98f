//! Tensors on the GPU with a known content, and their comparison with what they should hold.

use super::Bench;
use crate::device::{Device, DevicePtr, Stream, TensorRef};
use crate::dtype::DType;
use crate::error::{Result, err};
use crate::float8::{F8E4M3, F8E5M2};
use std::sync::Arc;

/// Bytes before and behind every tensor that nothing may touch.
const GUARD: usize = 256;
/// NaN in every float type, -1 in every integer.
const POISON: u8 = 0xFF;

/// Memory that is given back.
pub struct Memory {
    device: Arc<dyn Device>,
    stream: Stream,
    ptr: DevicePtr,
    bytes: usize,
}

impl Memory {
    pub fn new(b: &Bench, bytes: usize) -> Result<Self> {
        let ptr = b.device.alloc(bytes, b.stream())?;
        Ok(Self { device: b.device.clone(), stream: b.stream(), ptr, bytes })
    }

    pub fn ptr(&self) -> DevicePtr {
        self.ptr
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: ours, and every use was queued in this stream before.
        unsafe { self.device.free(self.ptr, self.bytes, self.stream) }
    }
}

/// A strided tensor in memory of its own.
pub struct Tensor {
    memory: Memory,
    pub dtype: DType,
    pub shape: Vec<i64>,
    pub strides: Vec<i64>,
    /// Elements from the first byte behind the guard to element 0.
    zero: i64,
}

/// Deterministic numbers in [-1, 1], different per seed.
pub fn numbers(seed: u64, count: usize) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

/// `values` in memory.
pub fn encode(dtype: DType, values: &[f64]) -> Vec<u8> {
    let bytes = |v: f64| -> Vec<u8> {
        match dtype {
            DType::F64 => v.to_le_bytes().into(),
            DType::F32 => (v as f32).to_le_bytes().into(),
            DType::F16 => half::f16::from_f64(v).to_le_bytes().into(),
            DType::BF16 => half::bf16::from_f64(v).to_le_bytes().into(),
            DType::I64 => (v as i64).to_le_bytes().into(),
            DType::I32 => (v as i32).to_le_bytes().into(),
            DType::I16 => (v as i16).to_le_bytes().into(),
            DType::I8 | DType::I1 => vec![v as i8 as u8],
            DType::U8 => vec![v as i64 as u8],
            DType::F8E4M3 => vec![F8E4M3::from_f64(v).0],
            DType::F8E5M2 => vec![F8E5M2::from_f64(v).0],
        }
    };
    values.iter().copied().flat_map(bytes).collect()
}

/// One element from memory.
pub fn decode(dtype: DType, b: &[u8]) -> f64 {
    match dtype {
        DType::F64 => f64::from_le_bytes(b.try_into().expect("8 bytes")),
        DType::F32 => f32::from_le_bytes(b.try_into().expect("4 bytes")).into(),
        DType::F16 => half::f16::from_le_bytes(b.try_into().expect("2 bytes")).to_f64(),
        DType::BF16 => half::bf16::from_le_bytes(b.try_into().expect("2 bytes")).to_f64(),
        DType::I64 => i64::from_le_bytes(b.try_into().expect("8 bytes")) as f64,
        DType::I32 => i32::from_le_bytes(b.try_into().expect("4 bytes")).into(),
        DType::I16 => i16::from_le_bytes(b.try_into().expect("2 bytes")).into(),
        DType::I8 | DType::I1 => (b[0] as i8).into(),
        DType::U8 => b[0].into(),
        DType::F8E4M3 => F8E4M3(b[0]).to_f64(),
        DType::F8E5M2 => F8E5M2(b[0]).to_f64(),
    }
}

/// Row-major indices of a shape.
pub fn indices(shape: &[i64]) -> impl Iterator<Item = Vec<i64>> + '_ {
    let total: i64 = shape.iter().product();
    (0..total).map(|mut i| {
        let mut index = vec![0; shape.len()];
        for d in (0..shape.len()).rev() {
            index[d] = i % shape[d];
            i /= shape[d];
        }
        index
    })
}

/// Contiguous row-major strides.
pub fn row_major(shape: &[i64]) -> Vec<i64> {
    permuted(shape, &(0..shape.len()).collect::<Vec<_>>(), 0)
}

/// Strides with the dimensions in `order`, outermost first, and `gap` elements behind each row of the innermost.
pub fn permuted(shape: &[i64], order: &[usize], gap: i64) -> Vec<i64> {
    let mut strides = vec![1; shape.len()];
    let mut run = 1;
    for (at, &d) in order.iter().rev().enumerate() {
        strides[d] = run;
        run = run * shape[d].max(1) + if at == 0 { gap } else { 0 };
    }
    strides
}

impl Tensor {
    /// A tensor full of poison.
    pub fn poison(b: &Bench, dtype: DType, shape: &[i64], strides: &[i64]) -> Result<Self> {
        Self::poison_at(b, dtype, shape, strides, 0)
    }

    /// A tensor full of poison that begins `shift` elements behind an aligned address.
    pub fn poison_at(b: &Bench, dtype: DType, shape: &[i64], strides: &[i64], shift: i64) -> Result<Self> {
        let (mut low, mut high) = (0, 0);
        for (n, s) in shape.iter().zip(strides) {
            let reach = s * (n - 1).max(0);
            low += reach.min(0);
            high += reach.max(0);
        }
        let bytes = (high - low + 1 + shift) as usize * dtype.size() + 2 * GUARD;
        let memory = Memory::new(b, bytes)?;
        // SAFETY: the memory is ours and that long.
        unsafe { b.device.copy_from_host(memory.ptr(), &vec![POISON; bytes], b.stream()) }?;
        Ok(Self { memory, dtype, shape: shape.into(), strides: strides.into(), zero: shift - low })
    }

    /// A tensor of `values`, row-major, rounded to `dtype`. The gaps are poison.
    pub fn of(b: &Bench, dtype: DType, shape: &[i64], strides: &[i64], values: &[f64]) -> Result<Self> {
        let made = Self::poison(b, dtype, shape, strides)?;
        made.set(b, values)?;
        Ok(made)
    }

    /// Fills in `values`, row-major, rounded.
    pub fn set(&self, b: &Bench, values: &[f64]) -> Result<()> {
        let mut bytes = vec![POISON; self.memory.bytes()];
        let size = self.dtype.size();
        let encoded = encode(self.dtype, values);
        for (index, value) in indices(&self.shape).zip(encoded.chunks(size)) {
            let at = self.byte_of(&index);
            bytes[at..at + size].copy_from_slice(value);
        }
        // SAFETY: the memory is ours and that long.
        unsafe { b.device.copy_from_host(self.memory.ptr(), &bytes, b.stream()) }
    }

    /// Address of element 0.
    pub fn ptr(&self) -> DevicePtr {
        self.memory.ptr().offset(GUARD as i64 + self.zero * self.dtype.size() as i64)
    }

    pub fn view(&self) -> TensorRef<'_> {
        TensorRef { ptr: self.ptr(), dtype: self.dtype, shape: &self.shape, strides: &self.strides }
    }

    fn byte_of(&self, index: &[i64]) -> usize {
        let offset: i64 = index.iter().zip(&self.strides).map(|(i, s)| i * s).sum();
        GUARD + (self.zero + offset) as usize * self.dtype.size()
    }

    /// Waits, and compares every element with `want` within `tolerance`, and everything else with poison.
    /// Returns the largest share of a tolerance that was used.
    pub fn compare(&self, b: &Bench, want: &[f64], tolerance: impl Fn(usize) -> f64) -> Result<f64> {
        let mut bytes = vec![0; self.memory.bytes()];
        // SAFETY: the memory is ours and that long.
        unsafe { b.device.copy_to_host(&mut bytes, self.memory.ptr(), b.stream()) }?;
        let size = self.dtype.size();
        let mut worst = 0.0f64;
        let mut untouched = vec![true; bytes.len()];
        for (at, index) in indices(&self.shape).enumerate() {
            let start = self.byte_of(&index);
            untouched[start..start + size].fill(false);
            let (got, want, allowed) =
                (decode(self.dtype, &bytes[start..start + size]), want[at], tolerance(at));
            let error = (got - want).abs();
            if error.is_nan() || error > allowed {
                return Err(err!(
                    Device,
                    "element {index:?} is {got}, not {want} (allowed error {allowed:.3e})"
                )
                .next("report this as a bug, with the whole self-test"));
            }
            if allowed > 0.0 {
                worst = worst.max(error / allowed);
            }
        }
        match (0..bytes.len()).find(|&i| untouched[i] && bytes[i] != POISON) {
            Some(i) => Err(err!(
                Device,
                "byte {} of the tensor's memory was overwritten, which holds no element",
                i as i64 - GUARD as i64
            )
            .next("report this as a bug, with the whole self-test")),
            None => Ok(worst),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoding_keeps_what_rounding_keeps() {
        for dtype in DType::ALL {
            let values: Vec<f64> = [0.3, -0.7, 1.0].map(|v| dtype.round(v)).into();
            let bytes = encode(dtype, &values);
            let back: Vec<f64> = bytes.chunks(dtype.size()).map(|b| decode(dtype, b)).collect();
            assert_eq!(back, values, "{dtype}");
            if dtype.is_float() {
                assert!(decode(dtype, &[POISON; 8][..dtype.size()]).is_nan());
            }
        }
    }

    #[test]
    fn strides_of_orders() {
        assert_eq!(row_major(&[2, 3, 4]), [12, 4, 1]);
        assert_eq!(permuted(&[2, 3, 4], &[0, 2, 1], 0), [12, 1, 3]);
        assert_eq!(permuted(&[2, 3, 4], &[0, 1, 2], 2), [18, 6, 1]);
        assert_eq!(indices(&[2, 2]).collect::<Vec<_>>(), [[0, 0], [0, 1], [1, 0], [1, 1]]);
        assert!(numbers(1, 1000).iter().all(|v| v.abs() <= 1.0));
        assert_ne!(numbers(1, 4), numbers(2, 4));
    }
}
