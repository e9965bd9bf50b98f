//! Comparisons and choices, element by element.

use crate::build::BodyBuilder;
use crate::ops::pointwise::{ANY, row, same};
use crate::reference::Scalar;
use crate::scalar::{cmpf, cmpi};
use crate::spec::{Constraint, OpSpec, Violation};
use crate::types::TensorType;
use crate::view::OpView;
use melior::ir::Value;
use strata_runtime::DType;

fn compare_infer(view: &OpView) -> Result<Vec<TensorType>, Violation> {
    Ok(vec![same::<ANY>(view)?[0].with_dtype(DType::I1)])
}

fn compare_eval(view: &OpView, x: &[Scalar]) -> Scalar {
    let order = match (x[0], x[1]) {
        (Scalar::F(a), Scalar::F(b)) => a.partial_cmp(&b),
        (a, b) => Some(a.i().cmp(&b.i())),
    };
    Scalar::I(i64::from(match (view.case("direction"), order) {
        (1, None) => true,
        (_, None) => false,
        (0, Some(o)) => o.is_eq(),
        (1, Some(o)) => o.is_ne(),
        (2, Some(o)) => o.is_lt(),
        (3, Some(o)) => o.is_le(),
        (4, Some(o)) => o.is_gt(),
        (_, Some(o)) => o.is_ge(),
    }))
}

fn compare_body<'c, 'a>(b: &BodyBuilder<'c, 'a>, view: &OpView, x: &[Value<'c, 'a>]) -> Value<'c, 'a> {
    let case = view.case("direction") as usize;
    match view.operands[0].dtype {
        DType::U8 => {
            let p = [cmpi::EQ, cmpi::NE, cmpi::ULT, cmpi::ULE, cmpi::UGT, cmpi::UGE][case];
            b.compare("arith.cmpi", p, x[0], x[1])
        }
        d if d.is_float() => {
            let p = [cmpf::OEQ, cmpf::UNE, cmpf::OLT, cmpf::OLE, cmpf::OGT, cmpf::OGE][case];
            b.compare("arith.cmpf", p, b.widened(x[0], d), b.widened(x[1], d))
        }
        d => {
            // i1 counts as 0 and 1, not as 0 and -1.
            let widen = |v| if d == DType::I1 { b.cast(v, DType::I8) } else { v };
            let p = [cmpi::EQ, cmpi::NE, cmpi::SLT, cmpi::SLE, cmpi::SGT, cmpi::SGE][case];
            b.compare("arith.cmpi", p, widen(x[0]), widen(x[1]))
        }
    }
}

fn select_infer(view: &OpView) -> Result<Vec<TensorType>, Violation> {
    let [pred, a, b] = view.operands.as_slice() else {
        return Violation::err("C1", format!("takes 3 operands, got {}", view.operands.len()));
    };
    if pred.dtype != DType::I1 {
        return Violation::err("C1", format!("the predicate is {pred}, expected i1 elements"));
    }
    if a != b {
        return Violation::err("C2", format!("the alternatives differ: {a} and {b}"));
    }
    if pred.shape != a.shape {
        return Violation::err(
            "C3",
            format!("the predicate is {pred}, the alternatives are {a}; broadcasts are explicit"),
        );
    }
    Ok(vec![a.clone()])
}

pub(super) static ROWS: &[OpSpec] = &[
    OpSpec {
        constraints: &[Constraint(
            "C1",
            "the operands have one type; the result has their shape and i1 elements",
        )],
        ..row(
            "graph.compare",
            "1 where the comparison holds. Integers compare as signed (`ui8` has no sign), i1 as 0 and 1. With a NaN only `ne` holds.",
            (Some("compare"), Some("eq.Tensor, ne.Tensor, lt.Tensor, le.Tensor, gt.Tensor, ge.Tensor")),
            compare_infer,
            compare_eval,
            compare_body,
        )
    },
    OpSpec {
        constraints: &[
            Constraint("C1", "the first operand has i1 elements"),
            Constraint("C2", "the alternatives and the result have one type"),
            Constraint("C3", "the predicate has their shape"),
        ],
        ..row(
            "graph.select",
            "`p ? x : y`",
            (Some("select"), Some("where.self")),
            select_infer,
            |_, x| if x[0].i() != 0 { x[1] } else { x[2] },
            |b, _, x| b.select(x[0], x[1], x[2]),
        )
    },
];
