//! What prints a module's way through a pipeline: dumps, files, diffs.

use crate::driver::diagnostics::Diagnostic;
use crate::driver::reproducer::Reproducer;
use crate::driver::run::{At, Observer, StepRecord};
use melior::ir::Module;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Which steps something is done for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Filter {
    /// None.
    #[default]
    None,
    /// Steps of these passes.
    Passes(Vec<String>),
    /// Every step.
    All,
}

impl Filter {
    fn holds(&self, name: &str) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Passes(names) => names.iter().any(|n| n == name),
        }
    }
}

fn text(module: &Module<'_>) -> String {
    let mut text = module.as_operation().to_string();
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

fn io(what: &str, path: &Path, e: &std::io::Error) -> Diagnostic {
    Diagnostic::error(None, format!("cannot {what} {}: {e}", path.display()))
}

/// `--print-ir-before`, `--print-ir-after`, `--print-ir-change-only`: dumps on standard error, in MLIR's format.
pub struct Printer {
    /// Steps to print before.
    pub before: Filter,
    /// Steps to print after.
    pub after: Filter,
    /// Print after a step only if it changed something.
    pub change_only: bool,
    /// Also print what a failing step left.
    pub on_failure: bool,
    last: String,
}

impl Printer {
    /// A printer.
    pub fn new(before: Filter, after: Filter, change_only: bool, on_failure: bool) -> Self {
        Self { before, after, change_only, on_failure, last: String::new() }
    }

    fn dump(when: &str, at: At<'_>, text: &str) {
        // A closed pipe on the other side is no reason to stop.
        let _ = write!(
            std::io::stderr().lock(),
            "// -----// IR Dump {when} {} (step {} of {}) //----- //\n{text}\n",
            at.step().text(),
            at.number,
            at.steps.len()
        );
    }
}

impl Observer for Printer {
    fn before(&mut self, at: At<'_>, module: &Module<'_>) -> Result<(), Diagnostic> {
        let now = self.before.holds(&at.step().name);
        if now || self.change_only {
            self.last = text(module);
        }
        if now {
            Self::dump("Before", at, &self.last);
        }
        Ok(())
    }

    fn after(&mut self, at: At<'_>, _: &StepRecord, module: &Module<'_>) -> Result<(), Diagnostic> {
        if self.after.holds(&at.step().name) {
            let now = text(module);
            if !self.change_only || now != self.last {
                Self::dump("After", at, &now);
            }
        }
        Ok(())
    }

    fn failed(&mut self, at: At<'_>, module: &Module<'_>) {
        if self.on_failure {
            Self::dump("After", at, &format!("// this step failed\n{}", text(module)));
        }
    }
}

/// `--print-ir-tree=DIR`: one numbered file for the input and for each step.
pub struct Tree {
    folder: PathBuf,
}

impl Tree {
    /// Files in `folder`, which is made.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    fn write(&self, name: &str, module: &Module<'_>) -> Result<(), Diagnostic> {
        let path = self.folder.join(name);
        std::fs::write(&path, text(module)).map_err(|e| io("write", &path, &e))
    }
}

impl Observer for Tree {
    fn start(&mut self, module: &Module<'_>) -> Result<(), Diagnostic> {
        std::fs::create_dir_all(&self.folder).map_err(|e| io("make the folder", &self.folder, &e))?;
        self.write("00-input.mlir", module)
    }

    fn after(&mut self, at: At<'_>, _: &StepRecord, module: &Module<'_>) -> Result<(), Diagnostic> {
        self.write(&format!("{:02}-{}.mlir", at.number, at.step().name), module)
    }

    fn failed(&mut self, at: At<'_>, module: &Module<'_>) {
        // The diagnostic of the failure matters more than this file.
        let _ = self.write(&format!("{:02}-{}-failed.mlir", at.number, at.step().name), module);
    }
}

/// `--ir-diff`: a unified diff for each step, on standard error.
#[derive(Default)]
pub struct Diff {
    last: String,
}

impl Observer for Diff {
    fn start(&mut self, module: &Module<'_>) -> Result<(), Diagnostic> {
        self.last = text(module);
        Ok(())
    }

    fn after(&mut self, at: At<'_>, _: &StepRecord, module: &Module<'_>) -> Result<(), Diagnostic> {
        let now = text(module);
        let (step, n) = (at.step().text(), at.number);
        let mut err = std::io::stderr().lock();
        let _ = if now == self.last {
            writeln!(err, "=== step {n}: {step}: no change")
        } else {
            let diff = similar::TextDiff::from_lines(&self.last, &now);
            let diff = diff.unified_diff().context_radius(3).header("before", "after").to_string();
            write!(err, "=== step {n}: {step}\n{diff}")
        };
        self.last = now;
        Ok(())
    }
}

/// `--reproducer-dir=DIR`: before each step, a file that runs this step on this IR.
pub struct ReproducerWriter {
    folder: PathBuf,
    prefix: String,
    like: Reproducer,
}

impl ReproducerWriter {
    /// Files in `folder` whose names start with `prefix`; target and verification are those of `like`.
    pub fn new(folder: PathBuf, prefix: String, like: Reproducer) -> Self {
        Self { folder, prefix, like }
    }
}

impl Observer for ReproducerWriter {
    fn start(&mut self, _: &Module<'_>) -> Result<(), Diagnostic> {
        std::fs::create_dir_all(&self.folder).map_err(|e| io("make the folder", &self.folder, &e))
    }

    fn before(&mut self, at: At<'_>, module: &Module<'_>) -> Result<(), Diagnostic> {
        let step = at.step();
        let path = self.folder.join(format!("{}{:02}-{}.mlir", self.prefix, at.number, step.name));
        let reproducer = Reproducer { pipeline: step.text(), ..self.like.clone() };
        std::fs::write(&path, reproducer.text(&text(module))).map_err(|e| io("write", &path, &e))
    }
}
