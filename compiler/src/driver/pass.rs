//! What a pass is.

use crate::target::Target;
use melior::Context;
use melior::ir::{Location, Module};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::str::FromStr;

/// A level of the compiler, in the order in which programs go through them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Graph ops on tensors with symbolic dimensions.
    Graph,
    /// `linalg` on tensors.
    Tensor,
    /// Scheduled loops on memrefs.
    Loop,
    /// `gpu`/`nvvm` or `llvm`.
    Llvm,
}

/// An option of a pass: name, default, what it does.
#[derive(Clone, Copy, Debug)]
pub struct PassOption {
    /// Name as written in a pipeline: `tile{size=64}`.
    pub name: &'static str,
    /// Value where it is not given.
    pub default: &'static str,
    /// What it does.
    pub help: &'static str,
}

/// A pass: a function over a module, with its name, options and levels.
pub struct Pass {
    /// Name in pipelines, the file's name with dashes.
    pub name: &'static str,
    /// One sentence for `--list-passes`.
    pub summary: &'static str,
    /// The level of what it reads.
    pub from: Level,
    /// The level of what it leaves.
    pub to: Level,
    /// Whether results must be equal bit for bit before and after (`--check-semantics`).
    pub exact: bool,
    /// Its options.
    pub options: &'static [PassOption],
    /// The work. The module is verified afterwards by the runner.
    pub run: for<'c> fn(&PassCx<'c>, &Module<'c>) -> Result<(), Failure>,
}

/// How far results may differ from those of ops that are run one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Numerics {
    /// Values may stay f32 between fused ops.
    Default,
    /// Each op rounds in its type.
    Strict,
}

impl FromStr for Numerics {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "default" => Ok(Self::Default),
            "strict" => Ok(Self::Strict),
            _ => Err(format!("'{text}' is not one of default, strict")),
        }
    }
}

/// What a pass is given beside the module.
pub struct PassCx<'c> {
    /// The module's context.
    pub context: &'c Context,
    /// What code is made for.
    pub target: Target,
    /// Option values by name; every declared option is present.
    pub options: BTreeMap<String, String>,
    /// Counters for `--stats`.
    pub stats: RefCell<BTreeMap<String, u64>>,
    /// The rewrites it has made, and may make.
    pub rewrites: Rewrites,
}

/// A count of a pass's rewrites, with a limit: what went wrong in a pass is found by running it with less of them (`--bisect`). For passes
/// that make single rewrites, any number of which leaves a right program.
#[derive(Debug, Default)]
pub struct Rewrites {
    /// How many may be made; any number where there is none.
    pub limit: Option<u64>,
    /// How many were wanted.
    pub wanted: Cell<u64>,
}

impl PassCx<'_> {
    /// The value of an option. Panics on one that the pass did not declare.
    pub fn option(&self, name: &str) -> &str {
        self.options.get(name).unwrap_or_else(|| panic!("the pass declares no option '{name}'"))
    }

    /// The value of an option that has to be read; what it says of others is the failure's reason.
    pub fn parsed<T: FromStr<Err = String>>(&self, name: &str) -> Result<T, Failure> {
        let fail = |m| Failure::new(Location::unknown(self.context), format!("option {name}: {m}"));
        self.option(name).parse().map_err(fail)
    }

    /// Whether the option `numerics` asks for `strict` numerics.
    pub fn strict(&self) -> Result<bool, Failure> {
        Ok(self.parsed::<Numerics>("numerics")? == Numerics::Strict)
    }

    /// Whether the pass may make one more rewrite, which it then does. Counts it.
    pub fn may_rewrite(&self) -> bool {
        let wanted = self.rewrites.wanted.get() + 1;
        self.rewrites.wanted.set(wanted);
        self.rewrites.limit.is_none_or(|limit| wanted <= limit)
    }

    /// Adds to a counter.
    pub fn count(&self, name: &str, n: u64) {
        *self.stats.borrow_mut().entry(name.to_owned()).or_default() += n;
    }
}

/// Why a pass gave up: a diagnostic for the user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{location}: {message}{}", if next.is_empty() { String::new() } else { format!("; {next}") })]
pub struct Failure {
    /// Source location as text.
    pub location: String,
    /// What is wrong.
    pub message: String,
    /// What to do about it; may be empty.
    pub next: String,
}

impl Failure {
    /// A failure at a location.
    pub fn new(location: Location<'_>, message: impl Into<String>) -> Self {
        Self { location: crate::ir::location_text(location), message: message.into(), next: String::new() }
    }

    /// With a next step for the user.
    #[must_use]
    pub fn next(mut self, next: impl Into<String>) -> Self {
        self.next = next.into();
        self
    }
}
