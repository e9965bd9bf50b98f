//! The oracle: whether a run of a changed program agrees with runs of the program it came from.

use std::fmt;
use strata_dialects::reference::{RefTensor, Values, unflatten};
use strata_runtime::DType;

/// The first place where two runs disagree, and by how much.
#[derive(Clone, Debug, PartialEq)]
pub struct Mismatch {
    /// Which result.
    pub result: usize,
    /// Where in it; empty for a difference of type, shape or number.
    pub index: Vec<usize>,
    /// What differs.
    pub message: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.index.is_empty() && self.message.starts_with("the ") {
            return write!(f, "result {}: {}", self.result, self.message);
        }
        write!(f, "result {}, element {:?}: {}", self.result, self.index, self.message)
    }
}

impl std::error::Error for Mismatch {}

/// Compares `exact`, a run with rounding of the changed program, with two runs of the original on the same inputs: with rounding and
/// in float64.
///
/// * Types, shapes, integers and the places of NaN and of each infinity must be equal.
/// * A float may be off the float64 value by twice the error that the original's own run with rounding makes, plus two units in the
///   last place. So no tolerance has to be chosen: a program may be as inaccurate as the one it replaces, not more.
/// * "Own error" is the element's, or the tensor's where that is larger and the run is not known to be accurate element by element (64
///   elements or more, each within one unit): a sum in another order makes another error of the same size, not the same error, so lucky
///   elements must not become the bound. The tensor's error is the largest of its elements', and at least 1 + 4/√n of their root mean square,
///   since n elements may not show what one more could be. For the same reason units are then those of the tensor's root mean square value
///   where it is larger: after cancellation, the error of a sum is in proportion to its terms, of which the other results tell.
/// * Where the own error says little, an error is assumed in units of that size: 4 where fewer than 8 elements are there to measure, and
///   512 in f64, which is what the reference itself is computed in.
/// * Values below the smallest normal number of the type count as zero: hardware may flush them.
pub fn compare(
    exact: &[RefTensor],
    exact_reference: &[RefTensor],
    float64_reference: &[RefTensor],
) -> Result<(), Mismatch> {
    let fail = |result, index, message| Err(Mismatch { result, index, message });
    if exact.len() != exact_reference.len() {
        return fail(
            0,
            vec![],
            format!("the number of results is {}, was {}", exact.len(), exact_reference.len()),
        );
    }
    for (i, ((a, b), c)) in exact.iter().zip(exact_reference).zip(float64_reference).enumerate() {
        if a.dtype != b.dtype || a.shape != b.shape {
            let message = format!("the type is {}{:?}, was {}{:?}", a.dtype, a.shape, b.dtype, b.shape);
            return fail(i, vec![], message);
        }
        match (&a.values, &b.values) {
            (Values::Int(x), Values::Int(y)) => {
                if let Some(k) = x.iter().zip(y).position(|(x, y)| x != y) {
                    return fail(i, unflatten(k, &a.shape), format!("{}, was {}", x[k], y[k]));
                }
            }
            (Values::Float(x), Values::Float(y)) => {
                if let Some((k, message)) = floats(a.dtype, x, y, c.floats()) {
                    return fail(i, unflatten(k, &a.shape), message);
                }
            }
            _ => unreachable!("the element types are equal"),
        }
    }
    Ok(())
}

/// The smallest normal number.
fn smallest(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::MIN_POSITIVE,
        DType::F16 | DType::F8E5M2 => 6.103515625e-5,
        DType::F8E4M3 => 0.015625,
        _ => f32::MIN_POSITIVE as f64,
    }
}

/// Distance between neighbouring numbers of the type at `x`.
fn ulp(dtype: DType, x: f64) -> f64 {
    let x = x.abs().max(smallest(dtype));
    // The power of two at or below x, exactly.
    let power = f64::from_bits(x.to_bits() & 0x7ff0_0000_0000_0000);
    power * dtype.epsilon().expect("a float type")
}

fn root_mean_square(values: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut n) = (0.0, 0.0);
    for v in values {
        sum += v * v;
        n += 1.0;
    }
    if n == 0.0 { 0.0 } else { f64::sqrt(sum / n) }
}

/// So many elements are not all accurate by luck.
const MANY: usize = 64;

/// The worst finite disagreement, or the first special value that differs.
fn floats(dtype: DType, exact: &[f64], reference: &[f64], float64: &[f64]) -> Option<(usize, String)> {
    let usual: Vec<usize> =
        (0..exact.len()).filter(|&k| reference[k].is_finite() && float64[k].is_finite()).collect();
    let own = |k: usize| (reference[k] - float64[k]).abs();
    let assumed = match (dtype, usual.len()) {
        (DType::F64, _) => 512.0,
        (_, 0..8) => 4.0,
        _ => 0.0,
    };
    let accurate =
        usual.len() >= MANY && assumed == 0.0 && usual.iter().all(|&k| own(k) <= ulp(dtype, float64[k]));
    let (error, scale) = if accurate {
        (0.0, 0.0)
    } else {
        let largest = usual.iter().map(|&k| own(k)).fold(0.0, f64::max);
        let few = 1.0 + 4.0 / f64::sqrt(usual.len().max(1) as f64);
        let usually = few * root_mean_square(usual.iter().map(|&k| own(k)));
        (largest.max(usually), root_mean_square(usual.iter().map(|&k| float64[k])))
    };
    let error = error.max(assumed * ulp(dtype, scale));
    let mut worst: Option<(f64, usize, String)> = None;
    for k in 0..exact.len() {
        let (x, y, z) = (exact[k], reference[k], float64[k]);
        if !y.is_finite() {
            if !(x.is_nan() && y.is_nan() || x == y) {
                return Some((k, format!("{x}, was {y}")));
            }
            continue;
        }
        if !x.is_finite() {
            return Some((k, format!("{x}, was {y}")));
        }
        if !z.is_finite() {
            // Only in float64 something overflows that did not before: there is nothing to measure with.
            if x != y {
                return Some((k, format!("{x}, was {y}, and {z} in float64")));
            }
            continue;
        }
        let bound = 2.0 * own(k).max(error) + 2.0 * ulp(dtype, z.abs().max(scale));
        let off = (x - z).abs();
        let both_tiny = x.abs() < smallest(dtype) && z.abs() < smallest(dtype);
        if off > bound && !both_tiny && worst.as_ref().is_none_or(|(w, _, _)| off / bound > *w) {
            let message = format!("{x}, was {y}, and {z} in float64: off by {off:e}, allowed {bound:e}");
            worst = Some((off / bound, k, message));
        }
    }
    worst.map(|(_, k, message)| (k, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn f32s(values: &[f64]) -> Vec<RefTensor> {
        vec![RefTensor {
            dtype: DType::F32,
            shape: vec![values.len()],
            values: Values::Float(values.to_vec()),
        }]
    }

    #[test]
    fn two_units_are_allowed_and_three_are_not() {
        let ulp = f32::EPSILON as f64;
        let with = |first: f64| f32s(&[&[first], [8.0; 63].as_slice()].concat());
        assert_eq!(compare(&with(1.0 + 2.0 * ulp), &with(1.0), &with(1.0)), Ok(()));
        let e = compare(&with(1.0 + 3.0 * ulp), &with(1.0), &with(1.0)).expect_err("too far");
        assert_eq!(e.index, [0]);
    }

    #[test]
    fn lucky_elements_are_not_the_bound() {
        let ulp = f32::EPSILON as f64;
        // Eight elements within a unit, after cancellation of terms whose units are those of the largest results.
        let with = |first: f64| f32s(&[&[first], [8.0; 7].as_slice()].concat());
        assert_eq!(compare(&with(1.0 + 8.0 * ulp), &with(1.0), &with(1.0)), Ok(()));
        assert!(compare(&with(1.0 + 9.0 * ulp), &with(1.0), &with(1.0)).is_err());
        // A sum's errors: another element may have the largest one.
        let off = |k: usize| {
            f32s(&(0..64).map(|i| if i == k { 1.0 + 9.0 * ulp } else { 1.0 + ulp }).collect::<Vec<_>>())
        };
        let exact = f32s(&[1.0; 64]);
        assert_eq!(compare(&off(3), &off(40), &exact), Ok(()));
    }

    #[test]
    fn few_elements_and_float64_have_assumed_errors() {
        let ulp = f32::EPSILON as f64;
        let one = f32s(&[1.0]);
        assert_eq!(compare(&f32s(&[1.0 + 10.0 * ulp]), &one, &one), Ok(()));
        assert!(compare(&f32s(&[1.0 + 11.0 * ulp]), &one, &one).is_err());
        let f64s = |x| vec![RefTensor { dtype: DType::F64, shape: vec![], values: Values::Float(vec![x]) }];
        assert_eq!(compare(&f64s(1.0 + 1e-13), &f64s(1.0), &f64s(1.0)), Ok(()));
        assert!(compare(&f64s(1.0 + 1e-12), &f64s(1.0), &f64s(1.0)).is_err());
    }

    #[test]
    fn a_program_may_be_as_inaccurate_as_the_one_it_replaces() {
        let (reference, float64) = (f32s(&[1.01, 2.0, 3.0]), f32s(&[1.0, 2.0, 3.0]));
        assert_eq!(compare(&f32s(&[0.99, 2.0, 3.0]), &reference, &float64), Ok(()));
        assert!(compare(&f32s(&[1.05, 2.0, 3.0]), &reference, &float64).is_err());
        assert!(compare(&f32s(&[1.0, 2.05, 3.0]), &reference, &float64).is_err());
    }

    #[test]
    fn special_values_have_places() {
        let reference = f32s(&[f64::NAN, f64::INFINITY, 1.0]);
        assert_eq!(compare(&reference, &reference, &reference), Ok(()));
        assert!(compare(&f32s(&[f64::NAN, f64::NEG_INFINITY, 1.0]), &reference, &reference).is_err());
        assert!(compare(&f32s(&[0.0, f64::INFINITY, 1.0]), &reference, &reference).is_err());
        assert!(compare(&f32s(&[f64::NAN, f64::INFINITY, f64::NAN]), &reference, &reference).is_err());
    }

    #[test]
    fn shapes_types_and_integers() {
        let ints = |v: &[i64]| {
            vec![RefTensor { dtype: DType::I32, shape: vec![v.len()], values: Values::Int(v.to_vec()) }]
        };
        assert_eq!(compare(&ints(&[1, 2]), &ints(&[1, 2]), &ints(&[1, 2])), Ok(()));
        assert_eq!(compare(&ints(&[1, 3]), &ints(&[1, 2]), &ints(&[1, 2])).expect_err("differs").index, [1]);
        assert!(compare(&ints(&[1]), &ints(&[1, 2]), &ints(&[1, 2])).is_err());
        assert!(compare(&f32s(&[1.0]), &ints(&[1]), &ints(&[1])).is_err());
    }

    #[test]
    fn tiny_values_may_be_flushed() {
        let with = |first: f64| f32s(&[&[first], [1.0; 63].as_slice()].concat());
        assert_eq!(compare(&with(0.0), &with(1e-39), &with(1e-39)), Ok(()));
        assert!(compare(&with(0.0), &with(1e-30), &with(1e-30)).is_err());
    }
}
