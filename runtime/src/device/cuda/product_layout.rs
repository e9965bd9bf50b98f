//! Row-major strided products as cuBLASLt's column-major ones: pure arithmetic, no GPU.
//!
//! cuBLASLt computes `D = op(A)·op(B)` on column-major matrices. A row-major result is the column-major result of the
//! transposed product, `outᵀ = rhsᵀ·lhsᵀ`; a vector along `out`'s columns then runs along `D`'s rows, as its bias must.

use crate::device::{DevicePtr, ResolvedMatrix, ResolvedProduct};
use crate::dtype::DType;
use crate::error::{Result, err};
use crate::plan::Epilogue;

/// A column-major matrix in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Layout {
    /// Element type.
    pub dtype: DType,
    /// Rows as stored.
    pub rows: u64,
    /// Columns as stored.
    pub cols: u64,
    /// Elements between columns.
    pub ld: i64,
    /// Elements between matrices.
    pub batch_stride: i64,
}

/// Everything that decides which cuBLASLt kernel runs: the key of the cache. Holds no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// A as stored.
    pub a: Layout,
    /// B as stored.
    pub b: Layout,
    /// D as stored (never transposed).
    pub d: Layout,
    /// Whether A is transposed.
    pub trans_a: bool,
    /// Whether B is transposed.
    pub trans_b: bool,
    /// Whether A is the right factor: `out` is row-major.
    pub swapped: bool,
    /// Number of products.
    pub batch: i32,
    /// How the bias comes in.
    pub bias: Bias,
    /// What is applied at the end.
    pub epilogue: EpilogueKey,
    /// Alignment in bytes of A, B, D and the bias: a power of two up to 256.
    pub alignment: [u32; 4],
}

/// How a bias comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bias {
    /// There is none.
    None,
    /// Through the epilogue: along D's rows.
    Epilogue,
    /// `out` is filled with it first, and the product is added to that.
    Prefilled,
}

/// [`Epilogue`] with an order, to be part of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EpilogueKey {
    /// Nothing.
    None,
    /// `max(x, 0)`.
    Relu,
    /// GELU, tanh form.
    Gelu,
}

/// Maps a product. Errors of kind `Unsupported` mean that the library cannot do it and an own kernel has to.
pub fn problem(p: &ResolvedProduct) -> Result<Problem> {
    check_types(p)?;
    // Where the merged form has no column-major layout, the batch may.
    merge_batch(p).and_then(|merged| map(&merged).ok()).map_or_else(|| map(p), Ok)
}

fn map(p: &ResolvedProduct) -> Result<Problem> {
    let [m, n, k] = [p.m as u64, p.n as u64, p.k as u64];
    let batch = i32::try_from(p.batch).map_err(|_| {
        unsupported(format!("a batch of {} products", p.batch), "split the batch; the library takes 2^31 - 1")
    })?;
    let (lhs, rhs, out) = (view(&p.lhs, m, k, batch), view(&p.rhs, k, n, batch), view(&p.out, m, n, batch));
    if batch > 1 && p.out.batch_stride == 0 {
        return Err(unsupported("a result that repeats over the batch".into(), "give it a batch stride"));
    }
    // Row-major first: it allows a bias in the epilogue.
    let (d, swapped) = match (stored(out.transposed()), stored(out)) {
        (Some((d, false)), _) => (d, true),
        (_, Some((d, false))) => (d, false),
        _ => return Err(bad_strides("result", &p.out, m, n)),
    };
    let factor = |v: View, name, matrix, rows, cols| {
        stored(if swapped { v.transposed() } else { v }).ok_or_else(|| bad_strides(name, matrix, rows, cols))
    };
    let lhs = factor(lhs, "left factor", &p.lhs, m, k)?;
    let rhs = factor(rhs, "right factor", &p.rhs, k, n)?;
    let ((a, trans_a), (b, trans_b)) = if swapped { (rhs, lhs) } else { (lhs, rhs) };
    let bias = match p.bias {
        None => Bias::None,
        // cuBLASLt has no bias epilogue in f64.
        Some(_) if swapped && d.dtype != DType::F64 => Bias::Epilogue,
        Some(_) => Bias::Prefilled,
    };
    let alignment = |ptr: DevicePtr| 1 << ptr.0.trailing_zeros().min(8);
    let [align_lhs, align_rhs] = [alignment(p.lhs.ptr), alignment(p.rhs.ptr)];
    let align_bias = p.bias.map_or(256, |(ptr, _)| alignment(ptr));
    let (align_a, align_b) = if swapped { (align_rhs, align_lhs) } else { (align_lhs, align_rhs) };
    Ok(Problem {
        a,
        b,
        d,
        trans_a,
        trans_b,
        swapped,
        batch,
        bias,
        epilogue: match p.epilogue {
            Epilogue::None => EpilogueKey::None,
            Epilogue::Relu => EpilogueKey::Relu,
            Epilogue::GeluTanh => EpilogueKey::Gelu,
        },
        alignment: [align_a, align_b, alignment(p.out.ptr), align_bias],
    })
}

fn unsupported(reason: String, next: &str) -> crate::Error {
    err!(Unsupported, "no library path for this product: {reason}").next(next)
}

fn check_types(p: &ResolvedProduct) -> Result<()> {
    let [l, r, o] = [p.lhs.dtype, p.rhs.dtype, p.out.dtype];
    let half = matches!(l, DType::F16 | DType::BF16);
    let fits = l == r && l.is_float() && (o == l || half && o == DType::F32);
    if !fits {
        return Err(unsupported(
            format!("{l} x {r} -> {o}; the library does f64, f32, f16, bf16, and the halves into f32"),
            "use an own kernel",
        ));
    }
    match p.bias {
        Some((_, b)) if b != o => Err(unsupported(
            format!("a bias of {b} for a result of {o}"),
            "cast the bias to the result's type",
        )),
        // The tanh form of GELU would need a pass of its own.
        _ if o == DType::F64 && p.epilogue != Epilogue::None => {
            Err(unsupported("an activation in f64".into(), "apply it in a kernel after the product"))
        }
        _ => Ok(()),
    }
}

/// A batch whose right factor repeats is one product with more rows, if the rows run on.
fn merge_batch(p: &ResolvedProduct) -> Option<ResolvedProduct> {
    let mut p = p.clone();
    let runs_on = |m: &ResolvedMatrix| m.batch_stride == m.row_stride * p.m as i64;
    // With one row each, the batch is the rows, whatever its stride.
    let one_row = p.m == 1;
    if p.batch <= 1 || p.rhs.batch_stride != 0 || !(one_row || runs_on(&p.lhs) && runs_on(&p.out)) {
        return None;
    }
    if one_row {
        p.lhs.row_stride = p.lhs.batch_stride;
        p.out.row_stride = p.out.batch_stride;
    }
    p.m *= p.batch;
    p.batch = 1;
    Some(p)
}

/// A matrix read by (row, column).
#[derive(Clone, Copy)]
struct View {
    dtype: DType,
    rows: u64,
    cols: u64,
    row_stride: i64,
    col_stride: i64,
    batch_stride: i64,
}

fn view(m: &ResolvedMatrix, rows: u64, cols: u64, batch: i32) -> View {
    let batch_stride = if batch > 1 { m.batch_stride } else { 0 };
    View { dtype: m.dtype, rows, cols, row_stride: m.row_stride, col_stride: m.col_stride, batch_stride }
}

impl View {
    fn transposed(self) -> Self {
        Self {
            rows: self.cols,
            cols: self.rows,
            row_stride: self.col_stride,
            col_stride: self.row_stride,
            ..self
        }
    }
}

/// The column-major matrix that holds `v`, and whether `v` is its transpose. `None`: no such matrix.
fn stored(v: View) -> Option<(Layout, bool)> {
    // The stride of a dimension of size 1 says nothing.
    let column_major = |v: View| {
        let dense = v.row_stride == 1 || v.rows == 1;
        let ld = if v.cols == 1 { v.rows.max(1) as i64 } else { v.col_stride };
        (dense && ld >= v.rows.max(1) as i64).then_some(Layout {
            dtype: v.dtype,
            rows: v.rows,
            cols: v.cols,
            ld,
            batch_stride: v.batch_stride,
        })
    };
    let straight = column_major(v).map(|l| (l, false));
    straight.or_else(|| column_major(v.transposed()).map(|l| (l, true)))
}

fn bad_strides(which: &str, m: &ResolvedMatrix, rows: u64, cols: u64) -> crate::Error {
    unsupported(
        format!("the {which} of {rows} x {cols} has strides {} and {}", m.row_stride, m.col_stride),
        "copy it to a contiguous buffer first: one stride must be 1, the other at least the size of that dimension",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn matrix(row_stride: i64, col_stride: i64) -> ResolvedMatrix {
        ResolvedMatrix { ptr: DevicePtr(4096), dtype: DType::F32, batch_stride: 0, row_stride, col_stride }
    }

    fn product(m: usize, n: usize, k: usize) -> ResolvedProduct {
        ResolvedProduct {
            lhs: matrix(k as i64, 1),
            rhs: matrix(n as i64, 1),
            out: matrix(n as i64, 1),
            bias: None,
            epilogue: Epilogue::None,
            m,
            n,
            k,
            batch: 1,
        }
    }

    #[test]
    fn row_major_product_is_swapped_without_transposition() {
        let p = problem(&product(2, 3, 5)).unwrap();
        assert!(p.swapped && !p.trans_a && !p.trans_b);
        assert_eq!((p.a.rows, p.a.cols, p.a.ld), (3, 5, 3));
        assert_eq!((p.b.rows, p.b.cols, p.b.ld), (5, 2, 5));
        assert_eq!((p.d.rows, p.d.cols, p.d.ld), (3, 2, 3));
        assert_eq!(p.alignment, [256; 4]);
    }

    #[test]
    fn linear_layer_transposes_its_weight() {
        let mut p = product(2, 3, 5);
        p.rhs = matrix(1, 5);
        p.bias = Some((DevicePtr(64), DType::F32));
        let p = problem(&p).unwrap();
        assert!(p.trans_a && !p.trans_b);
        assert_eq!(p.bias, Bias::Epilogue);
    }

    #[test]
    fn column_major_result_takes_its_bias_first() {
        let mut p = product(2, 3, 5);
        p.out = matrix(1, 2);
        p.bias = Some((DevicePtr(64), DType::F32));
        let p = problem(&p).unwrap();
        assert!(!p.swapped && p.trans_a && p.trans_b);
        assert_eq!(p.bias, Bias::Prefilled);
    }

    #[test]
    fn repeated_right_factor_becomes_rows() {
        let mut p = product(2, 3, 5);
        p.batch = 7;
        p.lhs.batch_stride = 10;
        p.out.batch_stride = 6;
        let merged = problem(&p).unwrap();
        assert_eq!((merged.batch, merged.d.cols), (1, 14));
        p.out.batch_stride = 8;
        let kept = problem(&p).unwrap();
        assert_eq!((kept.batch, kept.a.batch_stride, kept.d.batch_stride), (7, 0, 8));
        // One row that repeats cannot become rows: their distance would be 0.
        p.m = 1;
        p.lhs.batch_stride = 0;
        assert_eq!(problem(&p).unwrap().batch, 7);
    }

    #[test]
    fn what_the_library_cannot_do() {
        let mut p = product(2, 3, 5);
        for m in [&mut p.lhs, &mut p.rhs, &mut p.out] {
            m.dtype = DType::I8;
        }
        let e = problem(&p).unwrap_err();
        assert_eq!(e.kind(), crate::ErrorKind::Unsupported);
        insta::assert_snapshot!(e.to_string(), @r"
        no library path for this product: i8 x i8 -> i8; the library does f64, f32, f16, bf16, and the halves into f32
          next: use an own kernel
        ");
        let mut p = product(2, 3, 5);
        p.lhs = matrix(10, 2);
        insta::assert_snapshot!(problem(&p).unwrap_err().to_string(), @r"
        no library path for this product: the left factor of 2 x 5 has strides 10 and 2
          next: copy it to a contiguous buffer first: one stride must be 1, the other at least the size of that dimension
        ");
        // Rows that overlap, and a broadcast row.
        for rows in [3, 0] {
            p.lhs = matrix(rows, 1);
            assert!(problem(&p).is_err());
        }
    }

    /// What cuBLASLt would compute, by its documentation: `D = op(A)·op(B)`, column-major.
    fn emulate(p: &Problem, a: &[f64], b: &[f64], d: &mut [f64]) {
        let at = |l: &Layout, i: i64, r: u64, c: u64| {
            assert!(r < l.rows && c < l.cols && l.ld >= l.rows as i64);
            (i * l.batch_stride + r as i64 + c as i64 * l.ld) as usize
        };
        let terms = if p.trans_a { p.a.rows } else { p.a.cols };
        assert_eq!(terms, if p.trans_b { p.b.cols } else { p.b.rows });
        for i in 0..i64::from(p.batch) {
            for r in 0..p.d.rows {
                for c in 0..p.d.cols {
                    let term = |k| {
                        let x = if p.trans_a { at(&p.a, i, k, r) } else { at(&p.a, i, r, k) };
                        let y = if p.trans_b { at(&p.b, i, c, k) } else { at(&p.b, i, k, c) };
                        a[x] * b[y]
                    };
                    d[at(&p.d, i, r, c)] = (0..terms).map(term).sum();
                }
            }
        }
    }

    proptest! {
        #[test]
        fn mapping_computes_the_product(
            (m, n, k, batch) in (1usize..5, 1usize..5, 1usize..5, 1usize..4),
            (tl, tr, to) in any::<(bool, bool, bool)>(),
            gaps in prop::array::uniform3(0i64..3),
            (repeat_l, repeat_r) in any::<(bool, bool)>(),
        ) {
            let make = |rows: usize, cols: usize, transposed: bool, gap: i64, repeat: bool| {
                let (rows, cols) = (rows as i64, cols as i64);
                let (mut x, extent) = if transposed {
                    (matrix(1, rows + gap), (rows + gap) * cols)
                } else {
                    (matrix(cols + gap, 1), (cols + gap) * rows)
                };
                x.batch_stride = if repeat { 0 } else { extent };
                x
            };
            let p = ResolvedProduct {
                lhs: make(m, k, tl, gaps[0], repeat_l),
                rhs: make(k, n, tr, gaps[1], repeat_r),
                out: make(m, n, to, gaps[2], false),
                m, n, k, batch,
                ..product(1, 1, 1)
            };
            let data = |seed: i64| (0..1000).map(|i| ((i * seed) % 13 - 6) as f64).collect::<Vec<f64>>();
            let (l, r) = (data(7), data(5));
            let q = problem(&p).unwrap();
            let mut got = vec![f64::NAN; 1000];
            let (a, b) = if q.swapped { (&r, &l) } else { (&l, &r) };
            emulate(&q, a, b, &mut got);
            let mut want = vec![f64::NAN; 1000];
            let at = |x: &ResolvedMatrix, b: usize, i: usize, j: usize| {
                (b as i64 * x.batch_stride + i as i64 * x.row_stride + j as i64 * x.col_stride) as usize
            };
            for b in 0..batch { for i in 0..m { for j in 0..n {
                want[at(&p.out, b, i, j)] =
                    (0..k).map(|t| l[at(&p.lhs, b, i, t)] * r[at(&p.rhs, b, t, j)]).sum();
            } } }
            for (i, (g, w)) in got.iter().zip(&want).enumerate() {
                prop_assert!(g == w || g.is_nan() && w.is_nan(), "element {i}: {g} instead of {w}");
            }
        }
    }
}
