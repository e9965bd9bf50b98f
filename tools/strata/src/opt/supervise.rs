//! The parent of the process that does the work: turns its end, whatever it is, into a diagnostic.

use super::Args;
use super::job::{Job, reproducer_folder};
use serde_json::json;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use strata_compiler::driver::bisect::Point;
use strata_compiler::driver::child::{self, End};
use strata_compiler::driver::diagnostics::Diagnostic;
use strata_compiler::driver::step::pipeline_text;

/// A command that runs a tool of this program.
pub(crate) fn this_program(tool: &str) -> Result<Command, String> {
    let program = std::env::current_exe().map_err(|e| format!("error: cannot find this program: {e}"))?;
    let mut command = Command::new(program);
    // Under its own name, so that the tool is the first argument and not the link.
    command.arg0("strata").arg(tool);
    Ok(command)
}

/// Runs the same command line in a child process.
pub fn run(args: &Args, job: &Job, arguments: &[OsString]) -> Result<bool, String> {
    let scratch = tempfile::Builder::new()
        .prefix("strata-opt-")
        .tempdir()
        .map_err(|e| format!("error: cannot make a scratch folder: {e}"))?;
    keep_input(args, job, scratch.path())?;
    let mut command = this_program("opt")?;
    command.args(&arguments[1..]).arg("--worker").arg(scratch.path());
    let end = child::run(&mut command, limit(args)?)
        .map_err(|e| format!("error: cannot start a child process: {e}"))?;
    if let End::Code(code @ (0 | 1)) = end {
        return Ok(code == 0);
    }
    let progress = std::fs::read_to_string(scratch.path().join("progress")).unwrap_or_default();
    let place = progress
        .split_once(' ')
        .and_then(|(p, s)| Some((p.parse::<usize>().ok()?, s.parse::<usize>().ok()?)));
    let (what, command) = match place {
        Some((part, step)) if step <= job.steps.len() => {
            let text = job.steps[step - 1].text();
            let what = format!("step {step} of {}, '{text}', {end}", job.steps.len());
            (what, reproduce(args, job, part, step, scratch.path()).unwrap_or_else(|| job.command(args)))
        }
        _ => (format!("reading the program {end}"), job.command(args)),
    };
    let diagnostic = Diagnostic::error(None, format!("{}: {what}", job.source.name));
    if args.json {
        let note = json!({"severity": "note", "message": "reproduce", "command": command});
        eprintln!("{}", json!({"diagnostics": [diagnostic, note]}));
    } else {
        eprintln!("{diagnostic}\nreproduce with: {command}");
    }
    Ok(false)
}

/// How long a child process may take.
pub(super) fn limit(args: &Args) -> Result<Option<Duration>, String> {
    let limit = |s| Duration::try_from_secs_f64(s).map_err(|e| format!("error: --timeout: {e}"));
    args.timeout.map(limit).transpose()
}

/// The child process that runs the first steps only and writes what they leave.
pub(super) fn part_of(
    args: &Args,
    job: &Job,
    scratch: &Path,
    point: Point,
    output: &Path,
) -> Result<Command, String> {
    let mut command = this_program("opt")?;
    command.arg(&args.program.file).arg("--worker").arg(scratch).arg("-o").arg(output);
    command.arg(format!("--bisect-limit={point}")).arg(format!("--verify-each={}", job.verify_each));
    if job.is_reproducer {
        command.arg("--run-reproducer");
    } else {
        command.arg(format!("--passes={}", pipeline_text(&job.steps)));
    }
    if let Some(target) = &job.target_text {
        command.arg(format!("--target={target}"));
    }
    Ok(command)
}

/// Keeps standard input where child processes find it.
pub(super) fn keep_input(args: &Args, job: &Job, scratch: &Path) -> Result<(), String> {
    if args.program.file != Path::new("-") {
        return Ok(());
    }
    std::fs::write(scratch.join("stdin"), &job.input)
        .map_err(|e| format!("error: cannot keep standard input: {e}"))
}

/// Steps are deterministic: the IR before the fatal one is made again by running those before it.
fn reproduce(args: &Args, job: &Job, part: usize, step: usize, scratch: &Path) -> Option<String> {
    let before = scratch.join("before.mlir");
    let mut command = part_of(args, job, scratch, Point::after(step - 1), &before).ok()?;
    command.arg(format!("--part={part}"));
    if args.split_input_file {
        command.arg("--split-input-file");
    }
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let end = child::run(&mut command, Some(Duration::from_secs(600))).ok()?;
    if end != End::Code(0) {
        return None;
    }
    let program = std::fs::read_to_string(before).ok()?;
    let failing = &job.steps[step - 1];
    let path =
        job.reproducer(&failing.text()).write(&reproducer_folder(args), &failing.name, &program).ok()?;
    Some(format!("strata opt --run-reproducer {}", path.display()))
}
