//! Products as steps of the plan.

use super::Planner;
use crate::driver::pass::Failure;
use crate::graph::product_layout::{Layout, contiguous, product_layout};
use melior::ir::operation::{OperationLike, OperationRef};
use strata_dialects::{OpView, TensorType};
use strata_runtime::DType;
use strata_runtime::plan::*;
use strata_runtime::sym::Expr;

impl<'c: 'm, 'm, 'k> Planner<'c, 'm, 'k> {
    /// One library product; where that pays, into longer rows than the result's, and copied from there.
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
            Some(columns) => self.in_longer_rows(p, columns),
            None => self.plan.steps.push(Step::Product(p)),
        }
        Ok(())
    }

    /// How many of a product's columns to compute on their own, in rows longer than the result's, because the library is much faster so: its
    /// kernels for 16-bit types on tensor cores store 16 bytes at a time. `None` where the result can be written as it is, or is small.
    fn aligned_columns(&self, p: &Product, dtype: DType) -> Option<i64> {
        let n = p.n.as_const()?;
        let many = |e: &Expr| e.as_const().is_none_or(|n| n >= 128);
        let wanted = self.plan.device == DeviceKind::Cuda && dtype.size() == 2 && n % VECTOR != 0;
        (wanted && n >= 1024 && many(&p.k) && many(&p.m)).then_some(n - n % VECTOR)
    }

    /// A product whose first `columns` and last columns are computed one after the other, in rows of a multiple of 16 bytes, and copied to the
    /// result.
    fn in_longer_rows(&mut self, p: Product, columns: i64) {
        let (out, first) = (p.out.buffer, Expr::from(columns));
        let (row, rest) = (Expr::from(columns + VECTOR), p.n.clone() - first.clone());
        let long = [p.batch.clone(), p.m.clone(), row.clone()];
        let ty = TensorType { dtype: self.get(out).dtype, shape: long.to_vec() };
        let into = self.scratch(&ty);
        let layout = row_major(&p.m, &row);
        let vector = |it: &mut Self, offset: &Expr, n: &Expr| {
            p.bias.map(|b| it.view(b, offset.clone(), std::slice::from_ref(n), vec![1.into()]))
        };
        let most = Product {
            out: matrix(into, &layout),
            bias: vector(self, &0.into(), &first),
            n: first.clone(),
            ..p.clone()
        };
        self.plan.steps.push(Step::Product(most));
        let columns_of = |it: &mut Self, of: &Matrix, rows: &Expr| {
            let shape = [p.batch.clone(), rows.clone(), rest.clone()];
            let strides = vec![of.batch_stride.clone(), of.row_stride.clone(), of.col_stride.clone()];
            let buffer = it.view(of.buffer, first.clone() * of.col_stride.clone(), &shape, strides);
            Matrix { buffer, ..of.clone() }
        };
        let last = Product {
            rhs: columns_of(self, &p.rhs, &p.k),
            out: columns_of(self, &matrix(into, &layout), &p.m),
            bias: vector(self, &first, &rest),
            n: rest.clone(),
            ..p.clone()
        };
        self.plan.steps.push(Step::Product(last));
        let shape = [p.batch.clone(), p.m.clone(), p.n.clone()];
        let from = self.view(into, 0.into(), &shape, contiguous(&long));
        let to = self.view(out, 0.into(), &shape, contiguous(&shape));
        self.plan.steps.push(Step::Copy { from, to });
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
