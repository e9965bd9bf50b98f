//! Products as steps of the plan.

use super::Planner;
use crate::driver::pass::Failure;
use crate::graph::product_layout::{Layout, product_layout};
use melior::ir::operation::{OperationLike, OperationRef};
use strata_dialects::{OpView, TensorType};
use strata_runtime::DType;
use strata_runtime::plan::*;
use strata_runtime::sym::Expr;

impl<'c: 'm, 'm, 'k> Planner<'c, 'm, 'k> {
    /// One library product; where that pays, most columns into aligned rows, and copied from there.
    pub(super) fn product(
        &mut self,
        op: OperationRef<'c, 'm>,
        view: &OpView,
        location: String,
    ) -> Result<(), Failure> {
        let mut factors = [0, 1].map(|i| self.of(op.operand(i).expect("as viewed")));
        let mut layout = product_layout(view, &self.strides(factors[0]), &self.strides(factors[1]));
        if layout.is_none() {
            factors = factors.map(|f| self.dense(f));
            layout = product_layout(view, &self.strides(factors[0]), &self.strides(factors[1]));
        }
        let layout = layout.ok_or_else(|| {
            Failure::new(op.location(), "this product's dimensions do not form one batched matrix product")
                .next("transpose the factors so that batch, free and contracting dimensions stand together")
        })?;
        let bias = (view.operands.len() > 2).then(|| self.of(op.operand(2).expect("as viewed")));
        let bias = bias.map(|b| self.dense(b));
        let out = self.written(op.result(0).expect("as viewed").into())?;
        let p = Product {
            lhs: matrix(factors[0], &layout.lhs),
            rhs: matrix(factors[1], &layout.rhs),
            out: matrix(out, &row_major(&layout.m, &layout.n)),
            bias,
            epilogue: Epilogue::None,
            m: layout.m,
            n: layout.n,
            k: layout.k,
            batch: layout.batch,
            location,
        };
        match self.aligned_columns(&p, view.results[0].dtype) {
            Some(columns) => self.in_aligned_rows(p, columns),
            None => self.plan.steps.push(Step::Product(p)),
        }
        Ok(())
    }

    /// How many of a product's columns to compute on their own, because the library is much faster so: its
    /// kernels for 16-bit types on tensor cores store 16 bytes at a time. `None` where the result can be written as it is, or is small.
    fn aligned_columns(&self, p: &Product, dtype: DType) -> Option<i64> {
        let n = p.n.as_const()?;
        let many = |e: &Expr| e.as_const().is_none_or(|n| n >= 128);
        let wanted = self.plan.device == DeviceKind::Cuda && dtype.size() == 2 && n % VECTOR != 0;
        (wanted && n >= 1024 && many(&p.k) && many(&p.m)).then_some(n - n % VECTOR)
    }

    /// A product whose first `columns`, rows of a multiple of 16 bytes, are computed on their own and copied to the result: some rows at a time, so that
    /// little memory is needed and what is copied is still in the cache. The few last columns are a product of their own.
    fn in_aligned_rows(&mut self, p: Product, columns: i64) {
        let first = Expr::from(columns);
        let rest = p.n.clone() - first.clone();
        let bias = |it: &mut Self, offset: &Expr, n: &Expr| {
            p.bias.map(|b| it.view(b, offset.clone(), std::slice::from_ref(n), vec![1.into()]))
        };
        let (bias, last_bias) = (bias(self, &0.into(), &first), bias(self, &first, &rest));
        let last = Product {
            rhs: self.part(&p.rhs, &p.rhs.col_stride, first.clone(), [&p.batch, &p.k, &rest]),
            out: self.part(&p.out, &p.out.col_stride, first.clone(), [&p.batch, &p.m, &rest]),
            bias: last_bias,
            n: rest,
            ..p.clone()
        };
        self.plan.steps.push(Step::Product(last));
        let at_once = (AT_ONCE / (2 * columns) / TILE).max(1) * TILE;
        let m = p.m.as_const().filter(|&m| m > at_once && p.batch == Expr::from(1));
        let rows = m.map_or(p.m.clone(), |_| Expr::from(at_once));
        let dtype = self.get(p.out.buffer).dtype;
        let into = self.scratch(&TensorType { dtype, shape: vec![p.batch.clone(), rows, first.clone()] });
        for start in (0..m.unwrap_or(1)).step_by(at_once as usize) {
            let rows = m.map_or(p.m.clone(), |m| Expr::from(at_once.min(m - start)));
            let (b, start) = (&p.batch, Expr::from(start));
            let long = matrix(into, &row_major(&rows, &first));
            let from = self.part(&long, &long.row_stride, 0.into(), [b, &rows, &first]).buffer;
            let to = self.part(&p.out, &p.out.row_stride, start.clone(), [b, &rows, &first]).buffer;
            let lhs = self.part(&p.lhs, &p.lhs.row_stride, start, [b, &rows, &p.k]);
            let most = Product { lhs, out: long, bias, m: rows, n: first.clone(), ..p.clone() };
            self.plan.steps.push(Step::Product(most));
            self.plan.steps.push(Step::Copy { from, to });
        }
    }

    /// A part of a matrix of this shape, `start` strides from where it begins.
    fn part(&mut self, of: &Matrix, stride: &Expr, start: Expr, shape: [&Expr; 3]) -> Matrix {
        let strides = vec![of.batch_stride.clone(), of.row_stride.clone(), of.col_stride.clone()];
        let buffer = self.view(of.buffer, start * stride.clone(), &shape.map(Expr::clone), strides);
        Matrix { buffer, ..of.clone() }
    }

    /// Another view of a buffer from one of its elements on.
    fn view(&mut self, of: BufferId, offset: Expr, shape: &[Expr], strides: Vec<Expr>) -> BufferId {
        let ty = TensorType { dtype: self.get(of).dtype, shape: shape.to_vec() };
        let id = self.buffer(&ty, Place::Alias { of, offset });
        self.plan.buffers[id.0 as usize].strides = Some(strides);
        id
    }
}

/// Elements of 16 bits in 16 bytes.
const VECTOR: i64 = 8;

/// Bytes of a product that are computed before they are copied: a good half of an H200's second-level cache.
const AT_ONCE: i64 = 32 << 20;

/// Rows are taken in multiples of what a library's kernel computes at once.
const TILE: i64 = 256;

fn row_major(rows: &Expr, columns: &Expr) -> Layout {
    Layout { batch: rows.clone() * columns.clone(), row: columns.clone(), col: Expr::from(1) }
}

fn matrix(buffer: BufferId, layout: &Layout) -> Matrix {
    Matrix {
        buffer,
        batch_stride: layout.batch.clone(),
        row_stride: layout.row.clone(),
        col_stride: layout.col.clone(),
    }
}
