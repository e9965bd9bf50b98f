//! Times of a plan's steps.

use crate::plan::{Plan, Step};
use serde::Serialize;
use std::fmt;

/// Times of the steps of a plan over some calls.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Profile {
    /// The function.
    pub name: String,
    /// Calls measured.
    pub calls: u64,
    /// One entry a step, in order.
    pub steps: Vec<StepTime>,
}

/// The times of one step.
#[derive(Clone, Debug, Serialize)]
pub struct StepTime {
    /// `kernel k0`, `product`, `convolution`, `copy`, `host aten.nonzero.default`.
    pub name: String,
    /// What it computes.
    pub summary: String,
    /// The source location.
    pub location: String,
    /// Nanoseconds over all calls.
    pub total_ns: u64,
    /// Nanoseconds of the fastest call.
    pub min_ns: u64,
}

impl Profile {
    /// A profile without calls.
    pub fn new(plan: &Plan) -> Self {
        let steps = plan.steps.iter().map(|s| {
            let (name, summary, location) = match s {
                Step::Launch { kernel, location, .. } => {
                    let k = plan.kernels.get(*kernel as usize);
                    let name = k.map_or_else(String::new, |k| format!("kernel {}", k.name));
                    (name, k.map_or_else(String::new, |k| k.summary.clone()), location.clone())
                }
                Step::Product(p) => (
                    "product".into(),
                    format!("{} × {} × {} × {}", p.batch, p.m, p.n, p.k),
                    p.location.clone(),
                ),
                Step::Convolution(c) => ("convolution".into(), String::new(), c.location.clone()),
                Step::Copy { from, to } => {
                    ("copy".into(), format!("b{} -> b{}", from.0, to.0), String::new())
                }
                Step::HostCall(h) => (format!("host {}", h.name), h.reason.clone(), h.location.clone()),
            };
            StepTime { name, summary, location, total_ns: 0, min_ns: u64::MAX }
        });
        Self { name: plan.name.clone(), calls: 0, steps: steps.collect() }
    }

    /// Adds the time of one call of a step.
    pub(super) fn add(&mut self, step: usize, ns: u64) {
        if let Some(s) = self.steps.get_mut(step) {
            s.total_ns += ns;
            s.min_ns = s.min_ns.min(ns);
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total: u64 = self.steps.iter().map(|s| s.total_ns).sum();
        let calls = self.calls.max(1) as f64;
        writeln!(
            f,
            "@{}: {:.1} µs a call in steps, mean of {}",
            self.name,
            total as f64 / calls / 1e3,
            self.calls
        )?;
        writeln!(f, "{:>4} {:>10} {:>6}  {:<28} {:<32} where", "step", "µs", "%", "what", "computes")?;
        for (i, s) in self.steps.iter().enumerate() {
            let share = if total == 0 { 0.0 } else { 100.0 * s.total_ns as f64 / total as f64 };
            let us = s.total_ns as f64 / calls / 1e3;
            writeln!(f, "{i:>4} {us:>10.2} {share:>6.1}  {:<28} {:<32} {}", s.name, s.summary, s.location)?;
        }
        Ok(())
    }
}
