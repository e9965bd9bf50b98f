//! `strata opt … --bisect=run|good|bad`: the first step, and the first rewrite of it, that makes a program bad.

use super::Args;
use super::job::Job;
use super::supervise::{keep_input, limit, part_of};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::Path;
use std::process::{Command, Stdio};
use strata_compiler::driver::bisect::{self, Bisection, Point};
use strata_compiler::driver::child::{self, End};
use strata_compiler::driver::step::pipeline_text;

/// Who answers.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// The command of --good-if; without one, whether the steps succeed, with --check-semantics too.
    Run,
    /// What was printed last is good.
    Good,
    /// What was printed last is bad; or, at first, what the whole pipeline leaves.
    Bad,
}

/// A bisection by hand between two calls.
#[derive(Serialize, Deserialize)]
struct State {
    /// Of the program and the pipeline: the answers are about no others.
    of: String,
    search: Bisection,
}

/// Runs a part of the pipeline after the other.
pub fn run(args: &Args, job: &Job, how: How) -> Result<bool, String> {
    if job.steps.is_empty() {
        return Err("error: --bisect needs a pipeline: --passes, --compile-to or --run-reproducer".into());
    }
    let scratch = tempfile::Builder::new().prefix("strata-opt-").tempdir();
    let scratch = scratch.map_err(|e| format!("error: cannot make a scratch folder: {e}"))?;
    keep_input(args, job, scratch.path())?;
    let part = Part { args, job, scratch: scratch.path() };
    match how {
        How::Run => automatic(&part),
        How::Good => by_hand(&part, false),
        How::Bad => by_hand(&part, true),
    }
}

struct Part<'a> {
    args: &'a Args,
    job: &'a Job,
    scratch: &'a Path,
}

impl Part<'_> {
    /// Runs the steps up to a place; whether they succeed.
    fn run(&self, point: Point, output: &Path, check: bool) -> Result<bool, String> {
        let mut command = part_of(self.args, self.job, self.scratch, point, output)?;
        if let (Some(seed), true) = (self.job.seed, check) {
            command.arg(format!("--check-semantics={seed}"));
        }
        let folder = self.scratch.join("reproducers");
        // The last part is what the user wants a reproducer of, and opt without --bisect writes that.
        command.arg(format!("--reproducer-dir={}", folder.display()));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let end = child::run(&mut command, limit(self.args)?);
        Ok(end.map_err(|e| format!("error: cannot start a child process: {e}"))? == End::Code(0))
    }

    /// Whether the program is good behind some steps.
    fn is_good(&self, point: Point) -> Result<bool, String> {
        let output = self.scratch.join("part.mlir");
        let Some(line) = &self.args.good_if else { return self.run(point, &output, true) };
        if !self.run(point, &output, false)? {
            return Err(format!(
                "error: the first {point} steps fail, so that --good-if cannot be asked; leave it out to find that"
            ));
        }
        let file = output.display().to_string();
        let line = if line.contains("{}") { line.replace("{}", &file) } else { format!("{line} {file}") };
        let mut command = Command::new("sh");
        command.args(["-c", &line]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let end = child::run(&mut command, limit(self.args)?);
        Ok(end.map_err(|e| format!("error: cannot start '{line}': {e}"))? == End::Code(0))
    }

    /// How many rewrites a step wants to make; 0 where it does not count them, or does not end.
    fn rewrites(&self, step: usize) -> Result<u64, String> {
        // None is made, so that a crash in one does not keep the count from being known.
        let note = self.scratch.join("rewrites");
        let _ = std::fs::remove_file(&note);
        for rewrites in [None, Some(0)] {
            self.run(Point { step, rewrites }, &self.scratch.join("part.mlir"), false)?;
            if let Some(n) = std::fs::read_to_string(&note).ok().and_then(|t| t.parse().ok()) {
                return Ok(n);
            }
        }
        Ok(0)
    }

    fn tell(&self, text: &str) {
        if !self.args.json {
            eprintln!("bisect: {text}");
        }
    }

    /// What was found: the bad step, the rewrite, and the command that shows the last good program.
    fn found(&self, found: Point) {
        let step = self.job.steps[found.step - 1].text();
        let of = found.rewrites.map_or(String::new(), |n| format!(", by its rewrite {n}"));
        let good = match found.rewrites {
            Some(n) => Point { step: found.step, rewrites: Some(n - 1) },
            None => Point::after(found.step - 1),
        };
        let command = format!("{} --bisect-limit={good}", self.job.command(self.args));
        if self.args.json {
            let object = json!({"step": found.step, "pipeline": step, "rewrite": found.rewrites, "last_good": command});
            eprintln!("{}", json!({"diagnostics": [], "bisect": object}));
        } else {
            eprintln!(
                "bisect: step {} of {}, '{step}', is the first bad one{of}",
                found.step,
                self.job.steps.len()
            );
            eprintln!("bisect: the last good program: {command}");
        }
    }
}

fn automatic(part: &Part<'_>) -> Result<bool, String> {
    let steps = part.job.steps.len();
    if part.is_good(Point::after(steps))? {
        return Err(format!("error: the program is good behind all {steps} steps: there is nothing to find"));
    }
    if !part.is_good(Point::after(0))? {
        return Err("error: the program is bad before the first step".into());
    }
    let mut search = Bisection::new(steps);
    let mut looked = false;
    loop {
        if let (Some(step), false) = (search.step(), looked) {
            looked = true;
            search.look_into(part.rewrites(step)?);
        }
        let Some(point) = search.next() else { break };
        let good = part.is_good(point)?;
        part.tell(&format!("after {point} steps: {}", if good { "good" } else { "bad" }));
        search.mark(!good);
    }
    if let Some(found) = search.found() {
        part.found(found);
    }
    Ok(true)
}

fn by_hand(part: &Part<'_>, bad: bool) -> Result<bool, String> {
    let (args, job) = (part.args, part.job);
    let file = &args.bisect_state;
    let shown = file.display();
    let steps = job.steps.len();
    let key = bisect::key(&job.input, &pipeline_text(&job.steps));
    let mut state =
        match std::fs::read_to_string(file) {
            Ok(text) => serde_json::from_str::<State>(&text).map_err(|e| {
                format!("error: {shown} is not the state of a bisection: {e}; remove it to begin anew")
            })?,
            Err(_) if bad => State { of: key.clone(), search: Bisection::new(steps) },
            Err(_) => return Err(
                "error: no bisection has begun; --bisect=bad says that the whole pipeline's result is bad"
                    .into(),
            ),
        };
    if state.of != key {
        return Err(format!("error: {shown} is of another program or pipeline; remove it to begin anew"));
    }
    if file.exists() {
        state.search.mark(bad);
    }
    if let Some(step) = state.search.step() {
        state.search.look_into(part.rewrites(step)?);
    }
    let Some(point) = state.search.next() else {
        // Done: nobody needs the answers any more.
        let _ = std::fs::remove_file(file);
        if let Some(found) = state.search.found() {
            part.found(found);
        }
        return Ok(true);
    };
    let output = part.scratch.join("part.mlir");
    if !part.run(point, &output, false)? {
        return Err(format!("error: the first {point} steps fail; --bisect=run finds where"));
    }
    let text =
        std::fs::read_to_string(&output).map_err(|e| format!("error: cannot read what was printed: {e}"))?;
    super::worker::write(&args.output, &text)?;
    let json = serde_json::to_string(&state).map_err(|e| format!("error: {e}"))?;
    std::fs::write(file, json + "\n").map_err(|e| format!("error: cannot write {shown}: {e}"))?;
    part.tell(&format!(
        "this is the program after {point} of {steps} steps; say --bisect=good or --bisect=bad"
    ));
    Ok(true)
}
