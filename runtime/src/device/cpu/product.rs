//! Matrix products through the `gemm` crate.
//!
//! f32 and f64 go to it directly. f16 and bf16 are widened to f32 first: the crate has no bf16, and rounds f16 sums between
//! blocks of the inner dimension, while a product here rounds once. Integers are multiplied exactly, modulo the result's width.

use super::super::{ResolvedMatrix, ResolvedProduct};
use super::Shared;
use crate::dtype::DType;
use crate::error::Result;
use crate::plan::Epilogue;
use crate::tensor::{Scalar, with_element};
use rayon::prelude::*;

/// A type that sums are carried in.
pub(super) trait Accumulator: Scalar + Default {
    /// `dst = lhs * rhs`; strides as (row, column), in elements.
    ///
    /// # Safety
    /// The pointers and strides describe matrices of `m × n`, `m × k`, `k × n`; `dst` overlaps neither factor.
    unsafe fn multiply(
        size: (usize, usize, usize),
        dst: (*mut Self, isize, isize),
        lhs: (*const Self, isize, isize),
        rhs: (*const Self, isize, isize),
        parallel: bool,
    );
    /// Converts without a detour that would lose bits.
    fn load<T: Scalar>(x: T) -> Self;
    fn store<T: Scalar>(self) -> T;
    /// `self + bias`, then the epilogue.
    fn finish(self, bias: Self, epilogue: Epilogue) -> Self;
}

macro_rules! float_accumulator {
    ($t:ty) => {
        impl Accumulator for $t {
            unsafe fn multiply(
                (m, n, k): (usize, usize, usize),
                (dst, dst_rs, dst_cs): (*mut Self, isize, isize),
                (lhs, lhs_rs, lhs_cs): (*const Self, isize, isize),
                (rhs, rhs_rs, rhs_cs): (*const Self, isize, isize),
                parallel: bool,
            ) {
                // 0 threads: as many as the pool that this runs in.
                let how = if parallel { gemm::Parallelism::Rayon(0) } else { gemm::Parallelism::None };
                // SAFETY: promised by the caller.
                unsafe {
                    gemm::gemm(
                        m, n, k, dst, dst_cs, dst_rs, false, lhs, lhs_cs, lhs_rs, rhs, rhs_cs, rhs_rs, 0.0,
                        1.0, false, false, false, how,
                    );
                }
            }
            fn load<T: Scalar>(x: T) -> Self {
                x.to_f64() as $t
            }
            fn store<T: Scalar>(self) -> T {
                T::of_f64(self as f64)
            }
            fn finish(self, bias: Self, epilogue: Epilogue) -> Self {
                let x = self + bias;
                match epilogue {
                    Epilogue::None => x,
                    // A NaN stays one.
                    Epilogue::Relu => {
                        if x < 0.0 {
                            0.0
                        } else {
                            x
                        }
                    }
                    Epilogue::GeluTanh => {
                        let inner = std::f64::consts::FRAC_2_SQRT_PI as $t
                            * std::f64::consts::FRAC_1_SQRT_2 as $t
                            * (x + 0.044715 * x * x * x);
                        0.5 * x * (1.0 + inner.tanh())
                    }
                }
            }
        }
    };
}
float_accumulator!(f32);
float_accumulator!(f64);

impl Accumulator for i64 {
    unsafe fn multiply(
        (m, n, k): (usize, usize, usize),
        (dst, dst_rs, dst_cs): (*mut Self, isize, isize),
        (lhs, lhs_rs, lhs_cs): (*const Self, isize, isize),
        (rhs, rhs_rs, rhs_cs): (*const Self, isize, isize),
        parallel: bool,
    ) {
        let (d, l, r) = (Shared(dst.cast_const()), Shared(lhs), Shared(rhs));
        // SAFETY: promised by the caller; each row of the result is written by one thread.
        let row = |i: usize| unsafe {
            let d = d.get().cast_mut().offset(i as isize * dst_rs);
            let l = l.get().offset(i as isize * lhs_rs);
            (0..n as isize).for_each(|j| *d.offset(j * dst_cs) = 0);
            for p in 0..k as isize {
                let x = *l.offset(p * lhs_cs);
                let r = r.get().offset(p * rhs_rs);
                for j in 0..n as isize {
                    let o = d.offset(j * dst_cs);
                    *o = (*o).wrapping_add(x.wrapping_mul(*r.offset(j * rhs_cs)));
                }
            }
        };
        if parallel && m * n * k > 1 << 15 {
            (0..m).into_par_iter().for_each(row)
        } else {
            (0..m).for_each(row)
        }
    }
    fn load<T: Scalar>(x: T) -> Self {
        x.to_i64()
    }
    fn store<T: Scalar>(self) -> T {
        T::of_i64(self)
    }
    fn finish(self, bias: Self, epilogue: Epilogue) -> Self {
        let x = self.wrapping_add(bias);
        match epilogue {
            Epilogue::None => x,
            Epilogue::Relu => x.max(0),
            Epilogue::GeluTanh => (x as f64).finish(0.0, epilogue) as i64,
        }
    }
}

/// What sums over these element types are carried in.
pub(super) fn accumulator_of(dtypes: &[DType]) -> DType {
    if dtypes.contains(&DType::F64) {
        DType::F64
    } else if dtypes.iter().any(|d| d.is_float()) {
        DType::F32
    } else {
        DType::I64
    }
}

/// Runs the product.
///
/// # Safety
/// As [`Device::product`](super::super::Device::product).
pub unsafe fn product(p: &ResolvedProduct) -> Result<()> {
    // SAFETY: promised by the caller.
    unsafe {
        match accumulator_of(&[p.lhs.dtype, p.rhs.dtype, p.out.dtype]) {
            DType::F64 => run::<f64>(p),
            DType::F32 => run::<f32>(p),
            _ => run::<i64>(p),
        }
    }
    Ok(())
}

/// Rows of the result that are computed at a time when operands are converted.
const ROW_BLOCK: usize = 512;
/// Scalar multiplications of one product of a batch above which it is worth splitting itself.
const LARGE: usize = 1 << 21;

unsafe fn run<A: Accumulator>(p: &ResolvedProduct) {
    let bias: Option<Vec<A>> = p.bias.map(|(ptr, dtype)| {
        let m = ResolvedMatrix { ptr, dtype, batch_stride: 0, row_stride: 0, col_stride: 1 };
        let mut v = vec![A::default(); p.n];
        // SAFETY: the bias has n elements.
        unsafe { gather(&m, 0, 0..1, p.n, &mut v) };
        v
    });
    let split_batch = p.batch > 1 && p.m.saturating_mul(p.n).saturating_mul(p.k.max(1)) < LARGE;
    // A factor that all products share is converted once.
    let rhs_shared = (p.rhs.dtype != A::DTYPE && p.rhs.batch_stride == 0).then(|| {
        let mut v = vec![A::default(); p.k * p.n];
        // SAFETY: promised by the caller.
        unsafe { gather(&p.rhs, 0, 0..p.k, p.n, &mut v) };
        v
    });
    // SAFETY: promised by the caller; products of the batch write disjoint parts of the result.
    let one =
        |b: usize| unsafe { one_product::<A>(p, b, bias.as_deref(), rhs_shared.as_deref(), !split_batch) };
    if split_batch { (0..p.batch).into_par_iter().for_each(one) } else { (0..p.batch).for_each(one) }
}

unsafe fn one_product<A: Accumulator>(
    p: &ResolvedProduct,
    b: usize,
    bias: Option<&[A]>,
    rhs_shared: Option<&[A]>,
    parallel: bool,
) {
    let mut rhs_own = Vec::new();
    let rhs = if p.rhs.dtype == A::DTYPE {
        let (ptr, rs, cs) = matrix::<A>(&p.rhs, b, 0);
        (ptr.cast_const(), rs, cs)
    } else {
        let v = rhs_shared.unwrap_or_else(|| {
            rhs_own.resize(p.k * p.n, A::default());
            // SAFETY: promised by the caller.
            unsafe { gather(&p.rhs, b, 0..p.k, p.n, &mut rhs_own) };
            &rhs_own
        });
        (v.as_ptr(), p.n as isize, 1)
    };
    let direct = p.lhs.dtype == A::DTYPE && p.out.dtype == A::DTYPE;
    let block = if direct { p.m } else { ROW_BLOCK.min(p.m) };
    let (mut lhs_own, mut out_own) = (Vec::new(), Vec::new());
    for start in (0..p.m).step_by(block.max(1)) {
        let rows = start..(start + block).min(p.m);
        let lhs = if p.lhs.dtype == A::DTYPE {
            let (ptr, rs, cs) = matrix::<A>(&p.lhs, b, start);
            (ptr.cast_const(), rs, cs)
        } else {
            lhs_own.resize(rows.len() * p.k, A::default());
            // SAFETY: promised by the caller.
            unsafe { gather(&p.lhs, b, rows.clone(), p.k, &mut lhs_own) };
            (lhs_own.as_ptr(), p.k as isize, 1)
        };
        let out = if p.out.dtype == A::DTYPE {
            matrix::<A>(&p.out, b, start)
        } else {
            out_own.resize(rows.len() * p.n, A::default());
            (out_own.as_mut_ptr(), p.n as isize, 1)
        };
        // SAFETY: promised by the caller, or memory of our own of the right size.
        unsafe {
            if p.k == 0 {
                for (i, j) in (0..rows.len()).flat_map(|i| (0..p.n).map(move |j| (i, j))) {
                    *out.0.offset(i as isize * out.1 + j as isize * out.2) = A::default();
                }
            } else {
                A::multiply((rows.len(), p.n, p.k), out, lhs, rhs, parallel);
            }
            finish_rows(p, b, rows, out, bias, parallel);
        }
    }
}

/// Bias, epilogue, and the conversion to the result's type if it is another.
unsafe fn finish_rows<A: Accumulator>(
    p: &ResolvedProduct,
    b: usize,
    rows: std::ops::Range<usize>,
    (values, rs, cs): (*mut A, isize, isize),
    bias: Option<&[A]>,
    parallel: bool,
) {
    let same = p.out.dtype == A::DTYPE;
    if same && bias.is_none() && p.epilogue == Epilogue::None {
        return;
    }
    let values = Shared(values.cast_const());
    let row = |i: usize| {
        let at = |j: usize| {
            // SAFETY: an element of the block.
            let x = unsafe { values.get().offset(i as isize * rs + j as isize * cs) };
            // SAFETY: as above.
            let v = unsafe { *x }.finish(bias.map_or(A::default(), |b| b[j]), p.epilogue);
            (x.cast_mut(), v)
        };
        if same {
            for j in 0..p.n {
                let (x, v) = at(j);
                // SAFETY: each row is one thread's.
                unsafe { *x = v };
            }
        } else {
            with_element!(p.out.dtype, T => {
                let (out, _, out_cs) = matrix::<T>(&p.out, b, rows.start + i);
                for j in 0..p.n {
                    // SAFETY: an element of the result.
                    unsafe { *out.offset(j as isize * out_cs) = at(j).1.store::<T>() };
                }
            });
        }
    };
    if parallel && rows.len() * p.n > 1 << 14 {
        (0..rows.len()).into_par_iter().with_min_len(8).for_each(row);
    } else {
        (0..rows.len()).for_each(row);
    }
}

/// Address of `[b, row, 0]`, row and column stride.
fn matrix<T>(m: &ResolvedMatrix, b: usize, row: usize) -> (*mut T, isize, isize) {
    let offset = b as i64 * m.batch_stride + row as i64 * m.row_stride;
    (m.ptr.as_host::<T>().wrapping_offset(offset as isize), m.row_stride as isize, m.col_stride as isize)
}

/// Reads rows of a matrix into contiguous rows of `cols` elements, converted.
unsafe fn gather<A: Accumulator>(
    m: &ResolvedMatrix,
    b: usize,
    rows: std::ops::Range<usize>,
    cols: usize,
    out: &mut [A],
) {
    if cols == 0 {
        return;
    }
    with_element!(m.dtype, T => {
        let base = Shared(matrix::<T>(m, b, rows.start).0.cast_const());
        let row = |(i, out): (usize, &mut [A])| {
            // SAFETY: elements of the matrix, promised by the caller.
            let row = base.get().wrapping_offset((i as i64 * m.row_stride) as isize);
            for (j, o) in out.iter_mut().enumerate() {
                *o = A::load(unsafe { *row.offset((j as i64 * m.col_stride) as isize) });
            }
        };
        if out.len() > 1 << 15 {
            out.par_chunks_mut(cols).enumerate().for_each(row);
        } else {
            out.chunks_mut(cols).enumerate().for_each(row);
        }
    });
}

#[cfg(test)]
#[path = "product_tests.rs"]
mod tests;
