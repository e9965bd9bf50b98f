//! Element by element, with two operands or more.

use super::lower::{Cx, Many, One, Refusal, direction, wide};
use super::model::Node;
use super::operand::Operand;
use super::powers;
use super::table::{Entry, one};
use melior::ir::Value;
use strata_dialects::reference::Scalar;
use strata_runtime::DType;

pub const TABLE: &[Entry] = &[
    ("aten.add", |cx, n| add(cx, n, "add")),
    ("aten.sub", |cx, n| add(cx, n, "sub")),
    ("aten.rsub", |cx, n| add(cx, n, "rsub")),
    ("aten.mul", |cx, n| binary(cx, n, |cx, a, b| cx.op("mul", &[a, b]))),
    ("aten.div", div),
    ("aten.true_divide", |cx, n| binary(cx, n, |cx, a, b| cx.op("div", &[a, b]))),
    ("aten.floor_divide", |cx, n| binary(cx, n, floor_div)),
    ("aten.remainder", |cx, n| binary(cx, n, remainder)),
    ("aten.fmod", |cx, n| binary(cx, n, |cx, a, b| cx.op("rem", &[a, b]))),
    ("aten.maximum", |cx, n| binary(cx, n, |cx, a, b| cx.op("max", &[a, b]))),
    ("aten.minimum", |cx, n| binary(cx, n, |cx, a, b| cx.op("min", &[a, b]))),
    ("aten.clamp", clamp),
    ("aten.clamp_min", clamp),
    ("aten.clamp_max", clamp),
    ("aten.hardtanh", hardtanh),
    ("aten.where", select),
    ("aten.eq", |cx, n| compare(cx, n, direction::EQ)),
    ("aten.ne", |cx, n| compare(cx, n, direction::NE)),
    ("aten.lt", |cx, n| compare(cx, n, direction::LT)),
    ("aten.le", |cx, n| compare(cx, n, direction::LE)),
    ("aten.gt", |cx, n| compare(cx, n, direction::GT)),
    ("aten.ge", |cx, n| compare(cx, n, direction::GE)),
    ("aten.logical_and", |cx, n| logical(cx, n, "and")),
    ("aten.logical_or", |cx, n| logical(cx, n, "or")),
    ("aten.logical_xor", |cx, n| logical(cx, n, "xor")),
    ("aten.bitwise_and", |cx, n| binary(cx, n, |cx, a, b| cx.op("and", &[a, b]))),
    ("aten.bitwise_or", |cx, n| binary(cx, n, |cx, a, b| cx.op("or", &[a, b]))),
    ("aten.bitwise_xor", |cx, n| binary(cx, n, |cx, a, b| cx.op("xor", &[a, b]))),
    ("aten.addcmul", |cx, n| addc(cx, n, "mul")),
    ("aten.addcdiv", |cx, n| addc(cx, n, "div")),
];

/// The operands in the result's type and shape. With a number, narrow floats are computed in f32, as PyTorch keeps the number
/// in full precision.
fn operands<'c, 'a>(cx: &Cx<'c, 'a>, n: &Node, keys: &[&str]) -> Result<Vec<Value<'c, 'a>>, Refusal> {
    let out = n.result(0)?;
    let list = keys.iter().map(|k| cx.operand(n, k)).collect::<Result<Vec<_>, _>>()?;
    let dtype = if list.iter().any(Operand::is_number) { wide(out.dtype) } else { out.dtype };
    list.iter().map(|o| cx.fit(o, dtype, &out.shape)).collect()
}

fn binary<'c, 'a>(
    cx: &mut Cx<'c, 'a>,
    n: &Node,
    f: impl Fn(&Cx<'c, 'a>, Value<'c, 'a>, Value<'c, 'a>) -> One<'c, 'a>,
) -> Many<'c, 'a> {
    let x = operands(cx, n, &["self", "other"])?;
    let y = f(cx, x[0], x[1])?;
    one(cx.cast(y, n.result(0)?.dtype)?)
}

fn add<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node, op: &str) -> Many<'c, 'a> {
    let out = n.result(0)?;
    // Reversed, it is the first that alpha scales.
    let (op, keys) = if op == "rsub" { ("sub", ["other", "self"]) } else { (op, ["self", "other"]) };
    let mut list = [cx.operand(n, keys[0])?, cx.operand(n, keys[1])?];
    let alpha = if n.has("alpha") { cx.operand(n, "alpha")? } else { Operand::Number(Scalar::I(1)) };
    let scaled = !matches!(alpha, Operand::Number(Scalar::I(1)) | Operand::Number(Scalar::F(1.0)));
    if op == "sub"
        && !scaled
        && let Some(difference) = powers::less_one(cx, n, keys[0], keys[1])
    {
        return one(difference?);
    }
    let dtype = if scaled || list.iter().any(Operand::is_number) { wide(out.dtype) } else { out.dtype };
    if scaled {
        let y = cx.fit(&list[1], dtype, &out.shape)?;
        list[1] = Operand::Tensor(cx.op("mul", &[y, cx.fit(&alpha, dtype, &out.shape)?])?);
    }
    let [x, y] = [cx.fit(&list[0], dtype, &out.shape)?, cx.fit(&list[1], dtype, &out.shape)?];
    one(cx.cast(cx.op(op, &[x, y])?, out.dtype)?)
}

fn div<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    match n.text("rounding_mode") {
        None => binary(cx, n, |cx, a, b| cx.op("div", &[a, b])),
        Some("floor") => binary(cx, n, floor_div),
        Some("trunc") => binary(cx, n, |cx, a, b| {
            let q = cx.op("div", &[a, b])?;
            if cx.ty(q).dtype.is_float() { truncate(cx, q) } else { Ok(q) }
        }),
        Some(other) => Err(format!("rounding mode {other}").into()),
    }
}

/// Towards zero.
pub fn truncate<'c, 'a>(cx: &Cx<'c, 'a>, x: Value<'c, 'a>) -> One<'c, 'a> {
    let negative = cx.compare(direction::LT, x, cx.like(x, 0.0)?)?;
    cx.op("select", &[negative, cx.op("ceil", &[x])?, cx.op("floor", &[x])?])
}

/// Whether a remainder of truncating division must be corrected to have the divisor's sign.
fn wrong_side<'c, 'a>(cx: &Cx<'c, 'a>, r: Value<'c, 'a>, divisor: Value<'c, 'a>) -> One<'c, 'a> {
    let zero = cx.like(r, 0.0)?;
    let signs =
        cx.op("xor", &[cx.compare(direction::LT, r, zero)?, cx.compare(direction::LT, divisor, zero)?])?;
    cx.op("and", &[signs, cx.compare(direction::NE, r, zero)?])
}

/// The quotient rounded down.
pub fn floor_div<'c, 'a>(cx: &Cx<'c, 'a>, a: Value<'c, 'a>, b: Value<'c, 'a>) -> One<'c, 'a> {
    let r = cx.op("rem", &[a, b])?;
    let wrong = wrong_side(cx, r, b)?;
    let one = cx.like(a, 1.0)?;
    if !cx.ty(a).dtype.is_float() {
        let q = cx.op("div", &[a, b])?;
        return cx.op("select", &[wrong, cx.op("sub", &[q, one])?, q]);
    }
    // As PyTorch does it: from the exact remainder, so that the quotient is not rounded over an integer.
    let q = cx.op("div", &[cx.op("sub", &[a, r])?, b])?;
    let q = cx.op("select", &[wrong, cx.op("sub", &[q, one])?, q])?;
    let floor = cx.op("floor", &[q])?;
    let far = cx.compare(direction::GT, cx.op("sub", &[q, floor])?, cx.like(q, 0.5)?)?;
    let rounded = cx.op("select", &[far, cx.op("add", &[floor, one])?, floor])?;
    let (zero, plain) = (cx.like(b, 0.0)?, cx.op("div", &[a, b])?);
    // A zero has the quotient's sign.
    let signed = cx.op("copysign", &[zero, plain])?;
    let rounded = cx.op("select", &[cx.compare(direction::EQ, q, zero)?, signed, rounded])?;
    cx.op("select", &[cx.compare(direction::EQ, b, zero)?, plain, rounded])
}

fn remainder<'c, 'a>(cx: &Cx<'c, 'a>, a: Value<'c, 'a>, b: Value<'c, 'a>) -> One<'c, 'a> {
    let r = cx.op("rem", &[a, b])?;
    let wrong = wrong_side(cx, r, b)?;
    cx.op("select", &[wrong, cx.op("add", &[r, b])?, r])
}

fn clamp<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    bounds(cx, n, "min", "max")
}

fn hardtanh<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    bounds(cx, n, "min_val", "max_val")
}

fn bounds<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node, low: &str, high: &str) -> Many<'c, 'a> {
    let out = n.result(0)?;
    let mut x = cx.fit(&cx.operand(n, "self")?, out.dtype, &out.shape)?;
    for (key, op) in [(low, "max"), (high, "min")] {
        if n.has(key) {
            let bound = cx.fit(&cx.operand(n, key)?, out.dtype, &out.shape)?;
            x = cx.op(op, &[x, bound])?;
        }
    }
    one(x)
}

fn select<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    let out = n.result(0)?;
    let condition = cx.expand(cx.tensor(n, "condition")?, DType::I1, &out.shape)?;
    let x = cx.fit(&cx.operand(n, "self")?, out.dtype, &out.shape)?;
    let y = cx.fit(&cx.operand(n, "other")?, out.dtype, &out.shape)?;
    one(cx.op("select", &[condition, x, y])?)
}

fn compare<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node, direction: i32) -> Many<'c, 'a> {
    let list = [cx.operand(n, "self")?, cx.operand(n, "other")?];
    let dtype = cx.common_type(&list);
    let shape = &n.result(0)?.shape;
    one(cx.compare(direction, cx.fit(&list[0], dtype, shape)?, cx.fit(&list[1], dtype, shape)?)?)
}

fn logical<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node, op: &str) -> Many<'c, 'a> {
    let shape = &n.result(0)?.shape;
    let x = cx.fit(&cx.operand(n, "self")?, DType::I1, shape)?;
    let y = cx.fit(&cx.operand(n, "other")?, DType::I1, shape)?;
    one(cx.op(op, &[x, y])?)
}

fn addc<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node, op: &str) -> Many<'c, 'a> {
    let out = n.result(0)?;
    let d = wide(out.dtype);
    let [x, y, z] =
        ["self", "tensor1", "tensor2"].map(|k| cx.tensor(n, k).and_then(|t| cx.expand(t, d, &out.shape)));
    let mut product = cx.op(op, &[y?, z?])?;
    if n.has("value") {
        product = cx.op("mul", &[product, cx.fit(&cx.operand(n, "value")?, d, &out.shape)?])?;
    }
    one(cx.cast(cx.op("add", &[x?, product])?, out.dtype)?)
}
