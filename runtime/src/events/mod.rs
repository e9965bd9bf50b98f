//! Events: what the user should know although nothing failed. One stream a process, printed as `STRATA_LOGS` says, counted
//! by kind, kept for reports.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};

/// What kind of thing happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// An op runs in the host program.
    Fallback,
    /// PyTorch's tracing stopped within a function.
    GraphBreak,
    /// A function was compiled again for other inputs.
    Recompile,
    /// No compiled version fits the inputs.
    GuardFailure,
    /// An artifact was not in the cache.
    CacheMiss,
    /// A cache entry was unusable and dropped.
    CacheDamaged,
    /// A call ran without a CUDA graph.
    SkippedCudaGraph,
    /// Neighbouring ops were not fused.
    MissedFusion,
    /// The compile server died.
    ServerCrash,
    /// A search ended at its budget.
    BudgetReached,
    /// A library was not found, and own kernels do its work.
    MissingLibrary,
}

impl EventKind {
    /// All kinds.
    pub const ALL: [Self; 11] = [
        Self::Fallback,
        Self::GraphBreak,
        Self::Recompile,
        Self::GuardFailure,
        Self::CacheMiss,
        Self::CacheDamaged,
        Self::SkippedCudaGraph,
        Self::MissedFusion,
        Self::ServerCrash,
        Self::BudgetReached,
        Self::MissingLibrary,
    ];

    /// The name in `STRATA_LOGS` and in counters.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fallback => "fallbacks",
            Self::GraphBreak => "graph_breaks",
            Self::Recompile => "recompiles",
            Self::GuardFailure => "guard_failures",
            Self::CacheMiss => "cache_misses",
            Self::CacheDamaged => "cache_damaged",
            Self::SkippedCudaGraph => "skipped_cuda_graphs",
            Self::MissedFusion => "missed_fusions",
            Self::ServerCrash => "server_crashes",
            Self::BudgetReached => "budgets_reached",
            Self::MissingLibrary => "missing_libraries",
        }
    }

    /// Whether it is printed when `STRATA_LOGS` is not set: what the user did not ask for and must not miss.
    const fn printed_by_default(self) -> bool {
        matches!(self, Self::ServerCrash | Self::CacheDamaged | Self::MissingLibrary)
    }
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// What.
    pub kind: EventKind,
    /// Why.
    pub reason: String,
    /// Where in the user's source.
    pub location: String,
    /// What it costs: `2 launches, 64 MiB`.
    pub cost: String,
    /// What can be done.
    pub next_step: String,
}

impl Event {
    /// An event with its reason.
    pub fn new(kind: EventKind, reason: impl Into<String>) -> Self {
        let empty = String::new;
        Self { kind, reason: reason.into(), location: empty(), cost: empty(), next_step: empty() }
    }

    /// Says where in the user's source.
    #[must_use]
    pub fn at(mut self, location: impl Into<String>) -> Self {
        self.location = location.into();
        self
    }

    /// Says what it costs.
    #[must_use]
    pub fn cost(mut self, cost: impl Into<String>) -> Self {
        self.cost = cost.into();
        self
    }

    /// Says what can be done.
    #[must_use]
    pub fn next(mut self, step: impl Into<String>) -> Self {
        self.next_step = step.into();
        self
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "strata [{}] {}", self.kind.name(), self.reason)?;
        for (name, text) in [("where", &self.location), ("cost", &self.cost), ("next", &self.next_step)] {
            if !text.is_empty() {
                write!(f, "\n  {name}: {text}")?;
            }
        }
        Ok(())
    }
}

/// Something that takes events as they happen.
pub trait Sink: Send + Sync {
    /// Takes one event. Called without any lock of the stream held.
    fn event(&self, event: &Event);
}

/// Which kinds are printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter(Vec<EventKind>);

impl Filter {
    /// A comma-separated list of kinds, `all`, or `none`; `None` is the default. Unknown names come back as a message that lists the known.
    pub fn parse(text: Option<&str>) -> (Self, Option<String>) {
        let Some(text) = text else {
            return (Self(EventKind::ALL.into_iter().filter(|k| k.printed_by_default()).collect()), None);
        };
        let (mut kinds, mut unknown) = (Vec::new(), Vec::new());
        for name in text.split(',').map(str::trim).filter(|n| !n.is_empty() && *n != "none") {
            match EventKind::ALL.into_iter().find(|k| k.name() == name) {
                Some(k) => kinds.push(k),
                None if name == "all" => kinds.extend(EventKind::ALL),
                None => unknown.push(name),
            }
        }
        let known = EventKind::ALL.map(EventKind::name).join(", ");
        let message = (!unknown.is_empty()).then(|| {
            format!(
                "strata: STRATA_LOGS has the unknown name {}; known: {known}, all, none",
                unknown.join(", ")
            )
        });
        (Self(kinds), message)
    }

    /// Whether a kind is printed.
    pub fn prints(&self, kind: EventKind) -> bool {
        self.0.contains(&kind)
    }
}

/// Events that are kept for reports, at most; counters go on.
const KEPT: usize = 10_000;

/// A stream of events.
pub struct Events {
    filter: Filter,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    counters: BTreeMap<EventKind, u64>,
    kept: Vec<Event>,
    sinks: Vec<Arc<dyn Sink>>,
}

impl Events {
    /// A stream that prints what `filter` says to standard error.
    pub fn new(filter: Filter) -> Self {
        Self { filter, state: Mutex::default() }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Counts, keeps, prints, and hands the event to the sinks.
    pub fn emit(&self, event: Event) {
        if self.filter.prints(event.kind) {
            eprintln!("{event}");
        }
        let sinks = {
            let mut state = self.state();
            *state.counters.entry(event.kind).or_default() += 1;
            if state.kept.len() < KEPT {
                state.kept.push(event.clone());
            }
            state.sinks.clone()
        };
        for sink in sinks {
            sink.event(&event);
        }
    }

    /// Adds a sink for all later events.
    pub fn add_sink(&self, sink: Arc<dyn Sink>) {
        self.state().sinks.push(sink);
    }

    /// How many of each kind there were, by name; kinds without any are left out.
    pub fn counters(&self) -> BTreeMap<&'static str, u64> {
        self.state().counters.iter().map(|(k, &n)| (k.name(), n)).collect()
    }

    /// The events so far (the first ten thousand).
    pub fn all(&self) -> Vec<Event> {
        self.state().kept.clone()
    }

    /// Forgets events and counters; sinks stay.
    pub fn clear(&self) {
        let mut state = self.state();
        state.counters.clear();
        state.kept.clear();
    }

    /// Counters and events as JSON.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::json!({ "counters": self.counters(), "events": self.all() })
    }
}

/// The stream of this process; what it prints is read from `STRATA_LOGS` once.
pub fn events() -> &'static Events {
    static EVENTS: OnceLock<Events> = OnceLock::new();
    EVENTS.get_or_init(|| {
        let text = std::env::var("STRATA_LOGS").ok();
        let (filter, message) = Filter::parse(text.as_deref());
        if let Some(message) = message {
            eprintln!("{message}");
        }
        Events::new(filter)
    })
}

/// Emits to the stream of this process.
pub fn emit(event: Event) {
    events().emit(event);
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Collect(Mutex<Vec<String>>);
    impl Sink for Collect {
        fn event(&self, e: &Event) {
            self.0.lock().unwrap().push(e.reason.clone());
        }
    }

    #[test]
    fn events_are_counted_kept_and_handed_on() {
        let events = Events::new(Filter::parse(Some("none")).0);
        let sink = Arc::new(Collect(Mutex::default()));
        events.emit(Event::new(EventKind::Recompile, "before"));
        events.add_sink(sink.clone());
        events.emit(
            Event::new(EventKind::Fallback, "no lowering").at("a.py:3").cost("1 launch").next("add one"),
        );
        events.emit(Event::new(EventKind::Fallback, "again"));
        assert_eq!(*sink.0.lock().unwrap(), ["no lowering", "again"]);
        assert_eq!(events.counters(), BTreeMap::from([("fallbacks", 2), ("recompiles", 1)]));
        insta::assert_snapshot!(events.all()[1], @"
        strata [fallbacks] no lowering
          where: a.py:3
          cost: 1 launch
          next: add one
        ");
        let json = events.to_json();
        assert_eq!(
            (&json["counters"]["fallbacks"], &json["events"][1]["kind"]),
            (&2.into(), &"fallback".into())
        );
        events.clear();
        assert!(events.counters().is_empty() && events.all().is_empty());
    }

    #[test]
    fn the_filter_names_what_it_does_not_know() {
        let (f, message) = Filter::parse(Some("fallbacks, nonsense,recompiles"));
        assert!(
            f.prints(EventKind::Fallback)
                && f.prints(EventKind::Recompile)
                && !f.prints(EventKind::ServerCrash)
        );
        let message = message.unwrap();
        assert!(message.contains("unknown name nonsense; known: fallbacks, graph_breaks"), "{message}");
        assert!(EventKind::ALL.into_iter().all(|k| Filter::parse(Some("all")).0.prints(k)));
        let default = Filter::parse(None).0;
        assert!(default.prints(EventKind::ServerCrash) && !default.prints(EventKind::Fallback));
    }
}
