//! Running sums and products.

use super::index::at_least_1d;
use super::lower::{Cx, Many};
use super::model::Node;
use super::table::{Entry, one};
use strata_dialects::Attr;
use strata_runtime::sym::Expr;

pub const TABLE: &[Entry] =
    &[("aten.cumsum", |cx, n| scan(cx, n, kind::SUM)), ("aten.cumprod", |cx, n| scan(cx, n, kind::PROD))];

/// Cases of scan's kind.
mod kind {
    pub const SUM: i32 = 0;
    pub const PROD: i32 = 3;
}

fn scan<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node, kind: i32) -> Many<'c, 'a> {
    let out = n.result(0)?;
    let x = cx.cast(cx.tensor(n, "self")?, out.dtype)?;
    if out.shape.contains(&Expr::from(0)) {
        return one(x);
    }
    let x = at_least_1d(cx, x)?;
    let dim = n.dim("dim", cx.ty(x).rank())?;
    let y = cx.b.graph1("scan", &[x], &[("kind", Attr::Enum(kind)), ("dim", Attr::Int(dim as i64))])?;
    one(cx.reshape(y, &out.shape)?)
}
