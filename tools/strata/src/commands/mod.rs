//! The sub-commands that compile and run whole models, one file each.

pub mod compile;
pub mod demo;
mod inputs;
pub mod run;
pub mod selftest;
pub mod serve;
mod supervise;
pub mod translate;

pub use supervise::supervised;

use std::path::Path;
use strata_compiler::compile::{CompileError, Compiled, Options};
use strata_compiler::driver::diagnostics::{Diagnostic, Source};
use strata_compiler::source::{Input, module};

/// A failure as lines for the user, with the command that shows it again.
pub type Failed = Vec<String>;

/// Diagnostics as lines, with the place in the program and the next step.
pub fn shown(list: &[Diagnostic], input: &Input, name: &str) -> Failed {
    let text = if let Input::Mlir(text) = input { text.as_str() } else { "" };
    let source = Source { name: name.to_owned(), bytes: text.into() };
    list.iter().map(|d| d.render(&source).trim_end().to_owned()).collect()
}

/// Reads and compiles a model.
pub fn compile_file(path: &Path, options: &Options) -> Result<Compiled, Failed> {
    compile_file_and(path, options, |_, _| Ok(())).map(|(compiled, ())| compiled)
}

/// Reads and compiles a model, and makes something of what is left of its module.
pub fn compile_file_and<T>(
    path: &Path,
    options: &Options,
    then: impl for<'c> FnOnce(&'c melior::Context, &melior::ir::Module<'c>) -> Result<T, CompileError>,
) -> Result<(Compiled, T), Failed> {
    let input = Input::read(path).map_err(|m| vec![m])?;
    let context = strata_dialects::context();
    let name = path.display().to_string();
    let texts = |list: Vec<Diagnostic>| shown(&list, &input, &name);
    let mut program = module(&context, &input, &name, path.parent()).map_err(texts)?;
    let options = Options { source_name: name.clone(), ..options.clone() };
    let compiled = strata_compiler::compile::compile(&context, &mut program, &options);
    let both = compiled.and_then(|compiled| Ok((compiled, then(&context, &program)?)));
    both.map_err(|e: CompileError| {
        let mut lines = texts(e.diagnostics);
        if !e.pipeline.is_empty() {
            lines.push(format!("note: in step '{}'; {}", e.pipeline, supervise::levels_before()));
        }
        lines
    })
}

/// Prints a failure, as JSON where that was asked for, and gives the exit code.
pub fn fail_as(lines: &[String], json: bool) -> std::process::ExitCode {
    if !json {
        return fail(lines);
    }
    let text = lines.join("\n");
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    eprintln!("{}", serde_json::json!({"diagnostics": [{"severity": "error", "message": text}]}));
    std::process::ExitCode::FAILURE
}

/// Prints a failure and gives the exit code.
pub fn fail(lines: &[String]) -> std::process::ExitCode {
    for (i, line) in lines.iter().enumerate() {
        let plain = line.contains("error:") || line.starts_with("note:");
        eprintln!("{}{line}", if i == 0 && !plain { "error: " } else { "" });
    }
    std::process::ExitCode::FAILURE
}
