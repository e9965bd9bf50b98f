//! Element by element.

use crate::build::BodyBuilder;
use crate::ops::stated;
use crate::reference::Scalar;
use crate::scalar::{both2, cmpf, cmpi, emit_float, emit2, erf, eval_cast, float1, int_pow};
use crate::spec::{Constraint, Fold, Lowering, OpSpec, PointwiseBody, PointwiseEval, Violation};
use crate::types::TensorType;
use crate::view::OpView;
use melior::ir::{Value, ValueLike};
use strata_runtime::DType;

const SAME: &[Constraint] = &[
    Constraint("C1", "operands and result have one type"),
    Constraint("C2", "the element type is one that the op is defined on"),
];

/// Element types an op is defined on.
#[derive(Clone, Copy, PartialEq)]
enum On {
    Floats,
    Numbers,
    Ints,
    All,
    /// 8-bit floats too.
    Any,
}

pub(super) fn same<const ON: u8>(view: &OpView) -> Result<Vec<TensorType>, Violation> {
    let first = &view.operands[0];
    for (i, t) in view.operands.iter().enumerate().skip(1) {
        if t != first {
            return Violation::err(
                "C1",
                format!("operand {i} is {t}, operand 0 is {first}; broadcasts and casts are explicit"),
            );
        }
    }
    let on = [On::Floats, On::Numbers, On::Ints, On::All, On::Any][ON as usize];
    let (ok, wanted) = match on {
        On::Floats => (first.dtype.is_real(), "floats"),
        On::Numbers => (first.dtype.is_number(), "floats and integers but i1"),
        On::Ints => (!first.dtype.is_float(), "integers"),
        On::All => (!first.dtype.is_float8(), "floats and integers"),
        On::Any => (true, ""),
    };
    if !ok && first.dtype.is_float8() {
        return Violation::err(
            "C2",
            format!(
                "computes nothing in {}, which holds elements only; cast it to f32, bf16 or f16",
                first.dtype
            ),
        );
    }
    if !ok {
        return Violation::err("C2", format!("is not defined on {}; defined on {wanted}", first.dtype));
    }
    Ok(vec![first.clone()])
}

pub(super) const FLOATS: u8 = 0;
const NUMBERS: u8 = 1;
const INTS: u8 = 2;
const ALL: u8 = 3;
pub(super) const ANY: u8 = 4;

pub(super) type Inference = fn(&OpView) -> Result<Vec<TensorType>, Violation>;

pub(super) const fn row(
    name: &'static str,
    semantics: &'static str,
    (stablehlo, aten): (Option<&'static str>, Option<&'static str>),
    infer: Inference,
    eval: PointwiseEval,
    body: PointwiseBody,
) -> OpSpec {
    OpSpec {
        name,
        semantics,
        stablehlo,
        aten,
        constraints: SAME,
        infer,
        fold: None,
        eval: None,
        lowering: Lowering::Pointwise { eval, body },
    }
}

/// A row of a float function of one element that `math` has an op for.
macro_rules! float_row {
    ($name:literal, $formula:literal, $stablehlo:expr, $aten:literal, $f:expr, $math:literal) => {
        row(
            concat!("graph.", $name),
            $formula,
            ($stablehlo, Some($aten)),
            same::<FLOATS>,
            |_, x| float1(x, $f),
            |b, _, x| emit_float(b, x[0], |v| b.unary($math, v)),
        )
    };
}

/// A row of an op with two operands: float function, integer function, float op, integer op.
macro_rules! binary_row {
    ($name:literal, $formula:literal, $aten:literal, $on:expr, $f:expr, $g:expr, $float:literal, $int:literal) => {
        row(
            concat!("graph.", $name),
            $formula,
            (Some($name), Some($aten)),
            same::<{ $on }>,
            |_, x| both2(x, $f, $g),
            |b, _, x| emit2(b, x, |u, v| b.binary($float, u, v), |u, v| b.binary($int, u, v)),
        )
    };
}

fn nan_max(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}

fn nan_min(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.min(b) }
}

fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn int_div(a: i64, b: i64) -> i64 {
    if b == 0 { -1 } else { a.wrapping_div(b) }
}

fn int_rem(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { a.wrapping_rem(b) }
}

/// Division of integers that traps on no input: by zero gives -1, the most negative by -1 gives itself.
fn emit_int_div<'c, 'a>(
    b: &BodyBuilder<'c, 'a>,
    dtype: DType,
    x: Value<'c, 'a>,
    y: Value<'c, 'a>,
) -> Value<'c, 'a> {
    if dtype == DType::U8 {
        let (zero, one, minus) = (b.int(y, 0), b.int(y, 1), b.int(y, -1));
        let by_zero = b.compare("arith.cmpi", cmpi::EQ, y, zero);
        return b.select(by_zero, minus, b.binary("arith.divui", x, b.select(by_zero, one, y)));
    }
    let (zero, one, minus) = (b.int(y, 0), b.int(y, 1), b.int(y, -1));
    let by_zero = b.compare("arith.cmpi", cmpi::EQ, y, zero);
    let by_minus = b.compare("arith.cmpi", cmpi::EQ, y, minus);
    let safe = b.select(by_zero, one, y);
    let safe = b.select(by_minus, one, safe);
    let quotient = b.binary("arith.divsi", x, safe);
    let quotient = b.select(by_minus, b.binary("arith.subi", zero, x), quotient);
    b.select(by_zero, minus, quotient)
}

/// Remainder of integers that traps on no input: by zero gives the dividend, by -1 gives 0.
fn emit_int_rem<'c, 'a>(
    b: &BodyBuilder<'c, 'a>,
    dtype: DType,
    x: Value<'c, 'a>,
    y: Value<'c, 'a>,
) -> Value<'c, 'a> {
    if dtype == DType::U8 {
        let by_zero = b.compare("arith.cmpi", cmpi::EQ, y, b.int(y, 0));
        return b.select(by_zero, x, b.binary("arith.remui", x, b.select(by_zero, b.int(y, 1), y)));
    }
    let (zero, one, minus) = (b.int(y, 0), b.int(y, 1), b.int(y, -1));
    let by_zero = b.compare("arith.cmpi", cmpi::EQ, y, zero);
    let by_minus = b.compare("arith.cmpi", cmpi::EQ, y, minus);
    let safe = b.select(by_zero, one, y);
    let safe = b.select(by_minus, one, safe);
    b.select(by_zero, x, b.binary("arith.remsi", x, safe))
}

fn cast_infer(view: &OpView) -> Result<Vec<TensorType>, Violation> {
    let result = stated(view, 1)?;
    if result[0].shape != view.operands[0].shape {
        return Violation::err("C1", format!("changes the shape: {} to {}", view.operands[0], result[0]));
    }
    Ok(result)
}

fn polynomial_infer(view: &OpView) -> Result<Vec<TensorType>, Violation> {
    let result = same::<FLOATS>(view)?;
    if view.floats("coefficients").is_empty() {
        return Violation::err("C3", "has no coefficient");
    }
    Ok(result)
}

fn round_even(x: f64) -> f64 {
    x.round_ties_even()
}

/// The rows, in alphabetical order within: cast, one operand, two operands, three.
pub(super) static ROWS: &[OpSpec] = &[
    OpSpec {
        constraints: &[Constraint("C1", "operand and result have one shape")],
        fold: Some(|view, _| (view.operands[0] == view.results[0]).then_some(Fold::Operand(0))),
        ..row(
            "graph.cast",
            "The element in another type: floats round to nearest even; float to integer truncates towards zero and saturates, NaN becomes 0; anything to i1 is `x != 0`.",
            (Some("convert"), Some("_to_copy")),
            cast_infer,
            |view, x| eval_cast(x[0], view.results[0].dtype),
            |b, view, x| b.convert(x[0], view.operands[0].dtype, view.results[0].dtype),
        )
    },
    row(
        "graph.abs",
        "`|x|`; the most negative integer stays.",
        (Some("abs"), Some("abs")),
        same::<NUMBERS>,
        |_, x| match x[0] {
            Scalar::F(a) => Scalar::F(a.abs()),
            Scalar::I(a) => Scalar::I(a.wrapping_abs()),
        },
        |b, view, x| match view.operands[0].dtype {
            DType::U8 => x[0],
            d if d.is_float() => emit_float(b, x[0], |v| b.unary("math.absf", v)),
            _ => b.unary("math.absi", x[0]),
        },
    ),
    float_row!("ceil", "The smallest integer not below x.", Some("ceil"), "ceil", f64::ceil, "math.ceil"),
    float_row!("cos", "`cos(x)`", Some("cosine"), "cos", f64::cos, "math.cos"),
    float_row!("erf", "`2/sqrt(pi) * integral of exp(-t^2) from 0 to x`", None, "erf", erf, "math.erf"),
    float_row!("exp", "`exp(x)`", Some("exponential"), "exp", f64::exp, "math.exp"),
    float_row!("exp2", "`2^x`", None, "exp2", f64::exp2, "math.exp2"),
    float_row!(
        "expm1",
        "`exp(x) - 1`, accurate near 0",
        Some("exponential_minus_one"),
        "expm1",
        f64::exp_m1,
        "math.expm1"
    ),
    float_row!("floor", "The largest integer not above x.", Some("floor"), "floor", f64::floor, "math.floor"),
    float_row!("log", "`ln(x)`", Some("log"), "log", f64::ln, "math.log"),
    float_row!(
        "log1p",
        "`ln(1 + x)`, accurate near 0",
        Some("log_plus_one"),
        "log1p",
        f64::ln_1p,
        "math.log1p"
    ),
    row(
        "graph.logistic",
        "`1 / (1 + exp(-x))`",
        (Some("logistic"), Some("sigmoid")),
        same::<FLOATS>,
        |_, x| float1(x, logistic),
        |b, _, x| {
            emit_float(b, x[0], |v| {
                let one = b.float(v, 1.0);
                let e = b.unary("math.exp", b.unary("arith.negf", v));
                b.binary("arith.divf", one, b.binary("arith.addf", one, e))
            })
        },
    ),
    row(
        "graph.neg",
        "`-x`",
        (Some("negate"), Some("neg")),
        same::<NUMBERS>,
        |_, x| match x[0] {
            Scalar::F(a) => Scalar::F(-a),
            Scalar::I(a) => Scalar::I(a.wrapping_neg()),
        },
        |b, _, x| {
            if b.dtype(x[0]).is_float() {
                emit_float(b, x[0], |v| b.unary("arith.negf", v))
            } else {
                b.binary("arith.subi", b.int(x[0], 0), x[0])
            }
        },
    ),
    row(
        "graph.not",
        "Every bit flipped.",
        (Some("not"), Some("bitwise_not")),
        same::<INTS>,
        |_, x| Scalar::I(!x[0].i()),
        |b, _, x| b.binary("arith.xori", x[0], b.int(x[0], -1)),
    ),
    float_row!(
        "round",
        "The nearest integer, ties to even.",
        Some("round_nearest_even"),
        "round",
        round_even,
        "math.roundeven"
    ),
    float_row!("rsqrt", "`1 / sqrt(x)`", Some("rsqrt"), "rsqrt", |x| 1.0 / x.sqrt(), "math.rsqrt"),
    row(
        "graph.sign",
        "-1, 0 or 1 by the sign of x; NaN stays, zeros keep their sign.",
        (Some("sign"), Some("sign")),
        same::<NUMBERS>,
        |_, x| match x[0] {
            Scalar::F(a) => Scalar::F(if a == 0.0 || a.is_nan() { a } else { a.signum() }),
            Scalar::I(a) => Scalar::I(a.signum()),
        },
        |b, view, x| {
            let x = x[0];
            if view.operands[0].dtype == DType::U8 {
                return b.binary("arith.minui", x, b.int(x, 1));
            }
            if b.dtype(x).is_float() {
                return emit_float(b, x, |v| {
                    let (zero, one, minus) = (b.float(v, 0.0), b.float(v, 1.0), b.float(v, -1.0));
                    let up = b.select(b.compare("arith.cmpf", cmpf::OGT, v, zero), one, v);
                    b.select(b.compare("arith.cmpf", cmpf::OLT, v, zero), minus, up)
                });
            }
            let (zero, one, minus) = (b.int(x, 0), b.int(x, 1), b.int(x, -1));
            let up = b.select(b.compare("arith.cmpi", cmpi::SGT, x, zero), one, x);
            b.select(b.compare("arith.cmpi", cmpi::SLT, x, zero), minus, up)
        },
    ),
    float_row!("sin", "`sin(x)`", Some("sine"), "sin", f64::sin, "math.sin"),
    float_row!("sqrt", "`sqrt(x)`", Some("sqrt"), "sqrt", f64::sqrt, "math.sqrt"),
    float_row!("tanh", "`tanh(x)`", Some("tanh"), "tanh", f64::tanh, "math.tanh"),
    row(
        "graph.add",
        "`x + y`; for i1 `x or y`.",
        (Some("add"), Some("add.Tensor")),
        same::<ALL>,
        |v, x| {
            if v.operands[0].dtype == DType::I1 {
                Scalar::I(x[0].i() | x[1].i())
            } else {
                both2(x, |a, b| a + b, i64::wrapping_add)
            }
        },
        |b, _, x| match b.dtype(x[0]) {
            DType::I1 => b.binary("arith.ori", x[0], x[1]),
            _ => emit2(b, x, |u, v| b.binary("arith.addf", u, v), |u, v| b.binary("arith.addi", u, v)),
        },
    ),
    row(
        "graph.and",
        "Bitwise and.",
        (Some("and"), Some("bitwise_and.Tensor")),
        same::<INTS>,
        |_, x| Scalar::I(x[0].i() & x[1].i()),
        |b, _, x| b.binary("arith.andi", x[0], x[1]),
    ),
    row(
        "graph.atan2",
        "The angle of the point (y, x), `y` the first operand: from -pi to pi; the signs of zeros count.",
        (Some("atan2"), Some("atan2")),
        same::<FLOATS>,
        |_, x| both2(x, f64::atan2, |a, _| a),
        |b, _, x| emit2(b, x, |u, v| b.binary("math.atan2", u, v), |u, _| u),
    ),
    row(
        "graph.div",
        "`x / y`; integers truncate towards zero, division by zero gives -1.",
        (Some("divide"), Some("div.Tensor")),
        same::<NUMBERS>,
        |_, x| both2(x, |a, b| a / b, int_div),
        |b, view, x| {
            let dtype = view.operands[0].dtype;
            emit2(b, x, |u, v| b.binary("arith.divf", u, v), |u, v| emit_int_div(b, dtype, u, v))
        },
    ),
    row(
        "graph.max",
        "The larger; NaN if either is NaN.",
        (Some("maximum"), Some("maximum")),
        same::<ALL>,
        |_, x| both2(x, nan_max, i64::max),
        |b, view, x| match view.operands[0].dtype {
            DType::I1 => b.binary("arith.ori", x[0], x[1]),
            DType::U8 => b.binary("arith.maxui", x[0], x[1]),
            _ => emit2(b, x, |u, v| b.binary("arith.maximumf", u, v), |u, v| b.binary("arith.maxsi", u, v)),
        },
    ),
    row(
        "graph.min",
        "The smaller; NaN if either is NaN.",
        (Some("minimum"), Some("minimum")),
        same::<ALL>,
        |_, x| both2(x, nan_min, i64::min),
        |b, view, x| match view.operands[0].dtype {
            DType::I1 => b.binary("arith.andi", x[0], x[1]),
            DType::U8 => b.binary("arith.minui", x[0], x[1]),
            _ => emit2(b, x, |u, v| b.binary("arith.minimumf", u, v), |u, v| b.binary("arith.minsi", u, v)),
        },
    ),
    row(
        "graph.mul",
        "`x * y`; for i1 `x and y`.",
        (Some("multiply"), Some("mul.Tensor")),
        same::<ALL>,
        |_, x| both2(x, |a, b| a * b, i64::wrapping_mul),
        |b, _, x| match b.dtype(x[0]) {
            DType::I1 => b.binary("arith.andi", x[0], x[1]),
            _ => emit2(b, x, |u, v| b.binary("arith.mulf", u, v), |u, v| b.binary("arith.muli", u, v)),
        },
    ),
    row(
        "graph.or",
        "Bitwise or.",
        (Some("or"), Some("bitwise_or.Tensor")),
        same::<INTS>,
        |_, x| Scalar::I(x[0].i() | x[1].i()),
        |b, _, x| b.binary("arith.ori", x[0], x[1]),
    ),
    row(
        "graph.pow",
        "`x ^ y`; for integers, a negative exponent gives the truncated quotient `1 / x^|y|`.",
        (Some("pow"), Some("pow.Tensor_Tensor")),
        same::<{ NUMBERS }>,
        |_, x| both2(x, f64::powf, int_pow),
        |b, view, x| {
            let dtype = view.operands[0].dtype;
            let power = |u, v| b.binary("math.ipowi", b.widened(u, dtype), b.widened(v, dtype));
            if dtype == DType::U8 {
                return b.narrow(power(x[0], x[1]), dtype);
            }
            emit2(b, x, |u, v| b.binary("math.powf", u, v), power)
        },
    ),
    OpSpec {
        constraints: &[
            Constraint("C1", "operand and result have one type"),
            Constraint("C2", "the element type is a float type"),
            Constraint("C3", "there is a coefficient"),
        ],
        ..row(
            "graph.polynomial",
            "`c0 * x^n + c1 * x^(n-1) + … + cn` in f64 by Horner's scheme, rounded once.",
            (None, None),
            polynomial_infer,
            |view, x| {
                let (x, c) = (x[0].f(), view.floats("coefficients"));
                Scalar::F(c[1..].iter().fold(c[0], |p, &c| p.mul_add(x, c)))
            },
            |b, view, x| {
                let dtype = b.dtype(x[0]);
                let x = b.cast(x[0], DType::F64);
                let mut terms = view.floats("coefficients").iter().map(|&c| b.float(x, c));
                let first = terms.next().expect("C3");
                let y = terms.fold(first, |p, c| b.b.value("math.fma", &[p, x, c], x.r#type(), &[]));
                b.cast(y, dtype)
            },
        )
    },
    row(
        "graph.rem",
        "`x - y * trunc(x / y)`, with the sign of x; integers: by zero gives x.",
        (Some("remainder"), Some("fmod.Tensor")),
        same::<NUMBERS>,
        |_, x| both2(x, |a, b| a % b, int_rem),
        |b, view, x| {
            let dtype = view.operands[0].dtype;
            emit2(b, x, |u, v| b.binary("arith.remf", u, v), |u, v| emit_int_rem(b, dtype, u, v))
        },
    ),
    binary_row!(
        "sub",
        "`x - y`",
        "sub.Tensor",
        NUMBERS,
        |a, b| a - b,
        i64::wrapping_sub,
        "arith.subf",
        "arith.subi"
    ),
    row(
        "graph.xor",
        "Bitwise exclusive or.",
        (Some("xor"), Some("bitwise_xor.Tensor")),
        same::<INTS>,
        |_, x| Scalar::I(x[0].i() ^ x[1].i()),
        |b, _, x| b.binary("arith.xori", x[0], x[1]),
    ),
];
