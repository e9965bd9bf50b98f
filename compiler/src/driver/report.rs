//! What a session took and counted, as text and as JSON.

use crate::driver::run::Report;
use crate::driver::session::Times;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// `--timing`: every second of `total` under a name; what no name holds is `unattributed`.
pub struct Timing {
    lines: Vec<(String, f64)>,
    total: f64,
}

impl Timing {
    /// From the times of sessions and their steps; steps of the same number in several sessions are added up.
    pub fn new<'a>(sessions: impl IntoIterator<Item = (&'a Times, Option<&'a Report>)>, total: f64) -> Self {
        let mut lines: Vec<(String, f64)> = Vec::new();
        let mut add = |name: String, seconds: f64| match lines.iter_mut().find(|(n, _)| *n == name) {
            Some((_, sum)) => *sum += seconds,
            None => lines.push((name, seconds)),
        };
        for (times, report) in sessions {
            for (what, seconds) in times {
                if *what != "steps" {
                    add((*what).to_owned(), *seconds);
                    continue;
                }
                let Some(report) = report else { continue };
                for step in &report.steps {
                    add(format!("step {}: {}", step.number, step.pipeline), step.seconds);
                }
                add("verification".into(), report.steps.iter().map(|s| s.verify_seconds).sum());
                add("dumps and checks".into(), report.observer_seconds);
            }
        }
        let known: f64 = lines.iter().map(|(_, s)| s).sum();
        lines.push(("unattributed".into(), (total - known).max(0.0)));
        Self { lines, total }
    }

    /// A table.
    pub fn text(&self) -> String {
        let mut out = String::from("       ms       %\n");
        let total = ("total".to_owned(), self.total);
        for (name, seconds) in self.lines.iter().chain([&total]) {
            let share = 100.0 * seconds / self.total.max(f64::MIN_POSITIVE);
            out += &format!("{:9.3}  {share:5.1}  {name}\n", seconds * 1e3);
        }
        out
    }

    /// `{"total": s, "lines": [{"name": …, "seconds": s}]}`.
    pub fn json(&self) -> Value {
        let lines: Vec<_> =
            self.lines.iter().map(|(name, seconds)| json!({"name": name, "seconds": seconds})).collect();
        json!({"total": self.total, "lines": lines})
    }
}

/// `--stats`: the counters of the passes, by pass; of several sessions together.
pub fn stats<'a>(reports: impl IntoIterator<Item = &'a Report>) -> BTreeMap<String, BTreeMap<String, u64>> {
    let mut out: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
    for step in reports.into_iter().flat_map(|r| &r.steps) {
        for (name, n) in &step.stats {
            *out.entry(step.name.clone()).or_default().entry(name.clone()).or_default() += n;
        }
    }
    out
}

/// Counters as a table.
pub fn stats_text(stats: &BTreeMap<String, BTreeMap<String, u64>>) -> String {
    let mut out = String::new();
    for (pass, counters) in stats {
        for (name, n) in counters {
            out += &format!("{n:9}  {pass}: {name}\n");
        }
    }
    if out.is_empty() { "no pass counted anything\n".into() } else { out }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_add_up_to_the_total() {
        let times: Times = vec![("parse", 0.25), ("steps", 0.5)];
        let timing = Timing::new([(&times, None)], 1.0);
        let sum: f64 = timing.lines.iter().map(|(_, s)| s).sum();
        assert!((sum - 1.0).abs() < 1e-12, "{:?}", timing.lines);
        insta::assert_snapshot!(timing.text(), @r"
               ms       %
          250.000   25.0  parse
          750.000   75.0  unattributed
         1000.000  100.0  total
        ");
    }
}
