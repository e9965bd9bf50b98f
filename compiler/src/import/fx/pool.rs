//! Pooling.

use super::lower::{Cx, Many, One, Refusal, kind, wide};
use super::model::{Meta, Node};
use super::table::{Entry, one};
use melior::ir::Value;
use strata_dialects::Attr;
use strata_runtime::DType;

pub const TABLE: &[Entry] = &[
    ("aten.max_pool2d_with_indices", max_pool),
    ("aten.max_pool3d_with_indices", max_pool),
    ("aten.avg_pool1d", |cx, n| average_pool(cx, n, 1)),
    ("aten.avg_pool2d", |cx, n| average_pool(cx, n, 2)),
    ("aten.avg_pool3d", |cx, n| average_pool(cx, n, 3)),
    ("aten._adaptive_avg_pool2d", adaptive),
];

/// The windows of a pooling over the last dimensions.
struct Window {
    size: Vec<i64>,
    stride: Vec<i64>,
    padding: Vec<i64>,
    dilation: Vec<i64>,
    /// Padding after, with what rounding up adds.
    high: Vec<i64>,
}

impl Window {
    fn of(
        n: &Node,
        out: &Meta,
        shape: &[strata_runtime::sym::Expr],
        spatial: usize,
    ) -> Result<Self, Refusal> {
        let size = n.spatial("kernel_size", spatial, 1)?;
        let stride = match n.ints("stride")?.is_empty() {
            true => size.clone(),
            false => n.spatial("stride", spatial, 1)?,
        };
        let padding = n.spatial("padding", spatial, 0)?;
        let dilation = n.spatial("dilation", spatial, 1)?;
        let mut high = padding.clone();
        if n.flag("ceil_mode", false)? {
            let rank = out.shape.len();
            for d in 0..spatial {
                let at = rank - spatial + d;
                let (Some(count), Some(extent)) = (out.shape[at].as_const(), shape[at].as_const()) else {
                    return Err("rounding up with a dynamic size".into());
                };
                let needed = (count - 1) * stride[d] + dilation[d] * (size[d] - 1) + 1;
                high[d] = (needed - extent - padding[d]).max(0);
            }
        }
        Ok(Self { size, stride, padding, dilation, high })
    }

    fn reduce<'c, 'a>(&self, cx: &Cx<'c, 'a>, x: Value<'c, 'a>, kind: i32) -> One<'c, 'a> {
        let rank = cx.ty(x).rank();
        let all =
            |list: &[i64], rest: i64| Attr::Ints([vec![rest; rank - list.len()], list.to_vec()].concat());
        let attrs = [
            ("kind", Attr::Enum(kind)),
            ("window", all(&self.size, 1)),
            ("strides", all(&self.stride, 1)),
            ("low", all(&self.padding, 0)),
            ("high", all(&self.high, 0)),
            ("dilation", all(&self.dilation, 1)),
        ];
        Ok(cx.b.graph1("reduce_window", &[x], &attrs)?)
    }
}

fn max_pool<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    if !n.only_first() {
        return Err("the positions of the largest elements are used".into());
    }
    let x = cx.tensor(n, "self")?;
    let spatial = if n.base().contains("2d") { 2 } else { 3 };
    let window = Window::of(n, n.result(0)?, &cx.ty(x).shape, spatial)?;
    Ok(vec![Some(window.reduce(cx, x, kind::MAX)?), None])
}

fn average_pool<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node, spatial: usize) -> Many<'c, 'a> {
    let x = cx.tensor(n, "self")?;
    let out = n.result(0)?;
    let window = Window::of(n, out, &cx.ty(x).shape, spatial)?;
    let d = wide(out.dtype);
    let sum = window.reduce(cx, cx.cast(x, d)?, kind::SUM)?;
    let padded = window.padding.iter().any(|&p| p > 0);
    let count = if n.has("divisor_override") {
        cx.like(sum, n.float("divisor_override")?)?
    } else if window.high != window.padding {
        return Err("windows that rounding up lets hang over".into());
    } else if padded && !n.flag("count_include_pad", true)? {
        let ones = cx.like(cx.cast(x, d)?, 1.0)?;
        window.reduce(cx, ones, kind::SUM)?
    } else {
        cx.like(sum, window.size.iter().product::<i64>() as f64)?
    };
    one(cx.cast(cx.op("div", &[sum, count])?, out.dtype)?)
}

fn adaptive<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    let x = cx.tensor(n, "self")?;
    let (ty, out) = (cx.ty(x), n.result(0)?);
    let mut size = Vec::new();
    for d in ty.rank() - 2..ty.rank() {
        match (ty.shape[d].as_const(), out.shape[d].as_const()) {
            (Some(from), Some(to)) if to > 0 && from % to == 0 => size.push(from / to),
            _ => return Err("windows of different sizes".into()),
        }
    }
    let zero = vec![0; 2];
    let window =
        Window { stride: size.clone(), padding: zero.clone(), dilation: vec![1; 2], high: zero, size };
    let d: DType = wide(out.dtype);
    let sum = window.reduce(cx, cx.cast(x, d)?, kind::SUM)?;
    let count = cx.like(sum, window.size.iter().product::<i64>() as f64)?;
    one(cx.cast(cx.op("div", &[sum, count])?, out.dtype)?)
}
