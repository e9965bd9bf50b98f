//! Element by element, with one operand; conversions.

use super::lower::{Cx, Many, One, direction, wide};
use super::model::Node;
use super::pointwise::truncate;
use super::table::{Entry, one};
use melior::ir::Value;
use strata_runtime::DType;

type Function = for<'c, 'a> fn(&Cx<'c, 'a>, Value<'c, 'a>) -> One<'c, 'a>;

pub const TABLE: &[Entry] = &[
    ("aten.neg", |cx, n| same(cx, n, |cx, x| cx.op("neg", &[x]))),
    ("aten.abs", |cx, n| same(cx, n, |cx, x| cx.op("abs", &[x]))),
    // PyTorch's sign of NaN is 0, the dialect's is NaN.
    ("aten.sign", |cx, n| {
        same(cx, n, |cx, x| {
            let zero = cx.like(x, 0.0)?;
            let d = cx.ty(x).dtype;
            if d == DType::I1 {
                return Ok(x);
            }
            let positive = cx.cast(cx.compare(direction::GT, x, zero)?, d)?;
            cx.op("sub", &[positive, cx.cast(cx.compare(direction::LT, x, zero)?, d)?])
        })
    }),
    ("aten.bitwise_not", |cx, n| same(cx, n, |cx, x| cx.op("not", &[x]))),
    ("aten.relu", |cx, n| same(cx, n, |cx, x| cx.op("max", &[x, cx.like(x, 0.0)?]))),
    ("aten.square", |cx, n| same(cx, n, |cx, x| cx.op("mul", &[x, x]))),
    ("aten.floor", |cx, n| rounding(cx, n, |cx, x| cx.op("floor", &[x]))),
    ("aten.ceil", |cx, n| rounding(cx, n, |cx, x| cx.op("ceil", &[x]))),
    ("aten.trunc", |cx, n| rounding(cx, n, truncate)),
    ("aten.round", round),
    ("aten.exp", |cx, n| float(cx, n, |cx, x| cx.op("exp", &[x]))),
    ("aten.exp2", |cx, n| float(cx, n, |cx, x| cx.op("exp2", &[x]))),
    ("aten.expm1", |cx, n| float(cx, n, |cx, x| cx.op("expm1", &[x]))),
    ("aten.log", |cx, n| float(cx, n, |cx, x| cx.op("log", &[x]))),
    ("aten.log1p", |cx, n| float(cx, n, |cx, x| cx.op("log1p", &[x]))),
    ("aten.log2", |cx, n| float(cx, n, |cx, x| scaled(cx, cx.op("log", &[x])?, std::f64::consts::LOG2_E))),
    ("aten.log10", |cx, n| float(cx, n, |cx, x| scaled(cx, cx.op("log", &[x])?, std::f64::consts::LOG10_E))),
    ("aten.sqrt", |cx, n| float(cx, n, |cx, x| cx.op("sqrt", &[x]))),
    ("aten.rsqrt", |cx, n| float(cx, n, |cx, x| cx.op("rsqrt", &[x]))),
    ("aten.reciprocal", |cx, n| float(cx, n, |cx, x| cx.op("div", &[cx.like(x, 1.0)?, x]))),
    ("aten.sin", |cx, n| float(cx, n, |cx, x| cx.op("sin", &[x]))),
    ("aten.cos", |cx, n| float(cx, n, |cx, x| cx.op("cos", &[x]))),
    ("aten.tan", |cx, n| float(cx, n, |cx, x| cx.op("div", &[cx.op("sin", &[x])?, cx.op("cos", &[x])?]))),
    ("aten.tanh", |cx, n| float(cx, n, |cx, x| cx.op("tanh", &[x]))),
    ("aten.erf", |cx, n| float(cx, n, |cx, x| cx.op("erf", &[x]))),
    ("aten.sigmoid", |cx, n| float(cx, n, |cx, x| cx.op("logistic", &[x]))),
    ("aten.silu", |cx, n| float(cx, n, |cx, x| cx.op("mul", &[x, cx.op("logistic", &[x])?]))),
    ("aten.hardsigmoid", |cx, n| float(cx, n, hard_sigmoid)),
    ("aten.hardswish", |cx, n| float(cx, n, |cx, x| cx.op("mul", &[x, hard_sigmoid(cx, x)?]))),
    ("aten.mish", |cx, n| {
        float(cx, n, |cx, x| {
            let soft = softplus_of(cx, x)?;
            cx.op("mul", &[x, cx.op("tanh", &[soft])?])
        })
    }),
    ("aten.softplus", softplus),
    ("aten.gelu", gelu),
    ("aten.leaky_relu", leaky_relu),
    ("aten.elu", elu),
    ("aten.isnan", |cx, n| test(cx, n, |cx, x| cx.compare(direction::NE, x, x))),
    ("aten.isinf", |cx, n| {
        test(cx, n, |cx, x| {
            let magnitude = cx.op("abs", &[x])?;
            cx.compare(direction::EQ, magnitude, cx.like(x, f64::INFINITY)?)
        })
    }),
    ("aten.isfinite", |cx, n| {
        test(cx, n, |cx, x| {
            let magnitude = cx.op("abs", &[x])?;
            cx.compare(direction::LT, magnitude, cx.like(x, f64::INFINITY)?)
        })
    }),
    ("aten.logical_not", |cx, n| {
        let x = cx.cast(cx.tensor(n, "self")?, DType::I1)?;
        one(cx.op("not", &[x])?)
    }),
    ("aten._to_copy", convert),
    ("aten.to", convert),
    ("prims.convert_element_type", |cx, n| {
        let x = cx.tensor(n, "a")?;
        one(converted(cx, x, n.result(0)?.dtype)?)
    }),
    ("aten.copy", |cx, n| {
        let (x, out) = (cx.tensor(n, "src")?, n.result(0)?);
        one(cx.expand(converted(cx, x, out.dtype)?, out.dtype, &out.shape)?)
    }),
    ("aten.native_dropout", dropout),
    ("aten.dropout", |cx, n| match n.flag("train", false)? {
        false => one(cx.tensor(n, "input")?),
        true => Err("dropout is random in training".into()),
    }),
];

/// In the operand's own type.
fn same<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node, f: Function) -> Many<'c, 'a> {
    let x = cx.cast(cx.tensor(n, "self")?, n.result(0)?.dtype)?;
    one(f(cx, x)?)
}

/// In f32 for narrower floats; integers become floats first.
fn float<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node, f: Function) -> Many<'c, 'a> {
    let out = n.result(0)?.dtype;
    let x = cx.cast(cx.tensor(n, "self")?, wide(out))?;
    one(cx.cast(f(cx, x)?, out)?)
}

/// Integers stay as they are.
fn rounding<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node, f: Function) -> Many<'c, 'a> {
    let x = cx.tensor(n, "self")?;
    if cx.ty(x).dtype.is_float() { same(cx, n, f) } else { one(x) }
}

/// A truth value an element. Integers are finite.
fn test<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node, f: Function) -> Many<'c, 'a> {
    let x = cx.tensor(n, "self")?;
    let x = if cx.ty(x).dtype.is_float() { x } else { cx.cast(x, DType::F64)? };
    one(f(cx, x)?)
}

fn scaled<'c, 'a>(cx: &Cx<'c, 'a>, x: Value<'c, 'a>, by: f64) -> One<'c, 'a> {
    cx.op("mul", &[x, cx.like(x, by)?])
}

fn round<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    let decimals = if n.has("decimals") { n.int("decimals")? } else { 0 };
    let x = cx.tensor(n, "self")?;
    if decimals == 0 || !cx.ty(x).dtype.is_float() {
        return rounding(cx, n, |cx, x| cx.op("round", &[x]));
    }
    // As PyTorch does it: by a power of ten up, or down, and back.
    let (there, back) = if decimals > 0 { ("mul", "div") } else { ("div", "mul") };
    let ten = cx.like(x, 10f64.powi(decimals.unsigned_abs().min(400) as i32))?;
    let whole = cx.op("round", &[cx.op(there, &[x, ten])?])?;
    one(cx.op(back, &[whole, ten])?)
}

fn hard_sigmoid<'c, 'a>(cx: &Cx<'c, 'a>, x: Value<'c, 'a>) -> One<'c, 'a> {
    let shifted = cx.op("add", &[x, cx.like(x, 3.0)?])?;
    let clipped = cx.op("min", &[cx.op("max", &[shifted, cx.like(x, 0.0)?])?, cx.like(x, 6.0)?])?;
    cx.op("div", &[clipped, cx.like(x, 6.0)?])
}

/// `log(1 + exp(x))`; above 20 it is x to the last bit of f32.
fn softplus_of<'c, 'a>(cx: &Cx<'c, 'a>, x: Value<'c, 'a>) -> One<'c, 'a> {
    let soft = cx.op("log1p", &[cx.op("exp", &[x])?])?;
    let linear = cx.compare(direction::GT, x, cx.like(x, 20.0)?)?;
    cx.op("select", &[linear, x, soft])
}

fn softplus<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    let (beta, threshold) = (n.float("beta").unwrap_or(1.0), n.float("threshold").unwrap_or(20.0));
    let out = n.result(0)?.dtype;
    let x = cx.cast(cx.tensor(n, "self")?, wide(out))?;
    let b = scaled(cx, x, beta)?;
    let soft = scaled(cx, cx.op("log1p", &[cx.op("exp", &[b])?])?, 1.0 / beta)?;
    let linear = cx.compare(direction::GT, b, cx.like(b, threshold)?)?;
    one(cx.cast(cx.op("select", &[linear, x, soft])?, out)?)
}

fn gelu<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, SQRT_2};
    let out = n.result(0)?.dtype;
    let x = cx.cast(cx.tensor(n, "self")?, wide(out))?;
    let inner = match n.text("approximate").unwrap_or("none") {
        "none" => cx.op("erf", &[scaled(cx, x, FRAC_1_SQRT_2)?])?,
        "tanh" => {
            let cube = cx.op("mul", &[cx.op("mul", &[x, x])?, x])?;
            let sum = cx.op("add", &[x, scaled(cx, cube, 0.044715)?])?;
            cx.op("tanh", &[scaled(cx, sum, SQRT_2 * FRAC_2_SQRT_PI * 0.5)?])?
        }
        other => return Err(format!("gelu with approximate='{other}'").into()),
    };
    let half = scaled(cx, x, 0.5)?;
    let y = cx.op("mul", &[half, cx.op("add", &[inner, cx.like(inner, 1.0)?])?])?;
    one(cx.cast(y, out)?)
}

fn leaky_relu<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    let slope = if n.has("negative_slope") { n.float("negative_slope")? } else { 0.01 };
    let out = n.result(0)?.dtype;
    let x = cx.cast(cx.tensor(n, "self")?, wide(out))?;
    let positive = cx.compare(direction::GT, x, cx.like(x, 0.0)?)?;
    one(cx.cast(cx.op("select", &[positive, x, scaled(cx, x, slope)?])?, out)?)
}

fn elu<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    let get = |key: &str| if n.has(key) { n.float(key) } else { Ok(1.0) };
    let (alpha, scale, input_scale) = (get("alpha")?, get("scale")?, get("input_scale")?);
    let out = n.result(0)?.dtype;
    let x = cx.cast(cx.tensor(n, "self")?, wide(out))?;
    let positive = cx.compare(direction::GT, x, cx.like(x, 0.0)?)?;
    let below = scaled(cx, cx.op("expm1", &[scaled(cx, x, input_scale)?])?, alpha * scale)?;
    one(cx.cast(cx.op("select", &[positive, scaled(cx, x, scale)?, below])?, out)?)
}

fn convert<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    let x = cx.tensor(n, "self")?;
    one(converted(cx, x, n.result(0)?.dtype)?)
}

/// `x` in another type, as `to` makes it: what is below 0 or above 255 goes into `uint8` modulo 256.
fn converted<'c, 'a>(cx: &Cx<'c, 'a>, x: Value<'c, 'a>, to: DType) -> One<'c, 'a> {
    let x = match (cx.ty(x).dtype, to) {
        (DType::F64, DType::U8) => cx.cast(x, DType::I64)?,
        (from, DType::U8) if from.is_float() => cx.cast(x, DType::I32)?,
        _ => x,
    };
    cx.cast(x, to)
}

fn dropout<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    if n.flag("train", true)? && n.float("p")? != 0.0 {
        return Err("dropout is random in training".into());
    }
    let x = cx.tensor(n, "input")?;
    let ones = cx.full(DType::I1, 1.0, &cx.ty(x).shape)?;
    Ok(vec![Some(x), Some(ones)])
}
