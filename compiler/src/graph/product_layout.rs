//! Whether a `dot_general` over strided factors is one batched matrix product for a library, and which.

use strata_dialects::ops::products::free_dims;
use strata_dialects::{OpView, TensorType};
use strata_runtime::sym::Expr;

/// A factor's memory as a stack of matrices; strides in elements.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    /// Distance between products.
    pub batch: Expr,
    /// Distance between rows (lhs: m, rhs: k).
    pub row: Expr,
    /// Distance between columns (lhs: k, rhs: n).
    pub col: Expr,
}

/// A `dot_general` as `batch` products of `m × k` by `k × n`.
#[derive(Clone, Debug, PartialEq)]
pub struct ProductLayout {
    /// Left factor.
    pub lhs: Layout,
    /// Right factor.
    pub rhs: Layout,
    /// Number of products.
    pub batch: Expr,
    /// Rows.
    pub m: Expr,
    /// Columns.
    pub n: Expr,
    /// Terms of each sum.
    pub k: Expr,
}

/// Row-major strides of a shape.
pub fn contiguous(shape: &[Expr]) -> Vec<Expr> {
    let mut strides = vec![Expr::from(1); shape.len()];
    for i in (0..shape.len().saturating_sub(1)).rev() {
        strides[i] = strides[i + 1].clone() * shape[i + 1].clone();
    }
    strides
}

/// Several dimensions as one: total size and stride, if they lie one inside the other.
fn collapse(dims: &[usize], shape: &[Expr], strides: &[Expr]) -> Option<(Expr, Expr)> {
    let mut size = Expr::from(1);
    let mut stride: Option<Expr> = None;
    for &d in dims.iter().rev() {
        if shape[d] == Expr::from(1) {
            continue;
        }
        match &stride {
            None => stride = Some(strides[d].clone()),
            Some(inner) if strides[d] == inner.clone() * size.clone() => {}
            Some(_) => return None,
        }
        size = size * shape[d].clone();
    }
    // A stride of a single element matters to nobody; the size of the other dimensions is the conventional choice.
    Some((size, stride.unwrap_or_else(|| Expr::from(1))))
}

/// The library product for `view` over factors with these strides. `None`: some dimensions do not collapse, or neither rows nor
/// columns of a factor are contiguous, so a factor has to be copied first.
pub fn product_layout(view: &OpView, lhs_strides: &[Expr], rhs_strides: &[Expr]) -> Option<ProductLayout> {
    let (l, r): (&TensorType, &TensorType) = (&view.operands[0], &view.operands[1]);
    if !l.dtype.is_float() {
        return None;
    }
    let (lf, rf) = free_dims(view);
    let (lb, rb) = (view.indices("lhs_batch"), view.indices("rhs_batch"));
    let (lc, rc) = (view.indices("lhs_contracting"), view.indices("rhs_contracting"));
    let (batch, lhs_batch) = collapse(&lb, &l.shape, lhs_strides)?;
    let (_, rhs_batch) = collapse(&rb, &r.shape, rhs_strides)?;
    let (m, lhs_row) = collapse(&lf, &l.shape, lhs_strides)?;
    let (n, rhs_col) = collapse(&rf, &r.shape, rhs_strides)?;
    let (k, lhs_col) = collapse(&lc, &l.shape, lhs_strides)?;
    let (_, rhs_row) = collapse(&rc, &r.shape, rhs_strides)?;
    let lhs = matrix(lhs_batch, lhs_row, lhs_col, &m, &k, &batch)?;
    let rhs = matrix(rhs_batch, rhs_row, rhs_col, &k, &n, &batch)?;
    Some(ProductLayout { lhs, rhs, batch, m, n, k })
}

/// A matrix whose rows or columns are contiguous. A dimension of size 1 gets the stride that libraries expect.
fn matrix(
    batch_stride: Expr,
    row: Expr,
    col: Expr,
    rows: &Expr,
    cols: &Expr,
    batch: &Expr,
) -> Option<Layout> {
    let one = Expr::from(1);
    let (mut row, mut col) = (row, col);
    if *cols == one && *rows != one {
        // One column: as if row-major when rows touch, else any column stride will do.
        if row == one {
            col = rows.clone();
        } else {
            col = one.clone();
        }
    } else if *rows == one {
        row = if col == one { cols.clone() } else { one.clone() };
    }
    let (inner_row, inner_col) = (row == one, col == one);
    let batch_stride = if *batch == one { rows.clone() * cols.clone() } else { batch_stride };
    (inner_row || inner_col).then_some(Layout { batch: batch_stride, row, col })
}

#[cfg(test)]
mod tests {
    use super::*;
    use strata_dialects::Attr;
    use strata_runtime::DType;

    fn dot(l: &[i64], r: &[i64], batch: usize, lc: i64, rc: i64) -> OpView {
        let ints = |v: Vec<i64>| Attr::Ints(v);
        let b: Vec<i64> = (0..batch as i64).collect();
        OpView {
            spec: strata_dialects::ops::lookup("graph.dot_general").unwrap(),
            operands: vec![
                TensorType::new(DType::F32, l.iter().copied()),
                TensorType::new(DType::F32, r.iter().copied()),
            ],
            results: vec![],
            attrs: vec![
                ("lhs_batch".into(), ints(b.clone())),
                ("lhs_contracting".into(), ints(vec![lc])),
                ("rhs_batch".into(), ints(b)),
                ("rhs_contracting".into(), ints(vec![rc])),
            ],
        }
    }

    #[test]
    fn a_linear_layer_over_a_batch_of_rows_is_one_product() {
        let view = dot(&[2, 3, 8], &[5, 8], 0, 2, 1);
        let layout =
            product_layout(&view, &contiguous(&view.operands[0].shape), &contiguous(&view.operands[1].shape))
                .unwrap();
        assert_eq!((layout.m, layout.n, layout.k), (6.into(), 5.into(), 8.into()));
        assert_eq!((layout.rhs.row, layout.rhs.col), (1.into(), 8.into()));
    }

    #[test]
    fn heads_that_do_not_collapse_need_a_copy() {
        // q as [b, h, t, d] seen through a transposition of [b, t, h, d]
        let view = dot(&[2, 4, 3, 8], &[2, 4, 3, 8], 2, 3, 3);
        let strides = [96, 8, 32, 1].map(Expr::from);
        assert_eq!(product_layout(&view, &strides, &strides), None);
        let view = dot(&[1, 4, 3, 8], &[1, 4, 3, 8], 2, 3, 3);
        let layout = product_layout(&view, &strides, &strides).unwrap();
        assert_eq!((layout.lhs.batch, layout.lhs.row), (8.into(), 32.into()));
    }
}
