//! The work of `opt`, in the process that may die of it.

use super::job::{Job, reproducer_folder};
use super::{Args, Form};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::io::Write;
use std::path::Path;
use std::rc::Rc;
use std::time::Instant;
use strata_compiler::driver::bisect::Point;
use strata_compiler::driver::diagnostics::{Diagnostic, Source};
use strata_compiler::driver::observe::ReproducerWriter;
use strata_compiler::driver::run::{Observer, Report, RunConfig};
use strata_compiler::driver::semantics::{Checked, Semantics};
use strata_compiler::driver::session::{Outcome, PrintStyle, Progress, process};
use strata_compiler::driver::trace::Trace;
use strata_compiler::driver::{expected, report};

/// Writes a file, or standard output.
pub(crate) fn write(file: &Path, text: &str) -> Result<(), String> {
    if file == Path::new("-") {
        // A closed pipe on the other side is no failure of ours.
        let _ = std::io::stdout().lock().write_all(text.as_bytes());
        return Ok(());
    }
    std::fs::write(file, text).map_err(|e| format!("error: cannot write {}: {e}", file.display()))
}

/// Runs the pipeline over every part of the input; false after an error that was told.
pub fn run(args: &Args, job: &Job) -> Result<bool, String> {
    let started = Instant::now();
    let config = RunConfig {
        verify_each: job.verify_each,
        limit: args.bisect_limit,
        keep_input: true,
        ..RunConfig::new(job.target.clone())
    };
    let style = PrintStyle {
        generic: args.print_generic,
        locations: args.print_locations,
        elide: args.elide_constants,
    };
    if let Some(trace) = &args.trace {
        std::fs::write(trace, "").map_err(|e| format!("error: cannot write {}: {e}", trace.display()))?;
    }
    let parts = job.parts(args);
    let (mut ok, mut outputs, mut told) = (true, Vec::new(), Vec::new());
    let mut sessions = Vec::new();
    let checked = Rc::new(RefCell::new(Checked::default()));
    for (number, part) in &parts {
        let mut observers = observers(args, job, *number, &checked)?;
        let mut outcome = process(part, &job.steps, &config, style, &mut observers);
        drop(observers);
        if args.verify_roundtrip {
            roundtrip(part, style, &mut outcome);
        }
        if args.verify_diagnostics {
            let wrong = expected::verify(part, &outcome.diagnostics);
            ok &= wrong.is_empty();
            tell(part, &wrong, args, &mut told);
        } else {
            ok &= !outcome.failed();
            tell(part, &outcome.diagnostics, args, &mut told);
            reproduce(args, job, &outcome, &mut told);
        }
        outputs.extend(outcome.output.take());
        sessions.push((std::mem::take(&mut outcome.times), outcome.report.take()));
    }
    if let Some(limit) = args.bisect_limit {
        tell_limit(args, job, limit, sessions.last().and_then(|(_, r)| r.as_ref()));
    }
    let output = outputs.join("// -----\n\n");
    if !(args.verify_diagnostics && outputs.is_empty()) {
        write(&args.output, &output)?;
    }
    if let (Some(file), true) = (&args.view, ok) {
        let drawing = Instant::now();
        let first = output.split("// -----\n").next().unwrap_or_default();
        write(file, &strata_compiler::driver::view::svg(first)?)?;
        if let Some((times, _)) = sessions.last_mut() {
            times.push(("view", drawing.elapsed().as_secs_f64()));
        }
    }
    let reports: Vec<_> = sessions.iter().filter_map(|(_, r)| r.as_ref()).collect();
    let mut object = json!({});
    if args.json {
        object["diagnostics"] = Value::Array(told);
    }
    if let Some(form) = args.timing {
        let timing = report::Timing::new(
            sessions.iter().map(|(t, r)| (t, r.as_ref())),
            started.elapsed().as_secs_f64(),
        );
        match form {
            Form::Text if !args.json => eprint!("{}", timing.text()),
            _ => object["timing"] = timing.json(),
        }
    }
    if let Some(form) = args.stats {
        let stats = report::stats(reports.iter().copied());
        match form {
            Form::Text if !args.json => eprint!("{}", report::stats_text(&stats)),
            _ => object["stats"] = json!(stats),
        }
    }
    if job.seed.is_some() {
        let checked = checked.borrow();
        if args.json {
            object["semantics"] = json!({"compared": checked.compared, "skipped": checked.skipped});
        } else {
            eprintln!("check-semantics: {} comparisons, {} skipped", checked.compared, checked.skipped.len());
            checked.skipped.iter().for_each(|why| eprintln!("  skipped: {why}"));
        }
    }
    if object.as_object().is_some_and(|o| !o.is_empty()) {
        eprintln!("{object}");
    }
    Ok(ok)
}

/// Says what a limit has left out; for the parent too, the number of rewrites that the last step wanted to make.
fn tell_limit(args: &Args, job: &Job, limit: Point, report: Option<&Report>) {
    let ran = &job.steps[..limit.step.min(job.steps.len())];
    let last = report.and_then(|r| r.steps.last());
    let rewrites = limit.rewrites.map_or(String::new(), |n| format!(" with its first {n} rewrites"));
    let name = ran.last().map(|l| format!(", the last was {}", l.text())).unwrap_or_default();
    eprintln!("bisect: ran {} of {} steps{name}{rewrites}", ran.len(), job.steps.len());
    if let (Some(scratch), Some(record)) = (&args.worker, last) {
        // Without the note the search ends with the step.
        let _ = std::fs::write(scratch.join("rewrites"), record.rewrites.to_string());
    }
}

fn observers<'a>(
    args: &'a Args,
    job: &'a Job,
    part: usize,
    checked: &Rc<RefCell<Checked>>,
) -> Result<Vec<Box<dyn Observer + 'a>>, String> {
    let mut list: Vec<Box<dyn Observer + 'a>> = Vec::new();
    if let Some(scratch) = &args.worker {
        list.push(Box::new(Progress(move |step, _: &str| {
            // Without the note a crash is still reported, only without its step.
            let _ = std::fs::write(scratch.join("progress"), format!("{part} {step}"));
        })));
    }
    if let Some(folder) = &args.reproducer_dir {
        let prefix = if args.split_input_file { format!("part-{part}-") } else { String::new() };
        list.push(Box::new(ReproducerWriter::new(folder.clone(), prefix, job.reproducer(""))));
    }
    if let Some(trace) = &args.trace {
        list.push(Box::new(Trace::append(trace, part).map_err(|e| format!("error: {e}"))?));
    }
    if let Some(seed) = job.seed {
        list.push(Box::new(Semantics::new(seed, Rc::clone(checked))));
    }
    list.extend(
        args.watch()
            .observers(args.split_input_file.then_some(part))
            .into_iter()
            .map(|o| o as Box<dyn Observer>),
    );
    Ok(list)
}

/// Parses what was printed, prints it again and compares.
fn roundtrip(part: &Source, style: PrintStyle, outcome: &mut Outcome) {
    let Some(first) = &outcome.output else { return };
    let printed = Source { name: format!("{} as printed", part.name), bytes: first.clone().into_bytes() };
    let config = RunConfig::new(strata_compiler::target::Target::native());
    let again = process(&printed, &[], &config, style, &mut []);
    match again.output {
        Some(second) if second == *first => {}
        Some(_) => outcome
            .diagnostics
            .push(Diagnostic::error(None, "the printed IR prints differently after parsing it again")),
        None => {
            outcome.diagnostics.push(Diagnostic::error(None, "the printed IR cannot be parsed again"));
            outcome.diagnostics.extend(again.diagnostics);
        }
    }
}

/// Shows diagnostics, or keeps them for the JSON object.
fn tell(part: &Source, diagnostics: &[Diagnostic], args: &Args, told: &mut Vec<Value>) {
    for diagnostic in diagnostics {
        if args.json {
            told.push(json!(diagnostic));
        } else {
            eprint!("{}", diagnostic.render(part));
        }
    }
}

/// Writes a reproducer of the step that failed and says how to run it.
fn reproduce(args: &Args, job: &Job, outcome: &Outcome, told: &mut Vec<Value>) {
    let Some(stopped) = &outcome.stopped else { return };
    let mut command = job.command(args);
    if let Some(input) = &stopped.input {
        let name = job.steps[stopped.number - 1].name.clone();
        match job.reproducer(&stopped.pipeline).write(&reproducer_folder(args), &name, input) {
            Ok(path) => {
                let seed = job.seed.map(|s| format!(" --check-semantics={s}")).unwrap_or_default();
                command = format!("strata opt --run-reproducer {}{seed}", path.display());
            }
            Err(message) => eprintln!("warning: {message}"),
        }
    }
    if args.json {
        told.push(json!({"severity": "note", "message": "reproduce", "command": command}));
    } else {
        eprintln!("reproduce with: {command}");
    }
}
