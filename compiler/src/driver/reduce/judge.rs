//! Answers for programs: how they end, and whether they show the fault.

use crate::driver::child::{self, End};
use crate::driver::reduce::ending::{Ending, Kind};
use crate::driver::reduce::oracle::Oracle;
use crate::driver::reduce::worker::Worker;
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// The oracle at work.
pub struct Judge {
    /// What is looked for.
    pub oracle: Oracle,
    /// How the program ended that the reduction began with.
    pub first: Option<Ending>,
    worker: Worker,
    limit: Duration,
    scratch: TempDir,
}

impl Judge {
    /// With the process that programs are sent through. A command gets `limit` for each program.
    pub fn new(oracle: Oracle, worker: Worker, limit: Duration) -> Result<Self, String> {
        let scratch = tempfile::Builder::new().prefix("strata-reduce-").tempdir();
        let scratch = scratch.map_err(|e| format!("cannot make a scratch folder: {e}"))?;
        Ok(Self { oracle, first: None, worker, limit, scratch })
    }

    /// How a program ends.
    pub fn ending(&mut self, program: &str) -> Result<Ending, String> {
        let Oracle::Test { command } = &self.oracle else { return self.worker.send(program) };
        let file = self.scratch.path().join("program.mlir");
        std::fs::write(&file, program).map_err(|e| format!("cannot write {}: {e}", file.display()))?;
        let file = file.display().to_string();
        let line =
            if command.contains("{}") { command.replace("{}", &file) } else { format!("{command} {file}") };
        let mut command = Command::new("sh");
        command.args(["-c", &line]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let end =
            child::run(&mut command, Some(self.limit)).map_err(|e| format!("cannot start '{line}': {e}"))?;
        let kind = match end {
            End::Code(0) => Kind::Well,
            End::Code(_) | End::Signal(_) => Kind::Failed,
            End::TimedOut(_) => Kind::Slow,
        };
        Ok(Ending { kind, step: None, pass: None, message: format!("the command {end}") })
    }

    /// Whether a program shows the fault.
    pub fn shows(&mut self, program: &str) -> Result<bool, String> {
        let ending = self.ending(program)?;
        Ok(self.oracle.shows(&ending, self.first.as_ref()))
    }
}
