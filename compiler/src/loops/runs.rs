//! Long sums in runs, each added up by itself.
//!
//! The error of a sum grows with the number of terms that go one after another into the same number: n terms make about √n units of it. Runs
//! of 64 terms, runs of 64 runs, and so on, keep that at 8 for each level, without more work.

use super::combine::Combine;
use super::emitter::Emitter;
use super::group::V;
use strata_runtime::sym::Expr;

/// Terms that are added up one after another.
pub const RUN: i64 = 64;

/// Levels of runs where the number of terms is not known.
const LEVELS: usize = 2;

/// How many of `count` positions from `first` on lie below `size`.
pub fn chunk(e: &Emitter<'_, '_>, first: &Expr, count: i64, size: &Expr) -> Expr {
    let all = Expr::from(count);
    let last = first.clone() + Expr::from(count - 1);
    if e.facts.below(&last, size) { all } else { (size.clone() - first.clone()).minimum(&all) }
}

/// Steps of a reduction: given the first step's number, how many there are, and the values that they change.
pub type Steps<'s, 'c, 'e> = dyn FnMut(&mut Emitter<'c, 'e>, &Expr, &Expr, &[V<'c>]) -> Vec<V<'c>> + 's;

/// `count` steps that change `sums`: in runs, where there are many and one of the combinations is rounded at each step. `neutral` are the
/// values that a run starts from.
pub fn in_runs<'c, 'e>(
    e: &mut Emitter<'c, 'e>,
    count: &Expr,
    carried: &[(Combine<'c>, V<'c>)],
    sums: &[V<'c>],
    neutral: &[V<'c>],
    steps: &mut Steps<'_, 'c, 'e>,
) -> Vec<V<'c>> {
    if !carried.iter().any(|(c, _)| c.adds_up()) {
        return steps(e, &Expr::default(), count, sums);
    }
    runs_of(e, count, carried, sums, neutral, LEVELS, steps)
}

fn runs_of<'c, 'e>(
    e: &mut Emitter<'c, 'e>,
    count: &Expr,
    carried: &[(Combine<'c>, V<'c>)],
    sums: &[V<'c>],
    neutral: &[V<'c>],
    levels: usize,
    steps: &mut Steps<'_, 'c, 'e>,
) -> Vec<V<'c>> {
    if count.as_const().map_or(levels == 0, |c| c <= RUN) {
        return steps(e, &Expr::default(), count, sums);
    }
    let runs = count.ceil_div(&RUN.into());
    runs_of(e, &runs, carried, sums, neutral, levels.saturating_sub(1), &mut |e, first, runs, sums| {
        let run = e.facts.variable(runs);
        e.for_loop(runs, run, sums, |e, total| {
            let done = (first.clone() + Expr::from(run)) * Expr::from(RUN);
            let some = chunk(e, &done, RUN, count);
            let sums = steps(e, &done, &some, neutral);
            carried
                .iter()
                .zip(total)
                .zip(sums)
                .map(|(((c, _), total), sum)| c.apply(e, *total, sum))
                .collect()
        })
    })
}
