//! Powers, and one less a power.

use super::calc::calculate;
use super::lower::{Cx, Many, One, wide};
use super::model::{Arg, Node};
use super::operand::Operand;
use super::table::{Entry, one};
use melior::ir::Value;
use strata_dialects::reference::Scalar;
use strata_runtime::DType;

pub const TABLE: &[Entry] = &[("aten.pow", pow)];

/// `c ** x` of a number and a tensor.
#[derive(Clone, Copy)]
pub struct Power<'c, 'a> {
    base: f64,
    exponent: Value<'c, 'a>,
    value: Value<'c, 'a>,
}

fn pow<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    let out = n.result(0)?;
    let (base, exponent) = (cx.operand(n, "self")?, cx.operand(n, "exponent")?);
    let dtype = wide(out.dtype);
    let x = cx.fit(&base, dtype, &out.shape)?;
    let e = match exponent {
        Operand::Number(Scalar::F(e)) => Some(e),
        Operand::Number(Scalar::I(e)) => Some(e as f64),
        _ => None,
    };
    let y = match e {
        Some(0.0) => cx.like(x, 1.0)?,
        Some(1.0) => x,
        Some(2.0) => cx.op("mul", &[x, x])?,
        Some(3.0) => cx.op("mul", &[cx.op("mul", &[x, x])?, x])?,
        Some(e) if dtype.is_float() && [0.5, -0.5, -1.0, -2.0].contains(&e) => match e {
            0.5 => cx.op("sqrt", &[x])?,
            -0.5 => cx.op("rsqrt", &[x])?,
            -1.0 => cx.op("div", &[cx.like(x, 1.0)?, x])?,
            _ => cx.op("div", &[cx.like(x, 1.0)?, cx.op("mul", &[x, x])?])?,
        },
        _ => {
            let exponent = cx.fit(&exponent, dtype, &out.shape)?;
            let value = cx.op("pow", &[x, exponent])?;
            if let Operand::Number(Scalar::F(base)) = base
                && (0.0..1.0).contains(&base)
                && base > 0.0
                && matches!(out.dtype, DType::F32 | DType::F64)
            {
                cx.powers.insert(n.name.clone(), Power { base, exponent, value });
            }
            value
        }
    };
    one(cx.cast(y, out.dtype)?)
}

/// The difference `first - second` of operands of `n`, where one is `c ** x` with 0 < c < 1 and the other is 1. Not in strict numerics.
///
/// law: `c ** x - 1 = expm1(x ln c)`, with `ln c` of the number in f64. As written, the difference loses what c loses in f32 and what the power's
/// rounding takes, divided by `1 - c`: in Adam's bias correction with `c = 0.999` the last 10 bits, which eager execution has, as it computes in f64 there.
/// Where `x ln c` is large nothing cancels, and the difference is right as it is.
pub fn less_one<'c, 'a>(cx: &Cx<'c, 'a>, n: &Node, first: &str, second: &str) -> Option<One<'c, 'a>> {
    let power = |key: &str| match n.args.get(key) {
        Some(Arg::Value(name)) => cx.powers.get(name).copied(),
        _ => None,
    };
    let is_one = |key: &str| match n.args.get(key) {
        Some(Arg::Int(i)) => *i == 1,
        Some(Arg::Float(x)) => *x == 1.0,
        _ => false,
    };
    if cx.strict {
        return None;
    }
    let (power, negative) = match (power(first), power(second)) {
        (Some(p), None) if is_one(second) => (p, false),
        (None, Some(p)) if is_one(first) => (p, true),
        _ => return None,
    };
    Some(calculate(cx, [power.exponent, power.value], |[x, p]| {
        let y = x * power.base.ln();
        let less = y.le(1.0).pick(y.op("expm1"), p - 1.0);
        if negative { less.op("neg") } else { less }
    }))
}
