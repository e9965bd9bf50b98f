//! Strided copies: transposes, broadcasts, gathers of slices into contiguous memory.

use super::super::TensorRef;
use super::Shared;
use crate::error::{Result, bail};
use rayon::prelude::*;

/// One dimension of the loop nest.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Dim {
    size: i64,
    dst: i64,
    src: i64,
}

/// The loop nest of a copy: dimensions of size 1 dropped, ordered by destination stride, neighbours merged where both sides step
/// through them as one.
fn nest(dst: &TensorRef<'_>, src: &TensorRef<'_>) -> Vec<Dim> {
    let mut dims: Vec<Dim> = (dst.shape.iter().zip(dst.strides).zip(src.strides))
        .map(|((&size, &dst), &src)| Dim { size, dst, src })
        .filter(|d| d.size != 1)
        .collect();
    dims.sort_by_key(|d| std::cmp::Reverse((d.dst.abs(), d.src.abs())));
    let mut out: Vec<Dim> = Vec::with_capacity(dims.len());
    for d in dims {
        match out.last_mut() {
            Some(o) if o.dst == d.dst * d.size && o.src == d.src * d.size => {
                *o = Dim { size: o.size * d.size, ..d };
            }
            _ => out.push(d),
        }
    }
    out
}

/// Copies all elements.
///
/// # Safety
/// As [`Device::copy_strided`](super::super::Device::copy_strided).
pub unsafe fn copy_strided(dst: &TensorRef<'_>, src: &TensorRef<'_>) -> Result<()> {
    if dst.shape != src.shape || dst.dtype != src.dtype {
        bail!(Device, "a copy from {} {:?} to {} {:?}", src.dtype, src.shape, dst.dtype, dst.shape);
    }
    if dst.elements() == 0 {
        return Ok(());
    }
    let dims = nest(dst, src);
    // SAFETY: promised by the caller; the element's bits are copied whatever they mean.
    unsafe {
        match dst.dtype.size() {
            1 => run::<u8>(&dims, dst.ptr.as_host(), src.ptr.as_host()),
            2 => run::<u16>(&dims, dst.ptr.as_host(), src.ptr.as_host()),
            4 => run::<u32>(&dims, dst.ptr.as_host(), src.ptr.as_host()),
            _ => run::<u64>(&dims, dst.ptr.as_host(), src.ptr.as_host()),
        }
    }
    Ok(())
}

/// Elements below which threads cost more than they save.
const PARALLEL: i64 = 1 << 15;
/// Elements a side of the tiles that transposes go through, so that both sides stay in cache.
const TILE: i64 = 32;

unsafe fn run<T: Copy + Send + Sync>(dims: &[Dim], dst: *mut T, src: *const T) {
    let (outer, inner) = dims.split_at(dims.len().saturating_sub(2));
    let pad = Dim { size: 1, dst: 0, src: 0 };
    let (a, b) = match inner {
        [] => (pad, pad),
        [b] => (pad, *b),
        [a, b, ..] => (*a, *b),
    };
    let outer_count: i64 = outer.iter().map(|d| d.size).product();
    let (shared_dst, shared_src) = (Shared(dst.cast_const()), Shared(src));
    // SAFETY (of the calls): the offsets are those of elements that exist.
    let plane = |i: i64, rows: std::ops::Range<i64>| unsafe {
        let (mut rest, mut d, mut s) = (i, 0i64, 0i64);
        for o in outer.iter().rev() {
            d += rest % o.size * o.dst;
            s += rest % o.size * o.src;
            rest /= o.size;
        }
        copy_plane(
            a,
            b,
            rows,
            shared_dst.get().cast_mut().offset(d as isize),
            shared_src.get().offset(s as isize),
        );
    };
    if outer_count * a.size * b.size < PARALLEL {
        (0..outer_count).for_each(|i| plane(i, 0..a.size));
    } else if outer_count >= 16 {
        (0..outer_count).into_par_iter().for_each(|i| plane(i, 0..a.size));
    } else {
        let blocks = (a.size + TILE - 1) / TILE;
        (0..outer_count * blocks).into_par_iter().for_each(|i| {
            let (i, block) = (i / blocks, i % blocks);
            plane(i, block * TILE..((block + 1) * TILE).min(a.size));
        });
    }
}

unsafe fn copy_plane<T: Copy>(a: Dim, b: Dim, rows: std::ops::Range<i64>, dst: *mut T, src: *const T) {
    // SAFETY: promised by the caller, here and below.
    unsafe {
        if b.dst == 1 && b.src == 1 {
            for r in rows {
                let (d, s) = (dst.offset((r * a.dst) as isize), src.offset((r * a.src) as isize));
                std::ptr::copy_nonoverlapping(s, d, b.size as usize);
            }
            return;
        }
        let mut col = 0;
        while col < b.size {
            let end = (col + TILE).min(b.size);
            for r in rows.clone() {
                let (d, s) = (dst.offset((r * a.dst) as isize), src.offset((r * a.src) as isize));
                for c in col..end {
                    *d.offset((c * b.dst) as isize) = *s.offset((c * b.src) as isize);
                }
            }
            col = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::DevicePtr;
    use crate::dtype::DType;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn equals_the_naive_loop(
            sizes in prop::collection::vec(0..5i64, 0..5),
            order in any::<[u8; 5]>(),
            gaps in prop::collection::vec(0..3i64, 5),
            src_strides in prop::collection::vec(-3..60i64, 5),
            scale in prop_oneof![Just(1i64), Just(19)],
            dtype in prop_oneof![Just(DType::I8), Just(DType::F16), Just(DType::F32), Just(DType::I64)],
        ) {
            let shape: Vec<i64> = sizes.iter().map(|s| s * if *s == 4 { scale } else { 1 }).collect();
            let rank = shape.len();
            // Destination strides: a permutation with gaps, so that no two elements meet.
            let mut perm: Vec<usize> = (0..rank).collect();
            perm.sort_by_key(|&d| order[d]);
            let mut dst_strides = vec![0; rank];
            let mut extent = 1;
            for &d in &perm {
                dst_strides[d] = extent + gaps[d];
                extent = dst_strides[d] * shape[d].max(1);
            }
            prop_assume!(extent < 1 << 20);
            let src_strides = &src_strides[..rank];
            let reach = |f: fn(i64) -> i64| -> i64 {
                shape.iter().zip(src_strides).map(|(n, s)| f((n - 1).max(0) * s)).sum()
            };
            let (low, high) = (-reach(|x| x.min(0)), reach(|x| x.max(0)));
            let size = dtype.size();
            let src: Vec<u8> = (0..(low + high + 1) as usize * size).map(|i| (i * 7 + i / 256) as u8).collect();
            let mut dst = vec![0xEEu8; (extent as usize + 1) * size];
            let mut expected = dst.clone();
            let count: i64 = shape.iter().product();
            for i in 0..count {
                let (mut rest, mut d, mut s) = (i, 0, low);
                for k in (0..rank).rev() {
                    d += rest % shape[k] * dst_strides[k];
                    s += rest % shape[k] * src_strides[k];
                    rest /= shape[k];
                }
                let (d, s) = (d as usize * size, s as usize * size);
                expected[d..d + size].copy_from_slice(&src[s..s + size]);
            }
            // The element types want alignment: copy through aligned memory.
            let (src, mut out) = (crate::aligned::AlignedBytes::from(&src[..]), crate::aligned::AlignedBytes::from(&dst[..]));
            let s = TensorRef {
                ptr: DevicePtr::from(src.as_ptr()).offset(low * size as i64), dtype, shape: &shape, strides: src_strides,
            };
            let d = TensorRef { ptr: DevicePtr::from(out.as_mut_ptr()), dtype, shape: &shape, strides: &dst_strides };
            unsafe { copy_strided(&d, &s) }.unwrap();
            dst.copy_from_slice(&out);
            prop_assert_eq!(dst, expected);
        }
    }

    #[test]
    fn neighbouring_dimensions_merge() {
        let shape = [4, 1, 3, 5];
        let t =
            TensorRef { ptr: DevicePtr::NULL, dtype: DType::F32, shape: &shape, strides: &[15, 99, 5, 1] };
        assert_eq!(nest(&t, &t), [Dim { size: 60, dst: 1, src: 1 }]);
    }

    #[test]
    fn large_transpose() {
        let (m, n) = (300i64, 257i64);
        let src: Vec<f32> = (0..m * n).map(|x| x as f32).collect();
        let mut dst = vec![0f32; src.len()];
        let shape = [n, m];
        let s = TensorRef { ptr: src.as_ptr().into(), dtype: DType::F32, shape: &shape, strides: &[1, n] };
        let d =
            TensorRef { ptr: dst.as_mut_ptr().into(), dtype: DType::F32, shape: &shape, strides: &[m, 1] };
        unsafe { copy_strided(&d, &s) }.unwrap();
        assert!((0..n).all(|j| (0..m).all(|i| dst[(j * m + i) as usize] == src[(i * n + j) as usize])));
    }
}
