//! Dispatch: several compiled versions of one function, each with its guard; a call takes the first that holds.

use crate::events::{Event, EventKind};
use crate::guard::{Guard, Mismatch, Signature};
use crate::plan::Plan;
use std::sync::{Arc, RwLock};

/// The versions of one function. `T` is what a version runs: an [`Executable`](crate::exec::Executable), or more.
pub struct Dispatcher<T> {
    name: String,
    location: String,
    versions: RwLock<Arc<Vec<Version<T>>>>,
}

struct Version<T> {
    guard: Guard,
    value: Arc<T>,
}

impl<T> Dispatcher<T> {
    /// A function without versions. The location is the user's.
    pub fn new(name: impl Into<String>, location: impl Into<String>) -> Self {
        Self { name: name.into(), location: location.into(), versions: RwLock::default() }
    }

    fn versions(&self) -> Arc<Vec<Version<T>>> {
        self.versions.read().unwrap_or_else(|e| e.into_inner()).clone()
    }

    /// The first version whose guard holds.
    pub fn find(&self, signature: &Signature) -> Option<Arc<T>> {
        let versions = self.versions();
        versions.iter().find(|v| v.guard.holds(signature)).map(|v| v.value.clone())
    }

    /// Adds a version, tried after those there are.
    pub fn add(&self, plan: &Plan, value: T) -> Arc<T> {
        let value = Arc::new(value);
        let mut versions = self.versions.write().unwrap_or_else(|e| e.into_inner());
        let mut list: Vec<_> =
            versions.iter().map(|v| Version { guard: v.guard.clone(), value: v.value.clone() }).collect();
        list.push(Version { guard: Guard::of(plan), value: value.clone() });
        *versions = Arc::new(list);
        value
    }

    /// Number of versions.
    pub fn len(&self) -> usize {
        self.versions().len()
    }

    /// Whether there are no versions.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Why the version that fits best does not fit; `None` where there is no version or one fits.
    pub fn explain(&self, signature: &Signature) -> Option<Mismatch> {
        let mismatches: Option<Vec<Mismatch>> =
            self.versions().iter().map(|v| v.guard.explain(signature)).collect();
        // Of equals the last: it is the youngest.
        mismatches?.into_iter().max_by_key(|m| m.passed)
    }

    /// The event of a recompilation for this signature; `None` for the first compilation.
    pub fn recompile_event(&self, signature: &Signature) -> Option<Event> {
        let m = self.explain(signature)?;
        let reason = format!("{} is compiled again (version {}): {}", self.name, self.len() + 1, m.reason);
        Some(
            Event::new(EventKind::Recompile, reason)
                .at(&self.location)
                .cost("one compilation")
                .next(m.relaxation),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{DevicePtr, TensorRef};
    use crate::dtype::DType;

    fn plan(size: &str, range: &str) -> Plan {
        format!(
            "plan @f on cpu {{ symbol s0 \"n\" in {range} = dim 0 of input 0
              input %x = b0
              buffer b0 : f32[s0, {size}] = input 0
              arena 0 bytes }}"
        )
        .parse()
        .unwrap()
    }

    fn signature(shape: &[i64]) -> Signature {
        let mut s = Signature::default();
        s.fill(&[TensorRef { ptr: DevicePtr::NULL, dtype: DType::F32, shape, strides: &[shape[1], 1] }], &[]);
        s
    }

    #[test]
    fn the_first_version_that_fits_runs_and_a_miss_is_explained() {
        let d = Dispatcher::new("f", "model.py:3");
        assert!(d.is_empty() && d.find(&signature(&[2, 3])).is_none());
        assert!(d.recompile_event(&signature(&[2, 3])).is_none());
        d.add(&plan("3", "[2, 2]"), "two");
        d.add(&plan("3", "[0, 10]"), "dynamic");
        assert_eq!(*d.find(&signature(&[2, 3])).unwrap(), "two");
        assert_eq!(*d.find(&signature(&[9, 3])).unwrap(), "dynamic");
        assert!(d.find(&signature(&[9, 4])).is_none());
        insta::assert_snapshot!(d.recompile_event(&signature(&[9, 4])).unwrap(), @"
        strata [recompiles] f is compiled again (version 3): parameter %x, dimension 1: expected 3, found 4
          where: model.py:3
          cost: one compilation
          next: mark the dimension dynamic, or widen its range
        ");
        assert!(d.explain(&signature(&[11, 3])).unwrap().reason.contains("in [0, 10], found 11"));
    }
}
