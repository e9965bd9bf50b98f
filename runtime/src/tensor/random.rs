//! Random tensors that are the same on every machine and in every version.

use super::{HostTensor, Scalar, with_element};
use crate::error::Result;

/// The generator of Steele, Lea and Flood (2014): a counter in steps of the golden ratio, each mixed by two
/// xor-shift-multiplies. Small, seekable, and good enough for test data.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// A generator for a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in `(0, 1]`.
    pub fn next_unit(&mut self) -> f64 {
        ((self.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// Two independent standard normal values (Box–Muller).
    pub fn next_normals(&mut self) -> (f64, f64) {
        let r = (-2.0 * self.next_unit().ln()).sqrt();
        let (sin, cos) = (std::f64::consts::TAU * self.next_unit()).sin_cos();
        (r * cos, r * sin)
    }
}

pub(super) fn fill(t: &mut HostTensor, seed: u64) -> Result<()> {
    let mut g = SplitMix64::new(seed);
    let float = t.dtype().is_float();
    with_element!(t.dtype(), T => {
        for pair in t.as_mut_slice::<T>()?.chunks_mut(2) {
            if float {
                let (a, b) = g.next_normals();
                for (o, v) in pair.iter_mut().zip([a, b]) {
                    *o = T::of_f64(v);
                }
            } else {
                for o in pair {
                    *o = T::of_i64((g.next_u64() >> 60) as i64 - 8);
                }
            }
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;

    #[test]
    fn known_values() {
        let mut g = SplitMix64::new(0);
        assert_eq!(g.next_u64(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(g.next_u64(), 0x6e78_9e6a_a1b9_65f4);
    }

    #[test]
    fn values_are_normal_and_depend_on_the_seed() {
        let t = HostTensor::random(DType::F64, &[101, 100], 7).unwrap();
        let v = t.to_f64();
        let mean = v.iter().sum::<f64>() / v.len() as f64;
        let var = v.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / v.len() as f64;
        assert!(mean.abs() < 0.04 && (var - 1.0).abs() < 0.05, "{mean} {var}");
        assert_ne!(t, HostTensor::random(DType::F64, &[101, 100], 8).unwrap());
        let i = HostTensor::random(DType::I8, &[1000], 1).unwrap().to_i64();
        assert_eq!((i.iter().min(), i.iter().max()), (Some(&-8), Some(&7)));
        let b = HostTensor::random(DType::I1, &[1000], 1).unwrap().bytes().to_vec();
        assert!(b.iter().all(|&x| x < 2) && b.contains(&0) && b.contains(&1));
    }
}
