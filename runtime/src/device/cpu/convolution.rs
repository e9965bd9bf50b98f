//! Convolutions: patches gathered into a matrix (im2col) in blocks, then a product.

use super::super::{ResolvedConvolution, TensorRef};
use super::Shared;
use super::product::{Accumulator, accumulator_of};
use crate::dtype::DType;
use crate::error::{Result, bail};
use crate::tensor::with_element;
use rayon::prelude::*;

/// Elements of a block of the patch matrix: it should stay in the second-level cache.
const BLOCK_ELEMENTS: usize = 1 << 17;
const MIN_POSITIONS: usize = 32;

/// Runs the convolution.
///
/// # Safety
/// As [`Device::convolution`](super::super::Device::convolution).
pub unsafe fn convolution(c: &ResolvedConvolution<'_>) -> Result<()> {
    check(c)?;
    // SAFETY: promised by the caller.
    unsafe {
        match accumulator_of(&[c.input.dtype, c.weight.dtype, c.out.dtype]) {
            DType::F64 => run::<f64>(c),
            DType::F32 => run::<f32>(c),
            _ => run::<i64>(c),
        }
    }
    Ok(())
}

fn check(c: &ResolvedConvolution<'_>) -> Result<()> {
    let (x, w, y) = (c.input.shape, c.weight.shape, c.out.shape);
    let spatial = c.stride.len();
    let ranks = [x.len(), w.len(), y.len()];
    if spatial == 0
        || spatial > 3
        || ranks != [spatial + 2; 3]
        || c.padding.len() != spatial
        || c.dilation.len() != spatial
    {
        bail!(
            Unsupported,
            "a convolution over {spatial} dimensions of tensors {x:?}, {w:?}, {y:?}; 1 to 3 are supported"
        );
    }
    let g = c.groups;
    if g < 1 || x[1] != w[1] * g || y[1] != w[0] || w[0] % g != 0 || x[0] != y[0] {
        bail!(Plan, "a convolution of {x:?} by {w:?} in {g} groups does not give {y:?}");
    }
    for d in 0..spatial {
        let (before, after) = c.padding[d];
        let room = x[d + 2] + before + after - (c.dilation[d] * (w[d + 2] - 1) + 1);
        let expected = if c.stride[d] < 1 || room < 0 { 0 } else { room / c.stride[d] + 1 };
        if c.stride[d] < 1 || c.dilation[d] < 1 || expected != y[d + 2] {
            bail!(
                Plan,
                "spatial dimension {d} of a convolution of {x:?} by {w:?} has {expected} positions, not {}",
                y[d + 2]
            );
        }
    }
    Ok(())
}

unsafe fn run<A: Accumulator>(c: &ResolvedConvolution<'_>) {
    let per_group = (c.weight.shape[0] / c.groups) as usize;
    let patch: usize = c.weight.shape[1..].iter().product::<i64>() as usize;
    let positions: usize = c.out.shape[2..].iter().product::<i64>() as usize;
    if c.out.elements() == 0 {
        return;
    }
    // SAFETY: promised by the caller.
    let weights: Vec<A> = unsafe { read_all(&c.weight) };
    let block =
        (BLOCK_ELEMENTS / patch.max(1)).clamp(MIN_POSITIONS, positions.max(MIN_POSITIONS)).min(positions);
    let blocks = positions.div_ceil(block);
    let tasks = c.out.shape[0] as usize * c.groups as usize * blocks;
    (0..tasks).into_par_iter().for_each_init(
        || (Vec::<A>::new(), Vec::<A>::new()),
        |(patches, values), task| {
            let (image, rest) = (task / (c.groups as usize * blocks), task % (c.groups as usize * blocks));
            let (group, start) = (rest / blocks, rest % blocks * block);
            let count = block.min(positions - start);
            patches.resize(patch * count, A::default());
            values.resize(per_group * count, A::default());
            let w = &weights[group * per_group * patch..];
            // SAFETY: promised by the caller; the scratch matrices have these sizes, and blocks write disjoint elements.
            unsafe {
                gather(c, image, group, start, count, patches);
                if patch == 0 {
                    values.fill(A::default());
                } else {
                    A::multiply(
                        (per_group, count, patch),
                        (values.as_mut_ptr(), count as isize, 1),
                        (w.as_ptr(), patch as isize, 1),
                        (patches.as_ptr(), count as isize, 1),
                        false,
                    );
                }
                scatter(c, image, group * per_group, start, count, values);
            }
        },
    );
}

/// Row-major index of a spatial position.
fn unravel(mut at: usize, shape: &[i64]) -> [i64; 3] {
    let mut out = [0; 3];
    for d in (0..shape.len()).rev() {
        out[d] = at as i64 % shape[d];
        at /= shape[d] as usize;
    }
    out
}

/// Fills the patch matrix: a row for each weight element of a filter, a column for each output position.
unsafe fn gather<A: Accumulator>(
    c: &ResolvedConvolution<'_>,
    image: usize,
    group: usize,
    start: usize,
    count: usize,
    out: &mut [A],
) {
    let spatial = c.stride.len();
    let (x, kernel, positions) = (&c.input, &c.weight.shape[2..], &c.out.shape[2..]);
    let taps: usize = kernel.iter().product::<i64>() as usize;
    let inner = spatial - 1;
    with_element!(x.dtype, T => {
        for (row, out) in out.chunks_exact_mut(count).enumerate() {
            let (channel, tap) = (row / taps, unravel(row % taps, kernel));
            let channel = group as i64 * c.weight.shape[1] + channel as i64;
            let base = image as i64 * x.strides[0] + channel * x.strides[1];
            let mut done = 0;
            // Runs along the innermost spatial dimension share their outer coordinates.
            while done < count {
                let at = unravel(start + done, positions);
                let run = ((positions[inner] - at[inner]) as usize).min(count - done);
                let coordinate = |d: usize, o: i64| o * c.stride[d] - c.padding[d].0 + tap[d] * c.dilation[d];
                let outer = (0..inner).try_fold(base, |offset, d| {
                    let i = coordinate(d, at[d]);
                    (0..x.shape[d + 2]).contains(&i).then(|| offset + i * x.strides[d + 2])
                });
                let out = &mut out[done..done + run];
                match outer {
                    None => out.fill(A::default()),
                    Some(offset) => {
                        for (o, n) in out.iter_mut().zip(at[inner]..) {
                            let i = coordinate(inner, n);
                            *o = if (0..x.shape[inner + 2]).contains(&i) {
                                let at = offset + i * x.strides[inner + 2];
                                // SAFETY: an element of the input.
                                A::load(unsafe { *x.ptr.as_host::<T>().offset(at as isize) })
                            } else {
                                A::default()
                            };
                        }
                    }
                }
                done += run;
            }
        }
    });
}

unsafe fn scatter<A: Accumulator>(
    c: &ResolvedConvolution<'_>,
    image: usize,
    first: usize,
    start: usize,
    count: usize,
    values: &[A],
) {
    let (y, positions) = (&c.out, &c.out.shape[2..]);
    let inner = positions.len() - 1;
    with_element!(y.dtype, T => {
        let base = y.ptr.as_host::<T>();
        for (channel, values) in (first as i64..).zip(values.chunks_exact(count)) {
            let mut done = 0;
            while done < count {
                let at = unravel(start + done, positions);
                let run = ((positions[inner] - at[inner]) as usize).min(count - done);
                let mut offset = image as i64 * y.strides[0] + channel * y.strides[1];
                offset += at.iter().zip(&y.strides[2..]).map(|(a, s)| a * s).sum::<i64>();
                for (i, v) in values[done..done + run].iter().enumerate() {
                    let at = offset + i as i64 * y.strides[inner + 2];
                    // SAFETY: an element of the result.
                    unsafe { *base.offset(at as isize) = v.store::<T>() };
                }
                done += run;
            }
        }
    });
}

/// All elements of a tensor, row-major, converted.
unsafe fn read_all<A: Accumulator>(t: &TensorRef<'_>) -> Vec<A> {
    let n = t.elements() as usize;
    let (rows, row) = (t.shape[0] as usize, if n == 0 { 0 } else { n / t.shape[0] as usize });
    let mut out = vec![A::default(); n];
    if n == 0 {
        return out;
    }
    with_element!(t.dtype, T => {
        let base = Shared(t.ptr.as_host::<T>().cast_const());
        debug_assert_eq!(rows * row, n);
        out.par_chunks_mut(row).enumerate().for_each(|(r, out)| {
            for (i, o) in out.iter_mut().enumerate() {
                let (mut rest, mut at) = (i as i64, r as i64 * t.strides[0]);
                for d in (1..t.shape.len()).rev() {
                    at += rest % t.shape[d] * t.strides[d];
                    rest /= t.shape[d];
                }
                // SAFETY: an element of the tensor.
                *o = A::load(unsafe { *base.get().offset(at as isize) });
            }
        });
    });
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HostTensor;
    use crate::device::DevicePtr;
    use proptest::prelude::*;

    /// Strides of a permuted layout with some gap, and the number of elements.
    fn layout(shape: &[i64], order: &[u8], gap: i64) -> (Vec<i64>, usize) {
        let mut perm: Vec<usize> = (0..shape.len()).collect();
        perm.sort_by_key(|&d| order[d]);
        let mut strides = vec![0; shape.len()];
        let mut extent = 1;
        for &d in &perm {
            strides[d] = extent + gap;
            extent = strides[d] * shape[d].max(1);
        }
        (strides, extent as usize + 1)
    }

    fn index(i: i64, shape: &[i64]) -> Vec<i64> {
        let mut rest = i;
        let mut out: Vec<i64> = shape
            .iter()
            .rev()
            .map(|&n| {
                let r = rest % n;
                rest /= n;
                r
            })
            .collect();
        out.reverse();
        out
    }

    fn offset(at: &[i64], strides: &[i64]) -> usize {
        at.iter().zip(strides).map(|(a, s)| a * s).sum::<i64>() as usize
    }

    #[derive(Debug)]
    struct Spatial {
        size: i64,
        kernel: i64,
        stride: i64,
        before: i64,
        after: i64,
        dilation: i64,
    }

    fn spatial() -> impl Strategy<Value = Spatial> {
        (0..8i64, 1..4i64, 1..4i64, 0..3i64, 0..3i64, 1..3i64).prop_map(
            |(size, kernel, stride, before, after, dilation)| Spatial {
                size,
                kernel,
                stride,
                before,
                after,
                dilation,
            },
        )
    }

    proptest! {
        #[test]
        fn equals_naive_sums(
            s in prop::collection::vec(spatial(), 1..4),
            (n, c, o, groups) in (0..3i64, 0..4i64, 1..4i64, 1..4i64),
            order in any::<[u8; 5]>(), gap in 0..2i64,
            dtype in prop::sample::select(DType::ALL.to_vec()), seed in 0..100u64,
        ) {
            let shape = |a: i64, b: i64, f: &dyn Fn(&Spatial) -> i64| -> Vec<i64> {
                [a, b].into_iter().chain(s.iter().map(f)).collect()
            };
            let xs = shape(n, c * groups, &|s| s.size);
            let ws = shape(o * groups, c, &|s| s.kernel);
            let ys = shape(n, o * groups, &|s| {
                let room = s.size + s.before + s.after - (s.dilation * (s.kernel - 1) + 1);
                if room < 0 { 0 } else { room / s.stride + 1 }
            });
            let ((xst, xn), (wst, wn), (yst, yn)) = (layout(&xs, &order, gap), layout(&ws, &order, gap), layout(&ys, &order, gap));
            let x = HostTensor::random(dtype, &[xn], seed).unwrap();
            let w = HostTensor::random(dtype, &[wn], seed + 1).unwrap();
            let mut y = HostTensor::zeros(dtype, &[yn]).unwrap();
            let view = |p: DevicePtr, shape, strides| TensorRef { ptr: p, dtype, shape, strides };
            let (stride, dilation): (Vec<_>, Vec<_>) = s.iter().map(|s| (s.stride, s.dilation)).unzip();
            let padding: Vec<_> = s.iter().map(|s| (s.before, s.after)).collect();
            let conv = ResolvedConvolution {
                input: view(x.bytes().as_ptr().into(), &xs, &xst),
                weight: view(w.bytes().as_ptr().into(), &ws, &wst),
                out: view(y.bytes_mut().as_mut_ptr().into(), &ys, &yst),
                stride: &stride, padding: &padding, dilation: &dilation, groups,
            };
            unsafe { convolution(&conv) }.unwrap();
            let (xv, wv, yv) = (x.to_f64(), w.to_f64(), y.to_f64());
            let tolerance = dtype.epsilon().map_or(0.0, |e| 200.0 * e);
            for i in 0..ys.iter().product::<i64>() {
                let at = index(i, &ys);
                let mut sum = 0.0;
                for t in 0..ws[1..].iter().product::<i64>() {
                    let tap = index(t, &ws[1..]);
                    let mut from = vec![at[0], at[1] / o * c + tap[0]];
                    from.extend(s.iter().enumerate().map(|(d, s)| at[d + 2] * s.stride - s.before + tap[d + 1] * s.dilation));
                    if from.iter().zip(&xs).all(|(f, n)| (0..*n).contains(f)) {
                        let filter: Vec<i64> = [at[1]].into_iter().chain(tap).collect();
                        sum += xv[offset(&from, &xst)] * wv[offset(&filter, &wst)];
                    }
                }
                let sum = if dtype.is_float() { sum } else { dtype.wrap(sum as i64) as f64 };
                prop_assert!((yv[offset(&at, &yst)] - sum).abs() <= tolerance, "{at:?}: {} {sum}", yv[offset(&at, &yst)]);
            }
        }
    }

    #[test]
    fn wrong_shapes_are_errors() {
        let (x, w, y) = ([1i64, 2, 5], [3i64, 2, 3], [1i64, 3, 4]);
        let view = |shape| TensorRef { ptr: DevicePtr::NULL, dtype: DType::F32, shape, strides: &[1, 1, 1] };
        let c = ResolvedConvolution {
            input: view(&x),
            weight: view(&w),
            out: view(&y),
            stride: &[1],
            padding: &[(0, 0)],
            dilation: &[1],
            groups: 1,
        };
        let e = unsafe { convolution(&c) }.unwrap_err();
        assert!(e.reason().contains("has 3 positions, not 4"), "{e}");
    }

    #[test]
    fn several_blocks() {
        // One image whose patch matrix is larger than a block.
        let (xs, ws, ys) = ([1i64, 64, 40, 40], [8i64, 64, 3, 3], [1i64, 8, 40, 40]);
        let st = |s: &[i64]| crate::tensor::row_major_strides(s);
        let (xst, wst, yst) = (st(&xs), st(&ws), st(&ys));
        let x = vec![1f32; 64 * 1600];
        let w = vec![0.5f32; 8 * 64 * 9];
        let mut y = vec![0f32; 8 * 1600];
        let c = ResolvedConvolution {
            input: TensorRef { ptr: x.as_ptr().into(), dtype: DType::F32, shape: &xs, strides: &xst },
            weight: TensorRef { ptr: w.as_ptr().into(), dtype: DType::F32, shape: &ws, strides: &wst },
            out: TensorRef { ptr: y.as_mut_ptr().into(), dtype: DType::F32, shape: &ys, strides: &yst },
            stride: &[1, 1],
            padding: &[(1, 1), (1, 1)],
            dilation: &[1, 1],
            groups: 1,
        };
        unsafe { convolution(&c) }.unwrap();
        for (i, v) in y.iter().enumerate() {
            let edge = |p: usize| if p == 0 || p == 39 { 2.0 } else { 3.0 };
            assert_eq!(*v, 32.0 * edge(i % 1600 / 40) * edge(i % 40), "{i}");
        }
    }
}
