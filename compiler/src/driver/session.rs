//! One program through one pipeline: parse, run, print; and what `strata opt` says about it.

use crate::driver::diagnostics::{Collector, Diagnostic, Severity, Source};
use crate::driver::observe::{Diff, Filter, Printer, Tree};
use crate::driver::run::{At, Observer, Report, RunConfig, Stopped, run};
use crate::driver::step::Step;
use melior::ir::Module;
use melior::ir::operation::{OperationLike, OperationPrintingFlags};
use std::path::PathBuf;
use std::time::Instant;

/// What is watched and how the result is printed.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    /// `--print-ir-before`.
    pub before: Filter,
    /// `--print-ir-after`.
    pub after: Filter,
    /// `--print-ir-change-only`.
    pub change_only: bool,
    /// `--print-ir-on-failure`.
    pub on_failure: bool,
    /// `--print-ir-tree`.
    pub tree: Option<PathBuf>,
    /// `--ir-diff`.
    pub diff: bool,
}

impl Watch {
    /// The observers that were asked for. `part`: which part of a split file, for folders.
    pub fn observers(&self, part: Option<usize>) -> Vec<Box<dyn Observer>> {
        let mut list: Vec<Box<dyn Observer>> = Vec::new();
        if self.before != Filter::None || self.after != Filter::None || self.on_failure {
            list.push(Box::new(Printer::new(
                self.before.clone(),
                self.after.clone(),
                self.change_only,
                self.on_failure,
            )));
        }
        if let Some(folder) = &self.tree {
            let folder = part.map_or(folder.clone(), |n| folder.join(format!("part-{n}")));
            list.push(Box::new(Tree::new(folder)));
        }
        if self.diff {
            list.push(Box::new(Diff::default()));
        }
        list
    }
}

/// How IR is printed.
#[derive(Clone, Copy, Debug, Default)]
pub struct PrintStyle {
    /// MLIR's generic form.
    pub generic: bool,
    /// With locations.
    pub locations: bool,
    /// Leave out constants of more elements.
    pub elide: Option<usize>,
}

impl PrintStyle {
    /// The module's text.
    pub fn text(self, module: &Module<'_>) -> String {
        let mut flags = OperationPrintingFlags::new();
        if self.generic {
            flags = flags.print_generic_operation_form();
        }
        if self.locations {
            flags = flags.enable_debug_info(true, false);
        }
        if let Some(limit) = self.elide {
            flags = flags.elide_large_elements_attributes(limit);
        }
        let text = module.as_operation().to_string_with_flags(flags);
        let mut text = text.unwrap_or_else(|_| module.as_operation().to_string());
        if !text.ends_with('\n') {
            text.push('\n');
        }
        text
    }
}

/// Wall times of a session, in the order of the work.
pub type Times = Vec<(&'static str, f64)>;

/// What became of a program.
pub struct Outcome {
    /// The resulting IR; absent after an error.
    pub output: Option<String>,
    /// Everything that was said.
    pub diagnostics: Vec<Diagnostic>,
    /// What the steps did; absent where parsing failed.
    pub report: Option<Report>,
    /// The failing step.
    pub stopped: Option<Box<Stopped>>,
    /// Wall times beside the steps.
    pub times: Times,
}

impl Outcome {
    /// Whether an error was said.
    pub fn failed(&self) -> bool {
        self.output.is_none() || self.diagnostics.iter().any(|d| d.severity == Severity::Error)
    }
}

/// Sends one program through `steps`.
pub fn process(
    source: &Source,
    steps: &[Step],
    config: &RunConfig,
    style: PrintStyle,
    observers: &mut [Box<dyn Observer + '_>],
) -> Outcome {
    let mut times = Times::new();
    let mut clock = Instant::now();
    let mut lap = |what| {
        let now = Instant::now();
        times.push((what, (now - clock).as_secs_f64()));
        clock = now;
    };
    let context = strata_dialects::context();
    lap("context");
    let collector = Collector::new(&context);
    let parsed = strata_dialects::tool::parse_module(&context, &source.bytes, &source.name);
    lap("parse");
    let Some(mut module) = parsed else {
        let mut diagnostics = collector.take();
        if diagnostics.is_empty() {
            diagnostics.push(Diagnostic::error(None, format!("{}: cannot be parsed", source.name)));
        }
        return Outcome { output: None, diagnostics, report: None, stopped: None, times };
    };
    let mut diagnostics = collector.take();
    let ran = run(&context, &mut module, steps, config, observers);
    lap("steps");
    match ran {
        Ok(report) => {
            diagnostics.extend(report.diagnostics.iter().cloned());
            let output = style.text(&module);
            lap("print");
            drop((module, collector));
            lap("free");
            Outcome { output: Some(output), diagnostics, report: Some(report), stopped: None, times }
        }
        Err(stopped) => {
            diagnostics.extend(stopped.diagnostics.iter().cloned());
            // A module that a failing pass left half changed cannot always be freed.
            std::mem::forget(module);
            Outcome { output: None, diagnostics, report: None, stopped: Some(stopped), times }
        }
    }
}

/// Calls a function before each step: the child process of `strata opt` notes its progress so.
pub struct Progress<F: FnMut(usize, &str)>(pub F);

impl<F: FnMut(usize, &str)> Observer for Progress<F> {
    fn before(&mut self, at: At<'_>, _: &Module<'_>) -> Result<(), Diagnostic> {
        (self.0)(at.number, &at.step().text());
        Ok(())
    }
}
