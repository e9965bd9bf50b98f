//! `--trace=FILE`: a JSON line for the input and for each step.

use crate::driver::diagnostics::Diagnostic;
use crate::driver::run::{At, Observer, StepRecord};
use crate::ir;
use melior::ir::Module;
use serde_json::json;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// Writes the trace.
pub struct Trace {
    file: File,
    part: usize,
    last: blake3::Hash,
}

impl Trace {
    /// Appends to `path`. `part`: which part of a split file the lines are of, from 1.
    pub fn append(path: &Path, part: usize) -> Result<Self, String> {
        let file = File::options()
            .create(true)
            .append(true)
            .open(path)
            .map_err(|e| format!("cannot write {}: {e}", path.display()))?;
        Ok(Self { file, part, last: blake3::hash(b"") })
    }

    fn line(&mut self, value: &serde_json::Value) -> Result<(), Diagnostic> {
        writeln!(self.file, "{value}")
            .map_err(|e| Diagnostic::error(None, format!("cannot write the trace: {e}")))
    }
}

fn hash(module: &Module<'_>) -> blake3::Hash {
    blake3::hash(module.as_operation().to_string().as_bytes())
}

/// How many ops of each name the functions of a module hold, nested ones included.
pub fn op_counts(module: &Module<'_>) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    ir::walk(module, |op| *counts.entry(ir::name(&op).to_owned()).or_default() += 1);
    counts
}

impl Observer for Trace {
    fn start(&mut self, module: &Module<'_>) -> Result<(), Diagnostic> {
        self.last = hash(module);
        self.line(&json!({"part": self.part, "step": 0, "pass": "input", "ops": op_counts(module)}))
    }

    fn after(&mut self, at: At<'_>, record: &StepRecord, module: &Module<'_>) -> Result<(), Diagnostic> {
        let now = hash(module);
        let changed = now != self.last;
        self.last = now;
        self.line(&json!({
            "part": self.part, "step": at.number, "of": at.steps.len(), "pass": record.name, "pipeline": record.pipeline,
            "seconds": record.seconds, "verify_seconds": record.verify_seconds, "changed": changed,
            "ops": op_counts(module), "stats": record.stats,
        }))
    }

    fn failed(&mut self, at: At<'_>, _: &Module<'_>) {
        let step = at.step();
        // The failure itself is what gets reported.
        let _ = self.line(&json!({"part": self.part, "step": at.number, "pass": step.name, "pipeline": step.text(), "failed": true}));
    }
}
