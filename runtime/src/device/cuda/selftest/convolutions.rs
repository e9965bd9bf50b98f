//! Convolutions against loops on the host.

use super::Bench;
use super::tensors::{Tensor, indices, numbers, permuted, row_major};
use crate::device::ResolvedConvolution;
use crate::dtype::DType;
use crate::error::{ErrorKind, Result, err};

pub fn run(b: &mut Bench) {
    b.check_optional("cuDNN", |b| Ok(format!("version {}", b.gpu()?.convolutions()?.version())));
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::F64] {
        for last in [false, true] {
            for case in cases() {
                let order = if last { "channels last" } else { "channels first" };
                let name = format!("convolution {dtype}, {order}, {}", case.name);
                // What every model needs must be there; the rest may be left to own kernels.
                let optional = dtype == DType::F64 || case.rare || last && dtype == DType::F32;
                let check = |b: &Bench| check_case(b, dtype, last, &case);
                if optional { b.check_optional(name, check) } else { b.check(name, check) }
            }
        }
    }
    b.check("convolution: gaps between rows", gaps);
    b.check("convolution: uneven padding is left to the compiler", uneven);
    b.check("convolution: no input channels", no_channels);
}

struct Case {
    name: &'static str,
    /// `n, c, spatial…`.
    input: Vec<i64>,
    /// `o, c / groups, spatial…`.
    weight: Vec<i64>,
    stride: Vec<i64>,
    padding: Vec<i64>,
    dilation: Vec<i64>,
    groups: i64,
    /// Whether models seldom have it.
    rare: bool,
}

fn cases() -> Vec<Case> {
    let case = |name, input: &[i64], weight: &[i64], stride, padding, dilation, groups| {
        let spatial = input.len() - 2;
        Case {
            name,
            input: input.into(),
            weight: weight.into(),
            stride: vec![stride; spatial],
            padding: vec![padding; spatial],
            dilation: vec![dilation; spatial],
            groups,
            rare: spatial == 3,
        }
    };
    vec![
        case("1x1", &[2, 16, 9, 7], &[24, 16, 1, 1], 1, 0, 1, 1),
        case("3x3", &[2, 8, 12, 10], &[16, 8, 3, 3], 1, 1, 1, 1),
        case("3x3, odd channels", &[1, 3, 11, 13], &[5, 3, 3, 3], 1, 1, 1, 1),
        case("7x7 stride 2, first layer", &[1, 3, 32, 32], &[64, 3, 7, 7], 2, 3, 1, 1),
        case("3x3 stride 2", &[2, 16, 15, 15], &[32, 16, 3, 3], 2, 1, 1, 1),
        case("3x3 dilated", &[1, 8, 16, 16], &[8, 8, 3, 3], 1, 2, 2, 1),
        case("no padding", &[1, 8, 8, 8], &[8, 8, 5, 5], 1, 0, 1, 1),
        case("groups", &[2, 16, 8, 8], &[32, 4, 3, 3], 1, 1, 1, 4),
        case("depthwise", &[2, 16, 10, 10], &[16, 1, 3, 3], 1, 1, 1, 16),
        case("one channel, one image", &[1, 1, 8, 8], &[8, 1, 3, 3], 1, 1, 1, 1),
        case("one output pixel", &[2, 8, 4, 4], &[8, 8, 4, 4], 1, 0, 1, 1),
        case("one dimension", &[2, 8, 33], &[12, 8, 5], 2, 2, 1, 1),
        case("one dimension, groups", &[1, 8, 40], &[8, 2, 3], 1, 1, 1, 4),
        case("three dimensions", &[1, 4, 6, 7, 8], &[6, 4, 3, 3, 3], 1, 1, 1, 1),
        case("three dimensions, stride 2", &[1, 4, 9, 9, 9], &[4, 4, 3, 3, 3], 2, 1, 1, 1),
    ]
}

fn out_shape(c: &Case) -> Vec<i64> {
    let spatial = |d: usize| {
        let reach = (c.weight[d + 2] - 1) * c.dilation[d] + 1;
        (c.input[d + 2] + 2 * c.padding[d] - reach) / c.stride[d] + 1
    };
    [c.input[0], c.weight[0]].into_iter().chain((0..c.stride.len()).map(spatial)).collect()
}

/// Each result with the sum of its terms' sizes.
fn reference(c: &Case, x: &[f64], w: &[f64]) -> Vec<(f64, f64)> {
    let (sx, sw) = (row_major(&c.input), row_major(&c.weight));
    let per_group = c.weight[0] / c.groups;
    let one = |index: Vec<i64>| {
        let (mut sum, mut size) = (0.0, 0.0);
        let first = index[1] / per_group * c.weight[1];
        for tap in indices(&c.weight[1..]) {
            let mut at = index[0] * sx[0] + (first + tap[0]) * sx[1];
            let mut inside = true;
            for d in 0..c.stride.len() {
                let p = index[d + 2] * c.stride[d] + tap[d + 1] * c.dilation[d] - c.padding[d];
                inside &= (0..c.input[d + 2]).contains(&p);
                at += p * sx[d + 2];
            }
            if inside {
                let from: i64 = index[1] * sw[0] + tap.iter().zip(&sw[1..]).map(|(i, s)| i * s).sum::<i64>();
                let term = x[at as usize] * w[from as usize];
                sum += term;
                size += term.abs();
            }
        }
        (sum, size)
    };
    indices(&out_shape(c)).map(one).collect()
}

fn check_case(b: &Bench, dtype: DType, last: bool, c: &Case) -> Result<String> {
    let rank = c.input.len();
    let order: Vec<usize> =
        if last { [0].into_iter().chain(2..rank).chain([1]).collect() } else { (0..rank).collect() };
    let out = out_shape(c);
    let strides = [&c.input, &c.weight, &out].map(|s| permuted(s, &order, 0));
    run_with(b, dtype, c, strides)
}

fn run_with(b: &Bench, dtype: DType, c: &Case, [sx, sw, sy]: [Vec<i64>; 3]) -> Result<String> {
    let count = |s: &[i64]| s.iter().product::<i64>() as usize;
    let rounded = |seed, n| -> Vec<f64> { numbers(seed, n).iter().map(|v| dtype.round(*v)).collect() };
    let (x, w) = (rounded(21, count(&c.input)), rounded(22, count(&c.weight)));
    let input = Tensor::of(b, dtype, &c.input, &sx, &x)?;
    let weight = Tensor::of(b, dtype, &c.weight, &sw, &w)?;
    let out = Tensor::poison(b, dtype, &out_shape(c), &sy)?;
    let padding: Vec<(i64, i64)> = c.padding.iter().map(|p| (*p, *p)).collect();
    let convolution = ResolvedConvolution {
        input: input.view(),
        weight: weight.view(),
        out: out.view(),
        stride: &c.stride,
        padding: &padding,
        dilation: &c.dilation,
        groups: c.groups,
    };
    // Twice: the second time from the cache.
    for _ in 0..2 {
        // SAFETY: all tensors are ours.
        unsafe { b.device.convolution(&convolution, None, b.stream()) }?;
    }
    let want = reference(c, &x, &w);
    let terms = c.weight[1..].iter().product::<i64>() as f64;
    let allowed = |at: usize| {
        let (value, size) = want[at];
        let (accumulator, step) = match dtype {
            DType::F64 => (f64::EPSILON, f64::EPSILON),
            d => (f64::from(f32::EPSILON), d.epsilon().unwrap_or(0.0)),
        };
        // Winograd and FFT round their transforms as well; with half factors, transforms are rounded to halves.
        let transform = match dtype {
            DType::F32 | DType::F64 => 32.0 * accumulator,
            _ => 0.5 * step,
        };
        (accumulator * (terms / 2.0 + 4.0) + transform) * size + step * value.abs() * 0.51 + 1e-7
    };
    let values: Vec<f64> = want.iter().map(|(v, _)| *v).collect();
    let worst = out.compare(b, &values, allowed)?;
    Ok(format!("at most {:.0} % of the allowed error", worst * 100.0))
}

/// A crop of a larger image: the strides hold more than the sizes say.
fn gaps(b: &Bench) -> Result<String> {
    let c = &cases()[1];
    let out = out_shape(c);
    let wider = |s: &[i64]| {
        let mut big = s.to_vec();
        big[2] += 2;
        big[3] += 4;
        row_major(&big)
    };
    let weight = row_major(&c.weight);
    run_with(b, DType::F32, c, [wider(&c.input), weight.clone(), row_major(&out)])?;
    run_with(b, DType::F32, c, [row_major(&c.input), weight.clone(), wider(&out)])?;
    run_with(b, DType::F32, c, [wider(&c.input), weight, wider(&out)])
}

fn uneven(b: &Bench) -> Result<String> {
    let x = Tensor::of(b, DType::F32, &[1, 1, 8, 8], &[64, 64, 8, 1], &numbers(1, 64))?;
    let w = Tensor::of(b, DType::F32, &[1, 1, 3, 3], &[9, 9, 3, 1], &numbers(2, 9))?;
    let y = Tensor::poison(b, DType::F32, &[1, 1, 8, 8], &[64, 64, 8, 1])?;
    let convolution = ResolvedConvolution {
        input: x.view(),
        weight: w.view(),
        out: y.view(),
        stride: &[1, 1],
        padding: &[(0, 2), (1, 1)],
        dilation: &[1, 1],
        groups: 1,
    };
    // SAFETY: all tensors are ours.
    match unsafe { b.device.convolution(&convolution, None, b.stream()) } {
        Err(e) if e.kind() == ErrorKind::Unsupported => Ok(e.next_step().to_string()),
        Err(e) => Err(e),
        Ok(()) => Err(err!(Device, "it went through the library").next("report this as a bug")),
    }
}

fn no_channels(b: &Bench) -> Result<String> {
    let x = Tensor::poison(b, DType::F32, &[1, 0, 4, 4], &[0, 16, 4, 1])?;
    let w = Tensor::poison(b, DType::F32, &[2, 0, 1, 1], &[0, 1, 1, 1])?;
    let y = Tensor::poison(b, DType::F32, &[1, 2, 4, 4], &[40, 20, 5, 1])?;
    let convolution = ResolvedConvolution {
        input: x.view(),
        weight: w.view(),
        out: y.view(),
        stride: &[1, 1],
        padding: &[(0, 0), (0, 0)],
        dilation: &[1, 1],
        groups: 1,
    };
    // SAFETY: all tensors are ours.
    unsafe { b.device.convolution(&convolution, None, b.stream()) }?;
    y.compare(b, &[0.0; 32], |_| 0.0)?;
    Ok("zeros".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checks_pass_on_the_cpu() {
        let b = super::super::tests::on_cpu();
        for case in cases().iter().filter(|c| c.input.iter().product::<i64>() < 3000) {
            for last in [false, true] {
                check_case(&b, DType::F32, last, case).map_err(|e| e.at(case.name)).unwrap();
            }
        }
        gaps(&b).unwrap();
        no_channels(&b).unwrap();
    }

    #[test]
    fn reference_of_a_known_convolution() {
        let c = Case {
            name: "",
            input: vec![1, 2, 4],
            weight: vec![2, 1, 2],
            stride: vec![2],
            padding: vec![1],
            dilation: vec![1],
            groups: 2,
            rare: false,
        };
        assert_eq!(out_shape(&c), [1, 2, 3]);
        let y = reference(&c, &[1., 2., 3., 4., 5., 6., 7., 8.], &[1., 10., 1., -1.]);
        // Group 0: (0,1), (2,3), (4,0) with (1, 10); group 1: (0,5), (6,7), (8,0) with (1, -1).
        let values: Vec<f64> = y.iter().map(|(v, _)| *v).collect();
        assert_eq!(values, [10., 32., 4., -5., -1., 8.]);
        assert_eq!(y[3].1, 5.0);
    }

    #[test]
    fn cases_fit_together() {
        for c in cases() {
            assert!(out_shape(&c).iter().all(|n| *n > 0), "{}", c.name);
            assert_eq!(c.input[1], c.weight[1] * c.groups, "{}", c.name);
        }
    }
}
