//! Moves on sizes and element types. They work on the printed program: there a number stands in every place that must agree with the
//! others (types, slices, loop bounds), whatever the level, and all of them change together.

use super::Places;
use std::ops::Range;

/// A size in a text: where, and which.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Number {
    pub(crate) at: Range<usize>,
    pub(crate) value: u64,
}

/// How a size may change: it alone, or all its multiples in proportion.
fn changed(value: u64, base: u64, to: u64, multiples: bool) -> Option<u64> {
    match multiples {
        false => (value == base).then_some(to),
        true => (value != 0 && value.is_multiple_of(base)).then(|| value / base * to),
    }
}

/// Largest sizes first; each to 1, 2, 4, half of it.
pub(super) fn shrink(text: &str, places: &mut Places) -> Option<String> {
    let numbers = numbers(text);
    let mut sizes: Vec<u64> = numbers.iter().map(|n| n.value).filter(|n| *n > 1).collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    sizes.dedup();
    let mut out = None;
    for base in sizes {
        for (i, to) in [1, 2, 4, base / 2].into_iter().enumerate() {
            let repeated = i == 3 && to <= 4;
            for multiples in [false, true] {
                if to < base && !repeated && places.take() {
                    out = Some(rewrite(text, &numbers, |n| changed(n, base, to, multiples)));
                }
            }
        }
    }
    out
}

fn rewrite(text: &str, numbers: &[Number], f: impl Fn(u64) -> Option<u64>) -> String {
    let mut out = String::new();
    let mut done = 0;
    for number in numbers {
        if let Some(value) = f(number.value) {
            out += &text[done..number.at.start];
            out += &value.to_string();
            done = number.at.end;
        }
    }
    out + &text[done..]
}

/// The sizes in a program: in shapes, in lists of size expressions, in bounds of loops and constants of type `index`.
pub(crate) fn numbers(text: &str) -> Vec<Number> {
    let mut out = Vec::new();
    for shape in ["tensor<", "memref<", "vector<"] {
        for (at, _) in text.match_indices(shape) {
            in_shape(text, at + shape.len(), &mut out);
        }
    }
    for (open, close) in [("#graph.dims<", '>'), (" <", '>'), ("= <", '>'), (" in (", ')'), (" to (", ')')] {
        for (at, _) in text.match_indices(open) {
            let start = at + open.len();
            let end = start + text[start..].find([close, '\n']).unwrap_or(0);
            in_list(text, start..end, &mut out);
        }
    }
    for (at, constant) in text.match_indices("arith.constant ") {
        let start = at + constant.len();
        let end = start + text[start..].find('\n').unwrap_or(0);
        if text[start..end].ends_with(" : index") {
            in_list(text, start..end, &mut out);
        }
    }
    out.sort_by_key(|n| n.at.start);
    out.dedup();
    out
}

/// `4x?x8xf32`.
fn in_shape(text: &str, mut at: usize, out: &mut Vec<Number>) {
    loop {
        let rest = &text[at..];
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let length = if rest.starts_with('?') { 1 } else { digits };
        if length == 0 || !rest[length..].starts_with('x') {
            return;
        }
        if let Ok(value) = rest[..digits].parse() {
            out.push(Number { at: at..at + digits, value });
        }
        at += length + 1;
    }
}

/// Numbers that are not part of a name such as `s0` or `%c4`.
fn in_list(text: &str, range: Range<usize>, out: &mut Vec<Number>) {
    let bytes = text.as_bytes();
    let mut at = range.start;
    while at < range.end {
        let word = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'%' | b'.' | b'#');
        let start = at;
        while at < range.end && word(bytes[at]) {
            at += 1;
        }
        if let Ok(value) = text[start..at].parse() {
            out.push(Number { at: start..at, value });
        }
        at = at.max(start + 1);
    }
}

const SIMPLER: [(&str, &str); 5] =
    [("f64", "f32"), ("bf16", "f32"), ("f16", "f32"), ("i64", "i32"), ("i8", "i32")];

pub(super) fn simplify_dtypes(text: &str, places: &mut Places) -> Option<String> {
    let mut out = None;
    for (from, to) in SIMPLER {
        let found = element_types(text, from);
        if !found.is_empty() && places.take() {
            let mut new = text.to_owned();
            for at in found.into_iter().rev() {
                new.replace_range(at..at + from.len(), to);
            }
            out = Some(new);
        }
    }
    out
}

/// How many element types could be simpler.
pub(crate) fn odd_dtypes(text: &str) -> usize {
    SIMPLER.iter().map(|(from, _)| element_types(text, from).len()).sum()
}

/// Where an element type stands, alone or behind the sizes of a shape.
fn element_types(text: &str, name: &str) -> Vec<usize> {
    let bytes = text.as_bytes();
    let alone = |at: usize| {
        let before = at.checked_sub(1).map_or(b' ', |i| bytes[i]);
        let after = bytes.get(at + name.len()).copied().unwrap_or(b' ');
        let starts = !before.is_ascii_alphanumeric() && !matches!(before, b'_' | b'%' | b'@')
            || before == b'x' && at > 1 && (bytes[at - 2].is_ascii_digit() || bytes[at - 2] == b'?');
        starts && !after.is_ascii_alphanumeric() && after != b'_'
    };
    text.match_indices(name).map(|(at, _)| at).filter(|at| alone(*at)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<u64> {
        numbers(text).into_iter().map(|n| n.value).collect()
    }

    #[test]
    fn sizes_are_found_and_nothing_else() {
        assert_eq!(
            values("%32 = graph.exp %31 : tensor<4x?x8xf32, #graph.dims<4, s0 + 2, 8>>"),
            [4, 8, 4, 2, 8]
        );
        assert_eq!(
            values("graph.slice %3 from <0, 32> to <s0, 64> by [1, 1] : (tensor<7xf64>)"),
            [0, 32, 64, 7]
        );
        assert_eq!(values("dims = [3] epsilon = 1.0e-05 : tensor<f32>"), Vec::<u64>::new());
        assert_eq!(values("%c64 = arith.constant 64 : index\n%c = arith.constant 3 : i32\n"), [64]);
        assert_eq!(values("scf.forall (%arg2) in (2048) {"), [2048]);
        assert_eq!(values("dense<5> : tensor<i64>"), Vec::<u64>::new());
    }

    #[test]
    fn multiples_shrink_together() {
        let text = "(tensor<32xf32>) -> tensor<4x8xf32>";
        let numbers = numbers(text);
        let all = |base, to| rewrite(text, &numbers, |n| changed(n, base, to, true));
        assert_eq!(all(8, 2), "(tensor<8xf32>) -> tensor<4x2xf32>");
        let one = rewrite(text, &numbers, |n| changed(n, 32, 1, false));
        assert_eq!(one, "(tensor<1xf32>) -> tensor<4x8xf32>");
    }

    #[test]
    fn element_types_are_whole_words() {
        let text = "%f16 : tensor<2xf16>, tensor<bf16>, f16, memref<?xbf16>";
        assert_eq!(element_types(text, "f16").len(), 2);
        assert_eq!(element_types(text, "bf16").len(), 2);
        let mut places = Places::new(0..1);
        let simple = simplify_dtypes(text, &mut places).unwrap();
        assert_eq!(simple, "%f16 : tensor<2xf16>, tensor<f32>, f16, memref<?xf32>");
        assert_eq!(places.met(), 2);
    }
}
