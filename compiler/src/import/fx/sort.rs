//! Sorts, and what is picked from a sorted dimension: the k largest or smallest, the k-th, the median.

use super::index::at_least_1d;
use super::lower::{Cx, Many, One, Refusal, direction, kind};
use super::model::Node;
use super::table::{Entry, one};
use melior::ir::Value;
use strata_dialects::Attr;
use strata_runtime::DType;
use strata_runtime::sym::Expr;

pub const TABLE: &[Entry] = &[
    ("aten.sort", |cx, n| {
        let sorted = sort(cx, n, n.flag("descending", false)?)?;
        sorted.results(cx, n, Pick::All)
    }),
    ("aten.argsort", |cx, n| {
        let sorted = sort(cx, n, n.flag("descending", false)?)?;
        one(cx.reshape(sorted.places, &n.result(0)?.shape)?)
    }),
    ("aten.msort", |cx, n| {
        let x = at_least_1d(cx, cx.tensor(n, "self")?)?;
        let sorted = Sorted::of(cx, x, 0, false)?;
        one(cx.reshape(sorted.values, &n.result(0)?.shape)?)
    }),
    ("aten.topk", |cx, n| {
        let k = n.size("k")?;
        let sorted = sort(cx, n, n.flag("largest", true)?)?;
        sorted.results(cx, n, Pick::Range(0.into(), k))
    }),
    ("aten.kthvalue", |cx, n| {
        let k = n.size("k")?;
        let sorted = sort(cx, n, false)?;
        sorted.results(cx, n, Pick::Range(k.clone() - Expr::from(1), k))
    }),
    ("aten.median", |cx, n| median(cx, n, false)),
    ("aten.nanmedian", |cx, n| median(cx, n, true)),
];

/// The longest row that a block of threads sorts: what fits its shared memory. PyTorch's radix sorts go over longer ones with all of a GPU.
const GPU_ROW: i64 = 12 * 1024;

/// The longest row that is sorted on a processor for the sake of a few of its elements: PyTorch selects them without sorting the rest,
/// which at 1000 elements takes a quarter of the time.
const CPU_PICK: i64 = 128;

/// Whether rows are so long that PyTorch's own kernels are better: they are then called as a library's are.
pub fn left_to_library(cx: &Cx<'_, '_>, n: &Node) -> bool {
    let picks = match n.base() {
        "aten.sort" | "aten.argsort" | "aten.msort" => false,
        "aten.topk" | "aten.kthvalue" | "aten.median" | "aten.nanmedian" => true,
        _ => return false,
    };
    let most = match (cx.gpu, picks) {
        (true, _) => GPU_ROW,
        (false, true) => CPU_PICK,
        (false, false) => return false,
    };
    let Ok(x) = cx.tensor(n, "self") else { return false };
    let shape = cx.ty(x).shape;
    let whole = picks && !n.has("dim") && n.base().ends_with("median");
    let size = match shape.len() {
        0 => return false,
        _ if whole => shape.iter().cloned().product(),
        _ if n.base() == "aten.msort" => shape[0].clone(),
        rank if !n.has("dim") => shape[rank - 1].clone(),
        rank => match n.dim("dim", rank) {
            Ok(d) => shape[d].clone(),
            Err(_) => return false,
        },
    };
    let hints: Vec<i64> = cx.sizes.symbols().iter().map(|s| s.info.hint.unwrap_or(0)).collect();
    size.eval(&hints).is_some_and(|length| length > most)
}

/// A tensor that was sorted.
struct Sorted<'c, 'a> {
    /// What was sorted.
    source: Value<'c, 'a>,
    /// The elements in order.
    values: Value<'c, 'a>,
    /// The positions they had.
    places: Value<'c, 'a>,
    /// The dimension.
    dim: usize,
}

/// Which of the elements of a sorted dimension are results.
enum Pick {
    All,
    Range(Expr, Expr),
}

/// Sorts the operand of a node along its dimension, the last where it names none.
fn sort<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node, descending: bool) -> Result<Sorted<'c, 'a>, Refusal> {
    let x = at_least_1d(cx, cx.tensor(n, "self")?)?;
    let rank = cx.ty(x).rank();
    let dim = if n.has("dim") { n.dim("dim", rank)? } else { rank - 1 };
    Sorted::of(cx, x, dim, descending)
}

impl<'c, 'a> Sorted<'c, 'a> {
    fn of(cx: &Cx<'c, 'a>, source: Value<'c, 'a>, dim: usize, descending: bool) -> Result<Self, Refusal> {
        let attrs = [("dim", Attr::Int(dim as i64)), ("descending", Attr::Bool(descending))];
        let sorted = cx.b.graph("sort", &[source], &attrs)?;
        Ok(Self { source, values: sorted[0], places: sorted[1], dim })
    }

    /// Elements and positions as results of a node.
    fn results(&self, cx: &Cx<'c, 'a>, n: &Node, pick: Pick) -> Many<'c, 'a> {
        let part = |v: Value<'c, 'a>, i: usize| {
            let v = match &pick {
                Pick::All => v,
                Pick::Range(from, to) => cx.slice(v, self.dim, from, to, 1)?,
            };
            cx.reshape(v, &n.result(i)?.shape)
        };
        with_places(n, part(self.values, 0)?, |i| part(self.places, i))
    }

    /// One element of each row.
    fn at(&self, cx: &Cx<'c, 'a>, v: Value<'c, 'a>, i: &Expr) -> One<'c, 'a> {
        cx.slice(v, self.dim, i, &(i.clone() + Expr::from(1)), 1)
    }
}

/// The results of a node: values, and positions where it has them.
fn with_places<'c, 'a>(
    n: &Node,
    values: Value<'c, 'a>,
    places: impl Fn(usize) -> One<'c, 'a>,
) -> Many<'c, 'a> {
    let mut results = vec![Some(values)];
    if n.out.len() > 1 {
        results.push(Some(places(1)?));
    }
    Ok(results)
}

/// Which elements are no numbers.
fn no_number<'c, 'a>(cx: &Cx<'c, 'a>, x: Value<'c, 'a>) -> One<'c, 'a> {
    cx.compare(direction::NE, x, x)
}

/// The lower median of a dimension or of everything: NaN where an element is, or of the others.
fn median<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node, others: bool) -> Many<'c, 'a> {
    let sorted = if n.has("dim") {
        sort(cx, n, false)?
    } else {
        let x = cx.tensor(n, "self")?;
        let all = cx.sizes.affine(&cx.ty(x).numel());
        Sorted::of(cx, cx.reshape(x, &[all])?, 0, false)?
    };
    let ty = cx.ty(sorted.values);
    let size = ty.shape[sorted.dim].clone();
    if size == Expr::from(0) {
        return Err("the median of nothing".into());
    }
    let last = size - Expr::from(1);
    let middle = last.floor_div(&2.into());
    let (values, places) = if !ty.dtype.is_float() {
        (sorted.at(cx, sorted.values, &middle)?, sorted.at(cx, sorted.places, &middle)?)
    } else if others {
        // As many from the end as there are of these, NaN comes last: one of each row is left, and the rest does not count.
        let absent = cx.cast(no_number(cx, sorted.source)?, DType::I64)?;
        let absent = cx.reduce_back(kind::SUM, absent, &[sorted.dim])?;
        let last = cx.expand(cx.size(&last)?, DType::I64, &ty.shape)?;
        let (zero, two) = (cx.like(last, 0.0)?, cx.like(last, 2.0)?);
        let present = cx.op("max", &[cx.op("sub", &[last, absent])?, zero])?;
        let middle = cx.op("div", &[present, two])?;
        let here = cx.compare(direction::EQ, cx.iota(&ty.shape, sorted.dim)?, middle)?;
        let only = |v| cx.reduce(kind::SUM, cx.op("select", &[here, v, cx.like(v, 0.0)?])?, &[sorted.dim]);
        (only(sorted.values)?, only(sorted.places)?)
    } else {
        let spoiled = no_number(cx, sorted.at(cx, sorted.values, &last)?)?;
        let pick = |v, other| {
            let v = sorted.at(cx, v, &middle)?;
            cx.op("select", &[spoiled, cx.reshape(other, &cx.ty(v).shape)?, v])
        };
        let values = pick(sorted.values, sorted.at(cx, sorted.values, &last)?)?;
        let attrs = [("kind", Attr::Enum(0)), ("dim", Attr::Int(sorted.dim as i64))];
        // The first of those that are no numbers.
        let first = cx.b.graph1("arg_reduce", &[sorted.source], &attrs)?;
        (values, pick(sorted.places, first)?)
    };
    with_places(n, cx.reshape(values, &n.result(0)?.shape)?, |i| cx.reshape(places, &n.result(i)?.shape))
}
