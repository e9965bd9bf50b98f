//! Calls of other functions.

use crate::attr::Attr;
use crate::ops::check_dims;
use crate::spec::{Constraint, Lowering, OpSpec, Violation};
use crate::types::TensorType;
use crate::view::OpView;

/// Layouts and sizes have an entry a dimension, and each layout names every dimension of its tensor.
fn custom_call_infer(view: &OpView) -> Result<Vec<TensorType>, Violation> {
    let tensors = || view.operands.iter().chain(&view.results);
    if let Some(Attr::Ints(layouts)) = view.attr("layouts") {
        let ranks: usize = tensors().map(TensorType::rank).sum();
        if layouts.len() != ranks {
            return Violation::err("C1", format!("has {} entries for {ranks} dimensions", layouts.len()));
        }
        let mut from = 0;
        for t in tensors() {
            check_dims("C1", "dimension", &layouts[from..from + t.rank()], t.rank())?;
            from += t.rank();
        }
    }
    let ranks: usize = view.operands.iter().map(TensorType::rank).sum();
    if let Some(Attr::Dims(sizes)) = view.attr("sizes")
        && sizes.len() != ranks
    {
        return Violation::err("C2", format!("has {} sizes for {ranks} dimensions of operands", sizes.len()));
    }
    if let Some(Attr::Ints(list)) = view.attr("as_is")
        && let Some(i) = list.iter().find(|&&i| i < 0 || i as usize >= view.operands.len())
    {
        return Violation::err("C3", format!("names operand {i} of {}", view.operands.len()));
    }
    Ok(view.results.clone())
}

pub(super) static ROWS: &[OpSpec] = &[
    OpSpec {
        name: "graph.call",
        semantics: "The results of a function of this module. `symbols` gives the callee's symbols as expressions over the caller's.",
        stablehlo: Some("composite"),
        aten: None,
        constraints: &[Constraint("C1", "the callee is defined in the module")],
        infer: |view| Ok(view.results.clone()),
        fold: None,
        eval: None,
        lowering: Lowering::Plan,
    },
    OpSpec {
        name: "graph.custom_call",
        semantics: "Whatever the embedding program's op `target` computes; `reason` says why it has no lowering here, and is empty where it is a library of that program. `layouts` says for each dimension that `target` sees, first of all operands, then of all results, which dimension of the operand or result it is: these are in the order of memory. `sizes` are the operands' sizes as `target` sees them: the elements beyond are a gap, and one element stands for many. Operands in `as_is` are passed as they lie, all others row-major.",
        stablehlo: Some("custom_call"),
        aten: None,
        constraints: &[
            Constraint(
                "C1",
                "`layouts` has an entry a dimension; those of an operand or result name each of its dimensions once",
            ),
            Constraint("C2", "`sizes` has an entry a dimension of the operands"),
            Constraint("C3", "`as_is` names operands"),
        ],
        infer: custom_call_infer,
        fold: None,
        eval: None,
        lowering: Lowering::Plan,
    },
];
