//! Calls of other functions.

use crate::spec::{Constraint, Lowering, OpSpec};

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
        semantics: "Whatever the embedding program's op `target` computes; `reason` says why it has no lowering here, and is empty where it is a library of that program.",
        stablehlo: Some("custom_call"),
        aten: None,
        constraints: &[],
        infer: |view| Ok(view.results.clone()),
        fold: None,
        eval: None,
        lowering: Lowering::Plan,
    },
];
