//! Elements picked by index tensors.

use crate::ops::check_dims;
use crate::ops::reductions::ReduceKind;
use crate::reference::{RefTensor, Rounding, Scalar, flatten, unflatten};
use crate::spec::{Constraint, Fold, Lowering, OpSpec, Violation};
use crate::types::TensorType;
use crate::view::OpView;
use strata_runtime::DType;

fn gather_infer(view: &OpView) -> Result<Vec<TensorType>, Violation> {
    let (x, i) = (&view.operands[0], &view.operands[1]);
    if !matches!(i.dtype, DType::I64 | DType::I32) {
        return Violation::err("C1", format!("indices are {}, expected i64 or i32", i.dtype));
    }
    check_dims("C2", "dimension", &[view.int("dim")], x.rank())?;
    let dim = view.int("dim") as usize;
    let shape = [&x.shape[..dim], &i.shape, &x.shape[dim + 1..]].concat();
    Ok(vec![TensorType { dtype: x.dtype, shape }])
}

fn gather_eval(view: &OpView, x: &[RefTensor], _: Rounding) -> Result<Vec<RefTensor>, String> {
    let (x, indices) = (&x[0], &x[1]);
    let dim = view.int("dim") as usize;
    let size = x.shape[dim] as i64;
    let shape = view.results[0].static_shape().ok_or("unbound size")?;
    if size == 0 && !indices.is_empty() {
        return Err(format!("graph.gather: dimension {dim} is empty"));
    }
    Ok(vec![RefTensor::generate(x.dtype, &shape, Rounding::Float64, |i| {
        let at = unflatten(i, &shape);
        let picked = indices.at(&at[dim..dim + indices.shape.len()]).i();
        // Negative indices count from the end; what is still outside is clamped, so that no read is out of bounds.
        let picked = (if picked < 0 { picked + size } else { picked }).clamp(0, size - 1) as usize;
        x.at(&[&at[..dim], &[picked], &at[dim + indices.shape.len()..]].concat())
    })])
}

fn check_infer(view: &OpView) -> Result<Vec<TensorType>, Violation> {
    let x = &view.operands[0];
    if !matches!(x.dtype, DType::I64 | DType::I32) {
        return Violation::err("C1", format!("indices are {}, expected i64 or i32", x.dtype));
    }
    if view.dims("size").len() != 1 {
        return Violation::err("C2", format!("takes one size, got {}", view.dims("size").len()));
    }
    Ok(vec![x.clone()])
}

/// An index into `0..size`, counted from the end where `wrap` says so and it is negative; an error where it is outside.
pub fn check_index(index: i64, size: i64, wrap: bool, message: &str) -> Result<i64, String> {
    let counted = if wrap && index < 0 { index.wrapping_add(size) } else { index };
    if (0..size).contains(&counted) {
        return Ok(counted);
    }
    let first = if wrap { -size } else { 0 };
    Err(format!("{message}: {index} is not in {first}..{size}"))
}

fn checked(view: &OpView, x: &RefTensor) -> Result<RefTensor, String> {
    let size = view.dims("size")[0].as_const().ok_or("unbound size")?;
    let (wrap, message) = (view.bool("wrap"), view.str("message"));
    let all = (0..x.len()).map(|i| check_index(x.get(i).i(), size, wrap, message));
    let all = all.collect::<Result<Vec<_>, _>>()?;
    Ok(RefTensor::generate(x.dtype, &x.shape, Rounding::Float64, |i| Scalar::I(all[i])))
}

/// Constant indices that are inside; others stay, and are reported when the program runs.
fn check_fold(view: &OpView, operands: &[Option<RefTensor>]) -> Option<Fold> {
    let x = operands.first()?.as_ref()?;
    checked(view, x).ok().map(Fold::Constant)
}

/// What happens to an element that is scattered to; the numbers of the enum in `GraphBase.td`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScatterKind {
    /// It is replaced.
    Set,
    /// The update is added.
    Add,
    /// It is multiplied.
    Mul,
    /// The larger stays; NaN if one is NaN.
    Max,
    /// The smaller stays; NaN if one is NaN.
    Min,
}

impl ScatterKind {
    /// The kind of an op's attribute `kind`.
    pub fn of(view: &OpView) -> Self {
        Self::from_case(view.case("kind")).expect("the dialect's enum")
    }

    /// The kind of a number in the enum attribute.
    pub fn from_case(case: i32) -> Option<Self> {
        [Self::Set, Self::Add, Self::Mul, Self::Max, Self::Min].get(usize::try_from(case).ok()?).copied()
    }

    /// The number in the enum attribute.
    pub fn case(self) -> i32 {
        self as i32
    }

    /// The combination; `None` for replacement.
    pub fn combination(self) -> Option<ReduceKind> {
        match self {
            Self::Set => None,
            Self::Add => Some(ReduceKind::Sum),
            Self::Mul => Some(ReduceKind::Prod),
            Self::Max => Some(ReduceKind::Max),
            Self::Min => Some(ReduceKind::Min),
        }
    }
}

fn scatter_infer(view: &OpView) -> Result<Vec<TensorType>, Violation> {
    let (x, i, updates) = (&view.operands[0], &view.operands[1], &view.operands[2]);
    if !matches!(i.dtype, DType::I64 | DType::I32) {
        return Violation::err("C1", format!("indices are {}, expected i64 or i32", i.dtype));
    }
    check_dims("C2", "dimension", &[view.int("dim")], x.rank())?;
    let dim = view.int("dim") as usize;
    let shape = [&x.shape[..dim], &i.shape, &x.shape[dim + 1..]].concat();
    let wanted = TensorType { dtype: x.dtype, shape };
    if *updates != wanted {
        return Violation::err("C3", format!("updates are {updates}, expected {wanted}"));
    }
    let kind = ScatterKind::of(view);
    if kind != ScatterKind::Set && !x.dtype.is_number() {
        return Violation::err("C4", format!("{} can be set only", x.dtype));
    }
    if x.dtype == DType::U8 && matches!(kind, ScatterKind::Max | ScatterKind::Min) {
        return Violation::err("C4", "max and min are not defined on ui8; cast it to i32");
    }
    Ok(vec![x.clone()])
}

/// Scatters `updates` into `out`, in row-major order of the updates.
pub fn scatter(
    kind: ScatterKind,
    dim: usize,
    out: &mut [Scalar],
    shape: &[usize],
    indices: &RefTensor,
    updates: &RefTensor,
    rounding: Rounding,
) {
    let size = shape[dim] as i64;
    for u in 0..updates.len() {
        let at = unflatten(u, &updates.shape);
        let picked = indices.at(&at[dim..dim + indices.shape.len()]).i();
        let picked = if picked < 0 { picked + size } else { picked };
        if !(0..size).contains(&picked) {
            continue;
        }
        let place = [&at[..dim], &[picked as usize], &at[dim + indices.shape.len()..]].concat();
        let o = &mut out[flatten(&place, shape)];
        *o = match kind.combination() {
            None => updates.get(u),
            // In memory: each combination is rounded to the element type.
            Some(c) => match (rounding, c.combine(*o, updates.get(u))) {
                (Rounding::Exact, Scalar::F(x)) => Scalar::F(updates.dtype.round(x)),
                (_, x) => x,
            },
        };
    }
}

fn scatter_eval(view: &OpView, x: &[RefTensor], rounding: Rounding) -> Result<Vec<RefTensor>, String> {
    let mut out: Vec<Scalar> = (0..x[0].len()).map(|i| x[0].get(i)).collect();
    let (kind, dim) = (ScatterKind::of(view), view.int("dim") as usize);
    scatter(kind, dim, &mut out, &x[0].shape, &x[1], &x[2], rounding);
    Ok(vec![RefTensor::generate(x[0].dtype, &x[0].shape, rounding, |i| out[i])])
}

pub(super) static ROWS: &[OpSpec] = &[GATHER, SCATTER, CHECK_INDEX];

const SCATTER: OpSpec = OpSpec {
    name: "graph.scatter",
    semantics: "The operand, in which update (i…, j…, k…) replaces the element at (i…, indices(j…), k…), or is combined with it. A negative index counts from the end; what is still outside is left out. Where two updates have one place, `set` keeps one of them.",
    stablehlo: Some("scatter"),
    aten: Some("index_put, scatter, scatter_reduce, index_add, index_copy"),
    constraints: &[
        Constraint("C1", "indices are i64 or i32"),
        Constraint("C2", "`dim` is a dimension of the operand"),
        Constraint(
            "C3",
            "updates have the operand's shape with that of the indices in the place of `dim`, and its element type",
        ),
        Constraint("C4", "i1 and 8-bit floats can be set, not combined; ui8 has no max and min"),
    ],
    infer: scatter_infer,
    fold: None,
    eval: Some(scatter_eval),
    lowering: Lowering::Structural,
};

const GATHER: OpSpec = OpSpec {
    name: "graph.gather",
    semantics: "Element (i…, j…, k…) is the operand's at (i…, indices(j…), k…). A negative index counts from the end; what is still outside is clamped.",
    stablehlo: Some("gather"),
    aten: Some("embedding, index_select"),
    constraints: &[
        Constraint("C1", "indices are i64 or i32"),
        Constraint("C2", "`dim` is a dimension of the operand"),
    ],
    infer: gather_infer,
    fold: None,
    eval: Some(gather_eval),
    lowering: Lowering::Structural,
};

const CHECK_INDEX: OpSpec = OpSpec {
    name: "graph.check_index",
    semantics: "The operand, which is in 0..size; where `wrap` is true, size is added to what is negative first. Another element is an error with `message` of whoever runs the program: on a GPU a device-side assertion. An element that no result depends on may go unchecked.",
    stablehlo: None,
    aten: Some("_assert_async, within index, embedding and their like"),
    constraints: &[Constraint("C1", "indices are i64 or i32"), Constraint("C2", "one size")],
    infer: check_infer,
    fold: Some(check_fold),
    eval: Some(|view, x, _| Ok(vec![checked(view, &x[0])?])),
    lowering: Lowering::Structural,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_counts_from_the_end_only_where_it_may() {
        assert_eq!(check_index(-1, 4, true, "f"), Ok(3));
        assert_eq!(check_index(3, 4, false, "f"), Ok(3));
        assert_eq!(check_index(-5, 4, true, "f"), Err("f: -5 is not in -4..4".into()));
        assert_eq!(check_index(-1, 4, false, "f"), Err("f: -1 is not in 0..4".into()));
        assert_eq!(check_index(4, 4, true, "f"), Err("f: 4 is not in -4..4".into()));
        assert_eq!(check_index(i64::MIN, 0, true, "f"), Err(format!("f: {} is not in 0..0", i64::MIN)));
    }
}
