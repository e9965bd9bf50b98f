//! The tensors of a `graph.custom_call`, as the program that is called expects them in memory.

use super::Planner;
use crate::driver::pass::Failure;
use melior::ir::operation::{OperationLike, OperationRef};
use strata_dialects::{Attr, OpView};
use strata_runtime::plan::{BufferId, Place};
use strata_runtime::sym::Expr;

impl<'c: 'm, 'm> Planner<'c, 'm, '_> {
    /// The buffers of the operands and of the results: views of what is read and written, in the called program's order of dimensions.
    pub(super) fn call_buffers(
        &mut self,
        op: OperationRef<'c, 'm>,
        view: &OpView,
    ) -> Result<(Vec<BufferId>, Vec<BufferId>), Failure> {
        let ints = |name| if let Some(Attr::Ints(list)) = view.attr(name) { list.clone() } else { vec![] };
        let (layouts, as_is) = (ints("layouts"), ints("as_is"));
        let sizes = if let Some(Attr::Dims(sizes)) = view.attr("sizes") { sizes.clone() } else { vec![] };
        let (mut inputs, mut outputs, mut at) = (Vec::new(), Vec::new(), 0);
        for (i, v) in op.operands().enumerate() {
            let (mut buffer, rank) = (self.of(v), view.operands[i].rank());
            if !as_is.contains(&(i as i64)) {
                buffer = self.dense(buffer);
            }
            let dims = at..at + rank;
            let layout = layouts.get(dims.clone()).unwrap_or_default();
            inputs.push(self.seen(buffer, layout, sizes.get(dims).unwrap_or_default()));
            at += rank;
        }
        for (r, ty) in op.results().zip(&view.results) {
            let buffer = self.written(r.into())?;
            let layout = layouts.get(at..at + ty.rank()).unwrap_or_default();
            outputs.push(self.seen(buffer, layout, &[]));
            at += ty.rank();
        }
        Ok((inputs, outputs))
    }

    /// The view of a buffer whose dimension `i` is its dimension `layout[i]`, of `sizes[i]` elements; of all where these are empty.
    fn seen(&mut self, buffer: BufferId, layout: &[i64], sizes: &[Expr]) -> BufferId {
        let as_it_is = layout.iter().enumerate().all(|(i, &d)| i as i64 == d);
        let b = self.get(buffer).clone();
        if as_it_is && (sizes.is_empty() || sizes == b.shape) {
            return buffer;
        }
        let all = self.strides(buffer);
        let mut view = b.clone();
        let mut strides = Vec::new();
        for i in 0..b.shape.len() {
            let d = layout.get(i).map_or(i, |&d| d as usize);
            let (whole, stride) = (b.shape[d].clone(), all[d].clone());
            let size = sizes.get(i).unwrap_or(&whole).clone();
            let repeated = whole == Expr::from(1) && size != whole;
            strides.push(if repeated { Expr::from(0) } else { stride });
            view.shape[i] = size;
        }
        view.strides = Some(strides);
        view.place = Place::Alias { of: buffer, offset: Expr::from(0) };
        self.plan.buffers.push(view);
        BufferId(self.plan.buffers.len() as u32 - 1)
    }
}
