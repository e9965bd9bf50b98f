//! The work of `opt`, in the process that may die of it.

use super::Args;
use std::io::{Read, Write};
use std::path::Path;
use strata_compiler::driver::diagnostics::Source;
use strata_compiler::driver::expected;
use strata_compiler::driver::run::RunConfig;
use strata_compiler::driver::session::{Outcome, PrintStyle, Watch, process};
use strata_compiler::driver::step::{Step, pipeline_text, steps};

/// Reads the input.
fn read(file: &Path) -> Result<Source, String> {
    if file == Path::new("-") {
        let mut bytes = Vec::new();
        std::io::stdin().read_to_end(&mut bytes).map_err(|e| format!("cannot read standard input: {e}"))?;
        return Ok(Source { name: "-".into(), bytes });
    }
    let bytes = std::fs::read(file).map_err(|e| format!("cannot read {}: {e}", file.display()))?;
    Ok(Source { name: file.display().to_string(), bytes })
}

fn write(file: &Path, text: &str) -> Result<(), String> {
    if file == Path::new("-") {
        // A closed pipe on the other side is no failure of ours.
        let _ = std::io::stdout().lock().write_all(text.as_bytes());
        return Ok(());
    }
    std::fs::write(file, text).map_err(|e| format!("cannot write {}: {e}", file.display()))
}

/// Runs the pipeline over every part of the input; false after an error that was told.
pub fn run(args: &Args) -> Result<bool, String> {
    let steps = match steps(&args.passes) {
        Ok(steps) => steps,
        Err(e) => {
            eprintln!("{}", e.render(&args.passes));
            return Ok(false);
        }
    };
    let source = read(&args.file)?;
    let config = RunConfig {
        verify_each: args.verify_each,
        limit: args.bisect_limit,
        ..RunConfig::new(args.target.clone())
    };
    let style = PrintStyle {
        generic: args.print_generic,
        locations: args.print_locations,
        elide: args.elide_constants,
    };
    let watch = Watch {
        before: Args::filter(args.print_ir_before_all, &args.print_ir_before),
        after: Args::filter(
            args.print_ir_after_all || (args.print_ir_change_only && args.print_ir_after.is_empty()),
            &args.print_ir_after,
        ),
        change_only: args.print_ir_change_only,
        on_failure: args.print_ir_on_failure,
        tree: args.print_ir_tree.clone(),
        diff: args.ir_diff,
    };
    let parts = if args.split_input_file { source.split() } else { vec![source.clone()] };
    let (mut ok, mut outputs) = (true, Vec::new());
    for (i, part) in parts.iter().enumerate() {
        let mut observers = watch.observers((parts.len() > 1).then_some(i + 1));
        let outcome = process(part, &steps, &config, style, &mut observers);
        if args.verify_diagnostics {
            for wrong in expected::verify(part, &outcome.diagnostics) {
                ok = false;
                eprint!("{}", wrong.render(part));
            }
        } else {
            tell(part, &outcome, args, &steps);
            ok &= !outcome.failed();
        }
        outputs.extend(outcome.output);
    }
    write(&args.output, &outputs.join("// -----\n"))?;
    Ok(ok)
}

/// Shows what was said about a part.
fn tell(part: &Source, outcome: &Outcome, args: &Args, steps: &[Step]) {
    for diagnostic in &outcome.diagnostics {
        eprint!("{}", diagnostic.render(part));
    }
    if outcome.stopped.is_some() {
        eprintln!(
            "reproduce with: strata opt {} --passes='{}' --target={}",
            args.file.display(),
            pipeline_text(steps),
            args.target
        );
    }
}
