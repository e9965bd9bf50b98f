//! Where intermediate buffers lie: slots of one arena, reused when nothing reads them any more.

use std::collections::BTreeMap;
use strata_runtime::sym::Expr;

/// Alignment of every slot, in bytes.
pub const ALIGNMENT: i64 = 256;

/// A buffer that needs memory from step `first` to step `last`, both included.
#[derive(Clone, Debug)]
pub struct Interval {
    /// The step that writes it.
    pub first: usize,
    /// The last step that reads it.
    pub last: usize,
    /// Bytes.
    pub bytes: Expr,
}

/// Offsets of the intervals, in order, and the size of the arena.
///
/// Buffers of fixed size are packed: each takes the lowest place that is free for its whole life, large ones first. A buffer of
/// symbolic size reuses a slot of the same size, or gets one of its own behind them.
pub fn place(intervals: &[Interval]) -> (Vec<Expr>, Expr) {
    let mut offsets = vec![Expr::from(0); intervals.len()];
    let fixed_end = place_fixed(intervals, &mut offsets);
    let mut slots: BTreeMap<Expr, Vec<(usize, Expr)>> = BTreeMap::new();
    let mut end = Expr::from(fixed_end);
    let mut order: Vec<usize> =
        (0..intervals.len()).filter(|&i| intervals[i].bytes.as_const().is_none()).collect();
    order.sort_by_key(|&i| (intervals[i].first, i));
    for i in order {
        let interval = &intervals[i];
        let size = interval.bytes.align_to(ALIGNMENT);
        let list = slots.entry(size.clone()).or_default();
        match list.iter_mut().find(|(busy_until, _)| *busy_until < interval.first) {
            Some((busy_until, offset)) => {
                *busy_until = interval.last;
                offsets[i] = offset.clone();
            }
            None => {
                offsets[i] = end.clone();
                list.push((interval.last, end.clone()));
                end = end + size;
            }
        }
    }
    (offsets, end)
}

fn place_fixed(intervals: &[Interval], offsets: &mut [Expr]) -> i64 {
    let mut order: Vec<(i64, usize)> =
        intervals.iter().enumerate().filter_map(|(i, v)| Some((v.bytes.as_const()?, i))).collect();
    order.sort_by_key(|&(bytes, i)| (-bytes, i));
    let mut placed: Vec<(i64, i64, usize)> = Vec::new();
    let mut end = 0;
    for (bytes, i) in order {
        let size = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        let together =
            |k: usize| intervals[k].first <= intervals[i].last && intervals[i].first <= intervals[k].last;
        let mut at = 0;
        for &(start, stop, k) in &placed {
            if together(k) && start < at + size && at < stop {
                at = stop;
            }
        }
        // Sorted by start, one sweep finds the lowest gap.
        offsets[i] = Expr::from(at);
        let position = placed.partition_point(|p| (p.0, p.1) < (at, at + size));
        placed.insert(position, (at, at + size, i));
        end = end.max(at + size);
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_lives_together_lies_apart(list in proptest::collection::vec((0usize..20, 0usize..8, 0i64..3000, 0u32..3), 0..24)) {
            let intervals: Vec<_> = list.iter().map(|&(first, life, bytes, symbol)| Interval {
                first,
                last: first + life,
                bytes: if symbol == 0 { Expr::from(bytes) } else { Expr::sym(symbol - 1) * Expr::from(bytes % 3 * 4 + 4) },
            }).collect();
            let (offsets, end) = place(&intervals);
            let values = [700, 33];
            let range = |i: usize| {
                let at = offsets[i].eval(&values).unwrap();
                (at, at + intervals[i].bytes.eval(&values).unwrap())
            };
            for i in 0..intervals.len() {
                prop_assert!(range(i).0 % ALIGNMENT == 0 && range(i).1 <= end.eval(&values).unwrap());
                for k in 0..i {
                    let together = intervals[i].first <= intervals[k].last && intervals[k].first <= intervals[i].last;
                    let ((a, b), (c, d)) = (range(i), range(k));
                    prop_assert!(!together || b <= c || d <= a, "{i} and {k} overlap");
                }
            }
        }
    }
}
