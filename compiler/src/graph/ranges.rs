//! What is known of the integers that a graph computes: bounds over the symbols, from the ops that make them.

use crate::interp::symbols::symbols_of;
use crate::ir;
use crate::loops::index::Facts;
use melior::ir::operation::{OperationLike, OperationRef};
use melior::ir::{Value, ValueLike};
use std::collections::BTreeMap;
use strata_dialects::build::definition;
use strata_dialects::{Attr, OpView};
use strata_runtime::DType;
use strata_runtime::sym::Expr;

/// Constants with more elements are not looked through.
const MOST_ELEMENTS: i64 = 1 << 16;

/// Bounds, inclusive, where they are known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Range {
    low: Option<Expr>,
    high: Option<Expr>,
}

impl Range {
    fn known(low: impl Into<Expr>, high: impl Into<Expr>) -> Self {
        Self { low: Some(low.into()), high: Some(high.into()) }
    }

    /// The positions along a dimension.
    fn below(size: &Expr) -> Self {
        Self::known(0, size.clone() - Expr::from(1))
    }

    /// Bounds from both lows and both highs, where they are known.
    fn both(
        &self,
        other: &Self,
        low: impl Fn(&Expr, &Expr) -> Expr,
        high: impl Fn(&Expr, &Expr) -> Expr,
    ) -> Self {
        let each = |a: &Option<Expr>, b: &Option<Expr>, f: &dyn Fn(&Expr, &Expr) -> Expr| {
            a.as_ref().zip(b.as_ref()).map(|(a, b)| f(a, b))
        };
        Self { low: each(&self.low, &other.low, &low), high: each(&self.high, &other.high, &high) }
    }

    /// What is one or the other.
    fn either(&self, other: &Self) -> Self {
        self.both(other, |a, b| a.minimum(b), |a, b| a.maximum(b))
    }
}

/// The ranges of a function's values.
pub struct Ranges<'c, 'a> {
    facts: Facts,
    known: BTreeMap<usize, Range>,
    lifetime: std::marker::PhantomData<Value<'c, 'a>>,
}

impl<'c: 'a, 'a> Ranges<'c, 'a> {
    /// Of the values of a function.
    pub fn of(function: OperationRef<'c, 'a>) -> Result<Self, String> {
        let symbols: Vec<_> = symbols_of(&function)?.into_iter().map(|f| f.symbol).collect();
        Ok(Self { facts: Facts::new(&symbols), known: BTreeMap::new(), lifetime: std::marker::PhantomData })
    }

    /// Whether every element of `v` is known to be in `0..size`.
    pub fn within(&mut self, v: Value<'c, 'a>, size: &Expr) -> bool {
        let Range { low: Some(low), high: Some(high) } = self.range(v) else { return false };
        self.facts.nonnegative(&low)
            && self.facts.nonnegative(&self.facts.simplify(&(size.clone() - Expr::from(1) - high)))
    }

    /// What is known of a value's elements.
    pub fn range(&mut self, v: Value<'c, 'a>) -> Range {
        let key = v.to_raw().ptr as usize;
        if let Some(r) = self.known.get(&key) {
            return r.clone();
        }
        let range = definition(v)
            .filter(|op| ir::name(op).starts_with("graph."))
            .and_then(|op| Some((op, OpView::new(&op).ok()?)))
            .map_or_else(Range::default, |(op, view)| self.result(op, &view, v));
        self.known.insert(key, range.clone());
        range
    }

    /// The range of a result that would wrap around where it did not fit its type: nothing, unless both ends are known and fit. (Sizes, and
    /// so positions, fit 64 bits.)
    fn whole(&self, r: Range, dtype: DType) -> Range {
        let most = match dtype {
            DType::I64 => i64::MAX,
            DType::I32 => i32::MAX.into(),
            DType::I16 => i16::MAX.into(),
            DType::I8 => i8::MAX.into(),
            _ => return Range::default(),
        };
        let (Some(low), Some(high)) = (&r.low, &r.high) else { return Range::default() };
        let (least, highest) = (self.facts.interval(low).0, self.facts.interval(high).1);
        let fits =
            dtype == DType::I64 || least.is_some_and(|l| l >= -most) && highest.is_some_and(|h| h <= most);
        if fits { r } else { Range::default() }
    }

    fn result(&mut self, op: OperationRef<'c, 'a>, view: &OpView, v: Value<'c, 'a>) -> Range {
        let number = op.results().position(|r| r.to_raw().ptr == v.to_raw().ptr);
        let Some(result) = number.map(|n| &view.results[n]).filter(|t| !t.dtype.is_float()) else {
            return Range::default();
        };
        let operands: Vec<Value<'c, 'a>> = op.operands().collect();
        let mut of = |i: usize| self.range(operands[i]);
        match view.spec.mnemonic() {
            "constant" => constant(view),
            "dim" => {
                let size = &view.dims("expr")[0];
                self.whole(Range::known(size.clone(), size.clone()), result.dtype)
            }
            "iota" => self.whole(Range::below(&result.shape[view.int("dim") as usize]), result.dtype),
            "check_index" => Range::below(&view.dims("size")[0]),
            "arg_reduce" => Range::below(&view.operands[0].shape[view.int("dim") as usize]),
            "sort" if number == Some(1) => Range::below(&view.operands[0].shape[view.int("dim") as usize]),
            "sort" | "broadcast" | "reshape" | "transpose" | "slice" | "gather" => of(0),
            "concat" => {
                let mut all = (0..operands.len()).map(of);
                let first = all.next().unwrap_or_default();
                all.fold(first, |a, b| a.either(&b))
            }
            "pad" => of(0).either(&of(1)),
            "select" => {
                let (a, b) = (of(1), of(2));
                a.either(&b)
            }
            "add" => {
                let sum = |a: &Expr, b: &Expr| a.clone() + b.clone();
                let r = of(0).both(&of(1), sum, sum);
                self.whole(r, result.dtype)
            }
            "sub" => {
                let (a, b) = (of(0), of(1));
                let b = Range { low: b.high, high: b.low };
                let difference = |a: &Expr, b: &Expr| a.clone() - b.clone();
                self.whole(a.both(&b, difference, difference), result.dtype)
            }
            "mul" => {
                let (a, b) = (of(0), of(1));
                let positive = |r: &Range| r.low.as_ref().is_some_and(|l| self.facts.nonnegative(l));
                if !positive(&a) || !positive(&b) {
                    return Range::default();
                }
                let product = |a: &Expr, b: &Expr| a.clone() * b.clone();
                self.whole(a.both(&b, product, product), result.dtype)
            }
            "min" => {
                let (a, b) = (of(0), of(1));
                let both = a.both(&b, |a, b| a.minimum(b), |a, b| a.minimum(b));
                Range { high: both.high.or(a.high).or(b.high), ..both }
            }
            "max" => {
                let (a, b) = (of(0), of(1));
                let both = a.both(&b, |a, b| a.maximum(b), |a, b| a.maximum(b));
                Range { low: both.low.or(a.low).or(b.low), ..both }
            }
            "cast" => match view.operands[0].dtype {
                DType::I1 => Range::known(0, 1),
                DType::U8 if result.dtype.size() > 1 => Range::known(0, 255),
                from if !from.is_float()
                    && ![from, result.dtype].contains(&DType::U8)
                    && from.size() <= result.dtype.size() =>
                {
                    of(0)
                }
                _ => Range::default(),
            },
            _ => Range::default(),
        }
    }
}

fn constant(view: &OpView) -> Range {
    let few = view.results[0].numel().as_const().is_some_and(|n| (1..=MOST_ELEMENTS).contains(&n));
    let Some(Attr::Elements(e)) = view.attr("value").filter(|_| few) else { return Range::default() };
    let Ok(t) = e.tensor() else { return Range::default() };
    let all = || (0..t.len()).map(|i| t.get(i).i());
    match (all().min(), all().max()) {
        (Some(low), Some(high)) => Range::known(low, high),
        _ => Range::default(),
    }
}
