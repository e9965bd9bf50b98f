//! Combination over dimensions or windows.

use crate::ops::check_dims;
use crate::reference::{RefTensor, Rounding, Scalar, unflatten};
use crate::spec::{Constraint, Fold, Lowering, OpSpec, Violation};
use crate::types::TensorType;
use crate::view::OpView;
use strata_runtime::DType;
use strata_runtime::sym::Expr;

/// How a reduction combines; the numbers of the enum in `GraphBase.td`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReduceKind {
    /// Sum, kept in f32 (f64 for f64) and rounded once.
    Sum,
    /// Largest; NaN if one is NaN.
    Max,
    /// Smallest; NaN if one is NaN.
    Min,
    /// Product.
    Prod,
    /// Bitwise or.
    Any,
    /// Bitwise and.
    All,
}

impl ReduceKind {
    /// The kind of an op's attribute `kind`.
    pub fn of(view: &OpView) -> Self {
        [Self::Sum, Self::Max, Self::Min, Self::Prod, Self::Any, Self::All][view.case("kind") as usize]
    }

    /// The number in the enum attribute.
    pub fn case(self) -> i32 {
        self as i32
    }

    /// The op of `arith` that combines two elements of a type.
    pub fn arith(self, dtype: DType) -> &'static str {
        match (self, dtype.is_float()) {
            (Self::Sum, true) => "arith.addf",
            (Self::Sum, false) => "arith.addi",
            (Self::Prod, true) => "arith.mulf",
            (Self::Prod, false) => "arith.muli",
            (Self::Max, true) => "arith.maximumf",
            (Self::Max, false) => "arith.maxsi",
            (Self::Min, true) => "arith.minimumf",
            (Self::Min, false) => "arith.minsi",
            (Self::Any, _) => "arith.ori",
            (Self::All, _) => "arith.andi",
        }
    }

    /// What combining nothing gives.
    pub fn neutral(self, dtype: DType) -> Scalar {
        let bits = 8 * dtype.size() as u32;
        let (min, max) = match dtype {
            DType::I1 => (0, 1),
            DType::U8 => (0, 255),
            _ => (i64::MIN >> (64 - bits), i64::MAX >> (64 - bits)),
        };
        match (self, dtype.is_float()) {
            (Self::Sum, true) => Scalar::F(0.0),
            (Self::Prod, true) => Scalar::F(1.0),
            (Self::Max, true) => Scalar::F(f64::NEG_INFINITY),
            (Self::Min, true) => Scalar::F(f64::INFINITY),
            (Self::Sum | Self::Any, _) => Scalar::I(0),
            (Self::Prod, _) => Scalar::I(1),
            (Self::Max, _) => Scalar::I(min),
            (Self::Min, _) => Scalar::I(max),
            (Self::All, _) => Scalar::I(if dtype == DType::I1 { 1 } else { -1 }),
        }
    }

    /// Combines two elements.
    pub fn combine(self, a: Scalar, b: Scalar) -> Scalar {
        match (a, b) {
            (Scalar::F(a), Scalar::F(b)) => Scalar::F(match self {
                Self::Sum => a + b,
                Self::Prod => a * b,
                _ if a.is_nan() || b.is_nan() => f64::NAN,
                Self::Max => a.max(b),
                _ => a.min(b),
            }),
            (a, b) => {
                let (a, b) = (a.i(), b.i());
                Scalar::I(match self {
                    Self::Sum => a.wrapping_add(b),
                    Self::Prod => a.wrapping_mul(b),
                    Self::Max => a.max(b),
                    Self::Min => a.min(b),
                    Self::Any => a | b,
                    Self::All => a & b,
                })
            }
        }
    }
}

fn check_kind(view: &OpView) -> Result<(), Violation> {
    let (kind, dtype) = (ReduceKind::of(view), view.operands[0].dtype);
    let bitwise = matches!(kind, ReduceKind::Any | ReduceKind::All);
    if bitwise && dtype.is_float() || !bitwise && !dtype.is_number() {
        return Violation::err(
            "C2",
            format!("{kind:?} is not defined on {dtype}; i1 has any and all, floats have the others"),
        );
    }
    Ok(())
}

fn reduce_infer(view: &OpView) -> Result<Vec<TensorType>, Violation> {
    let x = &view.operands[0];
    check_dims("C1", "dimension", view.ints("dims"), x.rank())?;
    check_kind(view)?;
    let dims = view.indices("dims");
    let shape =
        x.shape.iter().enumerate().filter(|(d, _)| !dims.contains(d)).map(|(_, e)| e.clone()).collect();
    Ok(vec![TensorType { dtype: x.dtype, shape }])
}

fn arg_infer(view: &OpView) -> Result<Vec<TensorType>, Violation> {
    let x = &view.operands[0];
    check_dims("C1", "dimension", &[view.int("dim")], x.rank())?;
    let dim = view.int("dim") as usize;
    if x.shape[dim] == Expr::from(0) {
        return Violation::err("C2", format!("dimension {dim} of {x} is empty: there is no position"));
    }
    if x.dtype.is_float8() {
        return Violation::err("C3", format!("{} has no order here; cast it to f32", x.dtype));
    }
    let mut shape = x.shape.clone();
    shape.remove(dim);
    Ok(vec![TensorType { dtype: DType::I64, shape }])
}

/// The size of a windowed dimension: `floor((size + low + high - dilation*(window-1) - 1) / stride) + 1`.
pub fn window_size(size: &Expr, low: i64, high: i64, window: i64, dilation: i64, stride: i64) -> Expr {
    (size.clone() + Expr::from(low + high - dilation * (window - 1) - 1)).floor_div(&Expr::from(stride))
        + Expr::from(1)
}

fn window_infer(view: &OpView) -> Result<Vec<TensorType>, Violation> {
    let x = &view.operands[0];
    check_kind(view)?;
    let lists = ["window", "strides", "low", "high", "dilation"].map(|n| view.ints(n));
    if lists.iter().any(|l| l.len() != x.rank()) {
        return Violation::err(
            "C1",
            format!("needs window, strides, low, high and dilation for {} dimensions", x.rank()),
        );
    }
    let [window, strides, low, high, dilation] = lists;
    let mut shape = Vec::new();
    for d in 0..x.rank() {
        if window[d] < 1 || strides[d] < 1 || dilation[d] < 1 || low[d] < 0 || high[d] < 0 {
            return Violation::err(
                "C3",
                format!("dimension {d}: window, stride and dilation are at least 1, paddings at least 0"),
            );
        }
        let size = window_size(&x.shape[d], low[d], high[d], window[d], dilation[d], strides[d]);
        // A batch of nothing stays one.
        let empty = x.shape[d].as_const() == Some(0) && size.as_const() == Some(0);
        if size.as_const().is_some_and(|s| s < 1) && !empty {
            return Violation::err(
                "C4",
                format!("the window does not fit into dimension {d} of size {}", x.shape[d]),
            );
        }
        shape.push(size);
    }
    Ok(vec![TensorType { dtype: x.dtype, shape }])
}

fn reduce_eval(view: &OpView, x: &[RefTensor], rounding: Rounding) -> Result<Vec<RefTensor>, String> {
    let (kind, dims) = (ReduceKind::of(view), view.indices("dims"));
    let x = &x[0];
    let shape = view.results[0].static_shape().ok_or("unbound size")?;
    let mut out = vec![kind.neutral(x.dtype); shape.iter().product()];
    for i in 0..x.len() {
        let index = unflatten(i, &x.shape);
        let kept: Vec<_> =
            index.iter().enumerate().filter(|(d, _)| !dims.contains(d)).map(|(_, &k)| k).collect();
        let o = &mut out[crate::reference::flatten(&kept, &shape)];
        *o = rounding.keep(x.dtype, kind.combine(*o, x.get(i)));
    }
    Ok(vec![RefTensor::generate(x.dtype, &shape, rounding, |i| out[i])])
}

fn arg_eval(view: &OpView, x: &[RefTensor], _: Rounding) -> Result<Vec<RefTensor>, String> {
    let (x, dim) = (&x[0], view.int("dim") as usize);
    let largest = view.case("kind") == 0;
    let shape = view.results[0].static_shape().ok_or("unbound size")?;
    if x.shape[dim] == 0 && shape.iter().product::<usize>() > 0 {
        return Err(format!("graph.arg_reduce: dimension {dim} is empty"));
    }
    let better = |a: Scalar, b: Scalar| match (a, b) {
        (Scalar::F(_), Scalar::F(b)) if b.is_nan() => false,
        (Scalar::F(a), Scalar::F(_)) if a.is_nan() => true,
        (Scalar::F(a), Scalar::F(b)) => {
            if largest {
                a > b
            } else {
                a < b
            }
        }
        (a, b) => {
            if largest {
                a.i() > b.i()
            } else {
                a.i() < b.i()
            }
        }
    };
    Ok(vec![RefTensor::generate(DType::I64, &shape, Rounding::Exact, |i| {
        let mut index = unflatten(i, &shape);
        index.insert(dim, 0);
        let mut best = (0, x.at(&index));
        for k in 1..x.shape[dim] {
            index[dim] = k;
            let v = x.at(&index);
            if better(v, best.1) {
                best = (k, v);
            }
        }
        Scalar::I(best.0 as i64)
    })])
}

fn window_eval(view: &OpView, x: &[RefTensor], rounding: Rounding) -> Result<Vec<RefTensor>, String> {
    let (x, kind) = (&x[0], ReduceKind::of(view));
    let shape = view.results[0].static_shape().ok_or("unbound size")?;
    let window: Vec<usize> = view.indices("window");
    let (strides, low, dilation) = (view.ints("strides"), view.ints("low"), view.ints("dilation"));
    Ok(vec![RefTensor::generate(x.dtype, &shape, rounding, |i| {
        let at = unflatten(i, &shape);
        let mut out = kind.neutral(x.dtype);
        for w in 0..window.iter().product() {
            let k = unflatten(w, &window);
            let from: Vec<i64> = (0..k.len())
                .map(|d| at[d] as i64 * strides[d] + k[d] as i64 * dilation[d] - low[d])
                .collect();
            if from.iter().zip(&x.shape).all(|(&p, &n)| p >= 0 && (p as usize) < n) {
                let at: Vec<_> = from.iter().map(|&p| p as usize).collect();
                out = rounding.keep(x.dtype, kind.combine(out, x.at(&at)));
            }
        }
        out
    })])
}

/// The combination of a scan's attribute `kind`.
pub fn scan_kind(view: &OpView) -> ReduceKind {
    [ReduceKind::Sum, ReduceKind::Max, ReduceKind::Min, ReduceKind::Prod][view.case("kind") as usize]
}

fn scan_infer(view: &OpView) -> Result<Vec<TensorType>, Violation> {
    let x = &view.operands[0];
    check_dims("C1", "dimension", &[view.int("dim")], x.rank())?;
    if !x.dtype.is_number() {
        return Violation::err("C2", format!("is not defined on {}", x.dtype));
    }
    if x.dtype == DType::U8 && matches!(scan_kind(view), ReduceKind::Max | ReduceKind::Min) {
        return Violation::err("C3", "max and min are not defined on ui8; cast it to i32");
    }
    Ok(vec![x.clone()])
}

/// Runs along dimension `dim` of a tensor, combining in `keep`'s type and rounding each result.
pub fn scan(kind: ReduceKind, dim: usize, x: &RefTensor, rounding: Rounding) -> RefTensor {
    let mut out: Vec<Scalar> = (0..x.len()).map(|i| x.get(i)).collect();
    let inner: usize = x.shape[dim + 1..].iter().product();
    for i in 0..out.len() {
        if !(i / inner).is_multiple_of(x.shape[dim]) {
            out[i] = rounding.keep(x.dtype, kind.combine(out[i - inner], out[i]));
        }
    }
    RefTensor::generate(x.dtype, &x.shape, rounding, |i| out[i])
}

pub(super) static ROWS: &[OpSpec] = &[
    OpSpec {
        name: "graph.scan",
        semantics: "Element i along `dim` combines the operand's elements 0 … i. Sums and products are kept in f32 (f64 for f64), and each result is rounded.",
        stablehlo: None,
        aten: Some("cumsum, cumprod"),
        constraints: &[
            Constraint("C1", "`dim` is a dimension of the operand"),
            Constraint("C2", "the element type is neither i1 nor an 8-bit float"),
            Constraint("C3", "max and min of ui8 are taken in another type"),
        ],
        infer: scan_infer,
        fold: None,
        eval: Some(|view, x, rounding| {
            Ok(vec![scan(scan_kind(view), view.int("dim") as usize, &x[0], rounding)])
        }),
        lowering: Lowering::Structural,
    },
    OpSpec {
        name: "graph.reduce",
        semantics: "The elements along `dims` combined; an empty combination gives the neutral element. Sums are kept in f32 (f64 for f64) and rounded once.",
        stablehlo: Some("reduce"),
        aten: Some("sum.dim_IntList, amax, amin, prod.dim_int, any.dim, all.dim"),
        constraints: &[
            Constraint("C1", "`dims` are different dimensions of the operand"),
            Constraint(
                "C2",
                "any and all are for integers and i1, the others for all but i1 and 8-bit floats",
            ),
        ],
        infer: reduce_infer,
        fold: Some(|view, _| view.ints("dims").is_empty().then_some(Fold::Operand(0))),
        eval: Some(reduce_eval),
        lowering: Lowering::Structural,
    },
    OpSpec {
        name: "graph.arg_reduce",
        semantics: "The position of the first largest (smallest) element along `dim`; the first NaN counts as the largest and the smallest.",
        stablehlo: None,
        aten: Some("argmax, argmin"),
        constraints: &[
            Constraint("C1", "`dim` is a dimension of the operand"),
            Constraint("C2", "that dimension is not empty"),
            Constraint("C3", "the element type is no 8-bit float"),
        ],
        infer: arg_infer,
        fold: None,
        eval: Some(arg_eval),
        lowering: Lowering::Structural,
    },
    OpSpec {
        name: "graph.reduce_window",
        semantics: "The elements of each window combined; positions outside of the operand are left out.",
        stablehlo: Some("reduce_window"),
        aten: Some("max_pool2d, avg_pool2d"),
        constraints: &[
            Constraint("C1", "window, strides, low, high and dilation have one entry a dimension"),
            Constraint(
                "C2",
                "any and all are for integers and i1, the others for all but i1 and 8-bit floats",
            ),
            Constraint("C3", "window, strides and dilation are at least 1, low and high at least 0"),
            Constraint("C4", "the window fits at least once"),
        ],
        infer: window_infer,
        fold: None,
        eval: Some(window_eval),
        lowering: Lowering::Structural,
    },
];
