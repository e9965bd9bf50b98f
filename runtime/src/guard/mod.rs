//! Guards: what must hold of the arguments for a compiled version to be right, as flat data.
//!
//! A call's [`Signature`] is a list of numbers; a [`Guard`] compares them one by one, without allocation or lock. Why a guard
//! failed is worked out only after it has.

use crate::device::TensorRef;
use crate::dtype::DType;
use crate::plan::{Binding, Plan};
use crate::sym::Expr;

/// What is compared of a call's arguments: for each tensor dtype, rank, sizes, strides; then the integer arguments. Reused from
/// call to call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signature {
    values: Vec<i64>,
}

impl Signature {
    /// Replaces the contents.
    pub fn fill(&mut self, inputs: &[TensorRef<'_>], scalars: &[i64]) {
        self.values.clear();
        self.values.push(inputs.len() as i64);
        for t in inputs {
            self.values.extend([t.dtype as i64, t.shape.len() as i64]);
            self.values.extend_from_slice(t.shape);
            self.values.extend_from_slice(t.strides);
        }
        self.values.push(scalars.len() as i64);
        self.values.extend_from_slice(scalars);
    }

    /// The numbers.
    pub fn values(&self) -> &[i64] {
        &self.values
    }
}

/// One comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Check {
    /// `signature[at] == value`.
    Equal { at: usize, value: i64 },
    /// `signature[at]` lies in a range and is a multiple.
    Range { at: usize, min: i64, max: i64, divisor: i64 },
    /// `signature[at] == signature[other]`.
    Same { at: usize, other: usize },
    /// `signature[at]` is the value of an expression over the symbols.
    Value { at: usize, expr: Expr },
    /// The stride at `at` is that of a row-major tensor, or its size (at `size`) is 1, or the tensor is empty.
    Contiguous { size: usize, rank: usize },
}

/// What a number of the signature is, for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Inputs,
    DType(usize),
    Rank(usize),
    Size(usize, usize),
    Stride(usize, usize),
    Scalars,
    Scalar(usize),
}

/// The condition under which a plan may run.
#[derive(Clone, Debug)]
pub struct Guard {
    checks: Vec<Check>,
    /// Symbol → where its value is in the signature, or the expression that defines it.
    symbols: Vec<Source>,
    parts: Vec<Part>,
    names: Vec<String>,
}

#[derive(Clone, Debug)]
enum Source {
    At(usize),
    Defined(Expr),
}

/// Why a guard failed, and what would relax it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// `parameter %x, dimension 1: expected 8, found 9`.
    pub reason: String,
    /// The cheapest way to make one version serve both.
    pub relaxation: String,
    /// How many comparisons had passed before; the version with the most is the closest.
    pub passed: usize,
}

impl Guard {
    /// The guard of a verified plan: everything that running it would check.
    pub fn of(plan: &Plan) -> Self {
        let mut g =
            Self { checks: Vec::new(), symbols: Vec::new(), parts: vec![Part::Inputs], names: Vec::new() };
        g.checks.push(Check::Equal { at: 0, value: plan.inputs.len() as i64 });
        let mut sizes = Vec::new();
        for (i, input) in plan.inputs.iter().enumerate() {
            let rank = plan.buffers[input.buffer.0 as usize].shape.len();
            g.names.push(input.name.clone());
            sizes.push(g.parts.len() + 2);
            g.parts.extend([Part::DType(i), Part::Rank(i)]);
            g.parts.extend((0..rank).map(|d| Part::Size(i, d)));
            g.parts.extend((0..rank).map(|d| Part::Stride(i, d)));
        }
        let bindings = plan.symbols.iter().map(|s| &s.binding);
        let scalars = bindings.filter_map(|b| if let Binding::Scalar(n) = b { Some(n + 1) } else { None });
        let scalars = scalars.max().unwrap_or(0) as usize;
        let first_scalar = g.parts.len() + 1;
        g.parts.push(Part::Scalars);
        g.parts.extend((0..scalars).map(Part::Scalar));
        let rank_of = |i: usize| plan.buffers[plan.inputs[i].buffer.0 as usize].shape.len();
        for s in &plan.symbols {
            g.symbols.push(match &s.binding {
                Binding::InputDim { input, dim } => Source::At(sizes[*input as usize] + *dim as usize),
                Binding::InputStride { input, dim } => {
                    Source::At(sizes[*input as usize] + rank_of(*input as usize) + *dim as usize)
                }
                Binding::Scalar(n) => Source::At(first_scalar + *n as usize),
                Binding::Defined(e) => Source::Defined(e.clone()),
            });
        }
        // The layout of the signature first: all other places depend on it.
        for (i, input) in plan.inputs.iter().enumerate() {
            let b = &plan.buffers[input.buffer.0 as usize];
            g.checks.push(Check::Equal { at: sizes[i] - 2, value: b.dtype as i64 });
            g.checks.push(Check::Equal { at: sizes[i] - 1, value: b.shape.len() as i64 });
        }
        g.checks.push(Check::Equal { at: first_scalar - 1, value: scalars as i64 });
        for (s, source) in plan.symbols.iter().zip(&g.symbols) {
            let i = &s.info;
            if let Source::At(at) = *source
                && (i.min, i.max, i.divisor) != (0, i64::MAX, 1)
            {
                g.checks.push(Check::Range { at, min: i.min, max: i.max, divisor: i.divisor.max(1) });
            }
        }
        for (i, input) in plan.inputs.iter().enumerate() {
            let b = &plan.buffers[input.buffer.0 as usize];
            let rank = b.shape.len();
            let strides = b.strides.iter().flatten().enumerate().map(|(d, e)| (sizes[i] + rank + d, e));
            for (at, e) in b.shape.iter().enumerate().map(|(d, e)| (sizes[i] + d, e)).chain(strides) {
                let check = match (e.as_const(), e.as_sym().map(|s| &g.symbols[s.0 as usize])) {
                    (Some(value), _) => Check::Equal { at, value },
                    (_, Some(&Source::At(other))) if other == at => continue,
                    (_, Some(&Source::At(other))) => Check::Same { at, other },
                    _ => Check::Value { at, expr: e.clone() },
                };
                g.checks.push(check);
            }
            if b.strides.is_none() && rank > 0 {
                g.checks.push(Check::Contiguous { size: sizes[i], rank });
            }
        }
        g
    }

    /// Whether the plan may run.
    pub fn holds(&self, s: &Signature) -> bool {
        self.checks.iter().all(|c| self.check(c, &s.values))
    }

    fn check(&self, c: &Check, v: &[i64]) -> bool {
        let get = |at: usize| v.get(at).copied();
        match c {
            Check::Equal { at, value } => get(*at) == Some(*value),
            Check::Range { at, min, max, divisor } => {
                get(*at).is_some_and(|x| x >= *min && x <= *max && x % divisor == 0)
            }
            Check::Same { at, other } => get(*at).is_some() && get(*at) == get(*other),
            Check::Value { at, expr } => get(*at).is_some() && get(*at) == self.value(expr, v),
            Check::Contiguous { size, rank } => {
                let Some(both) = v.get(*size..size + 2 * rank) else { return false };
                let (sizes, strides) = both.split_at(*rank);
                let mut expected = 1i64;
                sizes.contains(&0)
                    || sizes.iter().zip(strides).rev().all(|(&n, &s)| {
                        let ok = n == 1 || s == expected;
                        expected = expected.saturating_mul(n);
                        ok
                    })
            }
        }
    }

    /// The value of an expression; the one check that allocates, needed for sizes such as `s0 * 2 + 1` only.
    fn value(&self, e: &Expr, v: &[i64]) -> Option<i64> {
        let mut symbols = Vec::with_capacity(self.symbols.len());
        for s in &self.symbols {
            symbols.push(match s {
                Source::At(at) => *v.get(*at)?,
                Source::Defined(e) => e.eval(&symbols)?,
            });
        }
        e.eval(&symbols)
    }

    /// Why the guard fails; `None` where it holds.
    pub fn explain(&self, s: &Signature) -> Option<Mismatch> {
        let passed = self.checks.iter().position(|c| !self.check(c, &s.values))?;
        let found = |at: usize| s.values.get(at).copied().unwrap_or_default();
        let (at, expected) = match &self.checks[passed] {
            Check::Equal { at, value } => (*at, self.shown(*at, *value)),
            Check::Range { at, min, max, divisor } => {
                let max = if *max == i64::MAX { "inf".into() } else { max.to_string() };
                let step = if *divisor == 1 { String::new() } else { format!(", a multiple of {divisor}") };
                (*at, format!("in [{min}, {max}]{step}"))
            }
            Check::Same { at, other } => (*at, format!("{} as {}", found(*other), self.part(*other))),
            Check::Value { at, expr } => (
                *at,
                match self.value(expr, &s.values) {
                    Some(v) => format!("{expr} = {v}"),
                    None => format!("{expr}, which has no value here"),
                },
            ),
            Check::Contiguous { size, rank } => {
                let strides = s.values.get(size + rank..size + 2 * rank).unwrap_or_default();
                return Some(Mismatch {
                    reason: format!(
                        "parameter %{}: expected contiguous, found strides {strides:?}",
                        self.name(*size)
                    ),
                    relaxation: "pass tensor.contiguous(), or compile for these strides".into(),
                    passed,
                });
            }
        };
        let relaxation = match self.parts.get(at) {
            Some(Part::Size(..)) => "mark the dimension dynamic, or widen its range",
            Some(Part::Stride(..)) => "pass tensor.contiguous(), or compile for these strides",
            Some(Part::DType(_)) => "convert the tensor, or keep a version for each type",
            Some(Part::Scalar(_)) => "widen the range of the argument",
            _ => "compile a version for these arguments",
        };
        let reason = format!("{}: expected {expected}, found {}", self.part(at), self.shown(at, found(at)));
        Some(Mismatch { reason, relaxation: relaxation.into(), passed })
    }

    fn shown(&self, at: usize, value: i64) -> String {
        match self.parts.get(at) {
            Some(Part::DType(_)) => {
                DType::ALL.into_iter().find(|&d| d as i64 == value).map_or("?", DType::name).to_owned()
            }
            _ => value.to_string(),
        }
    }

    fn name(&self, at: usize) -> &str {
        let input = match self.parts.get(at) {
            Some(Part::DType(i) | Part::Rank(i) | Part::Size(i, _) | Part::Stride(i, _)) => *i,
            _ => return "?",
        };
        self.names.get(input).map_or("?", String::as_str)
    }

    fn part(&self, at: usize) -> String {
        match self.parts.get(at) {
            Some(Part::Inputs) => "number of tensors".into(),
            Some(Part::DType(_)) => format!("parameter %{}, element type", self.name(at)),
            Some(Part::Rank(_)) => format!("parameter %{}, rank", self.name(at)),
            Some(Part::Size(_, d)) => format!("parameter %{}, dimension {d}", self.name(at)),
            Some(Part::Stride(_, d)) => format!("parameter %{}, stride of dimension {d}", self.name(at)),
            Some(Part::Scalars) => "number of integer arguments".into(),
            Some(Part::Scalar(n)) => format!("integer argument {n}"),
            None => "signature".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::DevicePtr;

    const PLAN: &str = "plan @g on cpu {
      symbol s0 \"n\" in [1, 64] step 2 = dim 0 of input 0
      symbol s1 \"twice\" in [0, inf] = s0 * 2
      symbol s2 \"k\" in [3, 5] = scalar 0
      input %x = b0
      input %y = b1
      buffer b0 : f32[s0, 3] = input 0
      buffer b1 : bf16[s0, s1] strides [1, s0] = input 1
      arena 0 bytes
    }";

    type Sizes<'a> = (&'a [i64], &'a [i64]);

    fn check(x: Sizes<'_>, y: Sizes<'_>, dtype: DType, scalars: &[i64]) -> Option<String> {
        let guard = Guard::of(&PLAN.parse().unwrap());
        let t = |(shape, strides), dtype| TensorRef { ptr: DevicePtr::NULL, dtype, shape, strides };
        let mut s = Signature::default();
        s.fill(&[t(x, dtype), t(y, DType::BF16)], scalars);
        let e = guard.explain(&s);
        assert_eq!(guard.holds(&s), e.is_none());
        e.map(|m| m.reason)
    }

    #[test]
    fn guards_hold_or_say_why() {
        let (x, y): (Sizes<'_>, Sizes<'_>) = ((&[4, 3], &[3, 1]), (&[4, 8], &[1, 4]));
        let f = DType::F32;
        assert_eq!(check(x, y, f, &[3]), None);
        let cases = [
            (check(x, y, DType::F64, &[3]), "parameter %x, element type: expected f32, found f64"),
            (check((&[4], &[1]), y, f, &[3]), "parameter %x, rank: expected 2, found 1"),
            (
                check((&[5, 3], &[3, 1]), y, f, &[3]),
                "parameter %x, dimension 0: expected in [1, 64], a multiple of 2, found 5",
            ),
            (check((&[4, 2], &[2, 1]), y, f, &[3]), "parameter %x, dimension 1: expected 3, found 2"),
            (
                check((&[4, 3], &[1, 4]), y, f, &[3]),
                "parameter %x: expected contiguous, found strides [1, 4]",
            ),
            (
                check(x, (&[6, 8], &[1, 4]), f, &[3]),
                "parameter %y, dimension 0: expected 4 as parameter %x, dimension 0, found 6",
            ),
            (check(x, (&[4, 9], &[1, 4]), f, &[3]), "parameter %y, dimension 1: expected s1 = 8, found 9"),
            (
                check(x, (&[4, 8], &[2, 8]), f, &[3]),
                "parameter %y, stride of dimension 0: expected 1, found 2",
            ),
            (check(x, y, f, &[6]), "integer argument 0: expected in [3, 5], found 6"),
            (check(x, y, f, &[]), "number of integer arguments: expected 1, found 0"),
        ];
        for (found, expected) in cases {
            assert_eq!(found.as_deref(), Some(expected));
        }
    }
}
