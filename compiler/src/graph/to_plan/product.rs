//! Products as steps of the plan.

use super::Planner;
use crate::driver::pass::Failure;
use crate::graph::product_layout::{Layout, ProductLayout, contiguous, product_layout};
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
        let matrix = |buffer, l: Layout| Matrix {
            buffer,
            batch_stride: l.batch,
            row_stride: l.row,
            col_stride: l.col,
        };
        let (m, n) = (layout.m.clone(), layout.n.clone());
        let padded = self.padded_row(view.results[0].dtype, &layout);
        let (into, row) = match &padded {
            None => (out, n.clone()),
            Some(row) => {
                let shape = vec![layout.batch.clone(), m.clone(), row.clone()];
                (self.scratch(&TensorType { dtype: view.results[0].dtype, shape }), row.clone())
            }
        };
        self.plan.steps.push(Step::Product(Product {
            lhs: matrix(factors[0], layout.lhs),
            rhs: matrix(factors[1], layout.rhs),
            out: Matrix {
                buffer: into,
                batch_stride: m.clone() * row.clone(),
                row_stride: row.clone(),
                col_stride: Expr::from(1),
            },
            bias,
            epilogue: Epilogue::None,
            m: m.clone(),
            n: n.clone(),
            k: layout.k,
            batch: layout.batch.clone(),
            location,
        }));
        if into != out {
            // The same elements without the padding, seen as one stack of matrices on both sides.
            let shape = vec![layout.batch, m.clone(), n.clone()];
            let from = self.view(into, &shape, vec![m * row.clone(), row, Expr::from(1)]);
            let to = self.view(out, &shape, contiguous(&shape));
            self.plan.steps.push(Step::Copy { from, to });
        }
        Ok(())
    }

    /// The distance between rows of a product's result where the library is much faster with longer rows than the result has: its kernels
    /// for 16-bit types on tensor cores store 16 bytes at a time. `None` where the result can be written as it is, or is small.
    fn padded_row(&self, dtype: DType, layout: &ProductLayout) -> Option<Expr> {
        const VECTOR: i64 = 8;
        let n = layout.n.as_const()?;
        let large = n >= 1024
            && layout.k.as_const().is_none_or(|k| k >= 128)
            && layout.m.as_const().is_none_or(|m| m >= 128);
        let wanted = self.plan.device == DeviceKind::Cuda && dtype.size() == 2 && n % VECTOR != 0 && large;
        wanted.then(|| Expr::from(n + VECTOR - n % VECTOR))
    }

    /// Another view of a buffer from its first element on.
    fn view(&mut self, of: BufferId, shape: &[Expr], strides: Vec<Expr>) -> BufferId {
        let ty = TensorType { dtype: self.get(of).dtype, shape: shape.to_vec() };
        let id = self.buffer(&ty, Place::Alias { of, offset: Expr::from(0) });
        self.plan.buffers[id.0 as usize].strides = Some(strides);
        id
    }
}
