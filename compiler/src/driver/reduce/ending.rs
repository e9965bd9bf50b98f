//! How a program's way through a pipeline ends.

use crate::driver::diagnostics::{Diagnostic, Severity, Source};
use crate::driver::run::{At, Cause, Observer, RunConfig, StepRecord};
use crate::driver::semantics::{Checked, Semantics};
use crate::driver::session::{PrintStyle, process};
use crate::driver::step::Step;
use crate::target::Target;
use melior::ir::Module;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::rc::Rc;

/// The way that programs are sent.
#[derive(Clone)]
pub struct Way {
    /// The steps.
    pub steps: Vec<Step>,
    /// What code is made for.
    pub target: Target,
    /// Whether each of MLIR's own passes is verified too.
    pub verify_each: bool,
    /// What is looked at on the way.
    pub checks: Checks,
}

/// What is looked at beside whether steps succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checks {
    /// Nothing.
    None,
    /// That the module verifies after every step.
    Verifier,
    /// That no step changes what the program computes on inputs of this seed.
    Semantics(u64),
}

/// Characters of a message that are shown: results can be long.
const LONGEST: usize = 200;

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Every step went well.
    Well,
    /// The program is not valid.
    Rejected,
    /// A pass failed with a diagnostic.
    Failed,
    /// A pass panicked.
    Panicked,
    /// A step left a module that does not verify.
    Invalid,
    /// A step changed what the program computes.
    Wrong,
    /// The process was ended by a signal, or by itself with a code (as 256 + code).
    Died(i32),
    /// It took too long.
    Slow,
}

/// The end of a way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// How.
    pub kind: Kind,
    /// The last step that was begun, from 1.
    pub step: Option<usize>,
    /// Its pass.
    pub pass: Option<String>,
    /// What was said.
    pub message: String,
}

impl Ending {
    /// Whether this is the same fault as `first`: it ends in the same way in the same pass, and a diagnostic says the same but for
    /// numbers and what is in quotes.
    pub fn is_like(&self, first: &Self) -> bool {
        let said = !matches!(self.kind, Kind::Failed | Kind::Panicked | Kind::Invalid)
            || outline(&self.message) == outline(&first.message);
        self.kind == first.kind && self.pass == first.pass && said
    }

    /// In a line.
    pub fn text(&self) -> String {
        let pass = self.pass.as_ref().map_or(String::new(), |p| format!(" in '{p}'"));
        let how = match self.kind {
            Kind::Well => "ends well".to_owned(),
            Kind::Rejected => "is not valid".to_owned(),
            Kind::Failed => format!("fails{pass}"),
            Kind::Panicked => format!("panics{pass}"),
            Kind::Invalid => format!("does not verify{pass}"),
            Kind::Wrong => format!("computes something else{pass}"),
            Kind::Died(signal @ 0..256) => format!("ends by signal {signal}{pass}"),
            Kind::Died(code) => format!("ends the process with code {}{pass}", code - 256),
            Kind::Slow => format!("takes too long{pass}"),
        };
        let line = self.message.lines().next().unwrap_or_default();
        let message: String = line.chars().take(LONGEST).collect();
        match (message.is_empty(), message.len() < line.len()) {
            (true, _) => how,
            (false, more) => format!("{how}: {message}{}", if more { " …" } else { "" }),
        }
    }
}

/// A message without numbers and without what is in quotes.
fn outline(message: &str) -> String {
    let mut out = String::new();
    let mut quoted = false;
    for c in message.lines().next().unwrap_or_default().chars() {
        match c {
            '\'' | '"' => quoted = !quoted,
            _ if quoted => {}
            '0'..='9' if out.ends_with('#') => {}
            '0'..='9' => out.push('#'),
            c => out.push(c),
        }
    }
    out
}

/// Asks the verifier after every step of MLIR's own.
struct Verify;

impl Observer for Verify {
    fn after(&mut self, at: At<'_>, _: &StepRecord, module: &Module<'_>) -> Result<(), Diagnostic> {
        use melior::ir::operation::OperationLike;
        if module.as_operation().verify() {
            return Ok(());
        }
        Err(Diagnostic::error(None, format!("the IR does not verify after '{}'", at.step().name)))
    }
}

/// Tells number and pass of a step before it runs.
struct Begun<'f>(&'f mut dyn FnMut(usize, &str));

impl Observer for Begun<'_> {
    fn before(&mut self, at: At<'_>, _: &Module<'_>) -> Result<(), Diagnostic> {
        (self.0)(at.number, &at.step().name);
        Ok(())
    }
}

impl Way {
    /// Sends a program, in this process; `begun` is told number and pass of each step before it runs.
    pub fn send(&self, program: &str, begun: &mut dyn FnMut(usize, &str)) -> Ending {
        let source = Source { name: "program".into(), bytes: program.as_bytes().to_vec() };
        let mut observers: Vec<Box<dyn Observer + '_>> = vec![Box::new(Begun(begun))];
        match self.checks {
            Checks::None => {}
            Checks::Verifier => observers.push(Box::new(Verify)),
            Checks::Semantics(seed) => {
                observers.push(Box::new(Semantics::new(seed, Rc::new(RefCell::new(Checked::default())))));
            }
        }
        let config = RunConfig {
            verify_each: self.verify_each && self.checks != Checks::Verifier,
            ..RunConfig::new(self.target.clone())
        };
        let outcome = process(&source, &self.steps, &config, PrintStyle::default(), &mut observers);
        let first = |list: &[Diagnostic]| {
            let error = list.iter().find(|d| d.severity == Severity::Error);
            error.map_or(String::new(), |d| d.message.clone())
        };
        let Some(stopped) = &outcome.stopped else {
            let kind = if outcome.output.is_some() { Kind::Well } else { Kind::Rejected };
            let message = if kind == Kind::Well { String::new() } else { first(&outcome.diagnostics) };
            return Ending { kind, step: None, pass: None, message };
        };
        let kind = match (stopped.cause, self.checks) {
            (Cause::Panic, _) => Kind::Panicked,
            (Cause::Verifier, _) | (Cause::Observer, Checks::Verifier) => Kind::Invalid,
            (Cause::Observer, _) => Kind::Wrong,
            (Cause::Pass, _) => Kind::Failed,
        };
        let step = Some(stopped.number).filter(|n| *n > 0);
        let pass = step.and_then(|n| self.steps.get(n - 1)).map(|s| s.name.clone());
        Ending { kind, step, pass, message: first(&stopped.diagnostics) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_fault_may_speak_of_other_numbers_and_types() {
        let of = |message: &str| Ending {
            kind: Kind::Failed,
            step: Some(1),
            pass: Some("fuse".into()),
            message: message.into(),
        };
        assert!(of("size 12 of 'tensor<12xf32>'").is_like(&of("size 3 of 'tensor<3xf32>'")));
        assert!(!of("size 12").is_like(&of("shape 12")));
        let other = Ending { pass: Some("cse".into()), ..of("size 12") };
        assert!(!other.is_like(&of("size 12")));
    }
}
