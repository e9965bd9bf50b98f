//! `strata reduce FILE … -o SMALL.mlir`: the smallest program that still shows a fault.

use crate::commands::fail_as;
use crate::opt::Program;
use crate::opt::job::Job;
use crate::opt::supervise::this_program;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;
use strata_compiler::driver::reduce::ending::{Checks, Ending, Way};
use strata_compiler::driver::reduce::worker::{self, Worker};
use strata_compiler::driver::reduce::{Judge, Limits, Oracle, Reduced, reduce, report};
use strata_compiler::driver::reproducer::Reproducer;
use strata_compiler::driver::step::{pipeline_text, steps};
use strata_compiler::target::Target;

/// Shrink a program that shows a fault
///
/// Without an oracle, the program itself says what is looked for: how its pipeline fails, or which step changes what it computes.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    pub program: Program,
    /// Where the smallest program goes, as a reproducer; `-` is standard output
    #[arg(short, long, default_value = "-", value_name = "FILE")]
    pub output: PathBuf,

    /// The compiler dies, panics or fails [with TEXT in what it says]
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "", value_name = "TEXT", group = "oracle", help_heading = "What is looked for")]
    pub crash: Option<String>,
    /// A step leaves a module that does not verify
    #[arg(long, group = "oracle", help_heading = "What is looked for")]
    pub verifier: bool,
    /// A step changes what the program computes (--check-semantics of opt)
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "0", value_name = "SEED", group = "oracle", help_heading = "What is looked for")]
    pub wrong: Option<u64>,
    /// The pipeline takes longer
    #[arg(long, value_name = "SECONDS", group = "oracle", help_heading = "What is looked for")]
    pub slow: Option<f64>,
    /// A shell command succeeds on the program's file, which it gets as last argument or for {}
    #[arg(long, value_name = "COMMAND", group = "oracle", help_heading = "What is looked for")]
    pub test: Option<String>,

    /// Try at most so many programs
    #[arg(long, default_value_t = 10_000, value_name = "N", help_heading = "Limits")]
    pub max_candidates: usize,
    /// Stop after so many seconds: what is smallest then depends on the machine
    #[arg(long, value_name = "SECONDS", help_heading = "Limits")]
    pub max_seconds: Option<f64>,
    /// Give up on a single program after so many seconds
    #[arg(long, default_value_t = 60.0, value_name = "SECONDS", help_heading = "Limits")]
    pub timeout: f64,
    /// One JSON object instead of text, and no progress
    #[arg(long)]
    pub json: bool,

    /// The side of the process that programs are sent through: what is looked at
    #[arg(long, hide = true, value_name = "CHECKS")]
    pub serve: Option<Serve>,
}

/// [`Checks`] on a command line.
#[derive(Clone, Copy, Debug)]
pub struct Serve(Checks);

impl std::str::FromStr for Serve {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self(Checks::None)),
            "verifier" => Ok(Self(Checks::Verifier)),
            seed => seed.parse().map(|s| Self(Checks::Semantics(s))).map_err(|e| e.to_string()),
        }
    }
}

fn checks_text(checks: Checks) -> String {
    match checks {
        Checks::None => "none".to_owned(),
        Checks::Verifier => "verifier".to_owned(),
        Checks::Semantics(seed) => seed.to_string(),
    }
}

fn seconds(name: &str, value: f64) -> Result<Duration, String> {
    Duration::try_from_secs_f64(value).map_err(|e| format!("error: --{name}: {e}"))
}

/// Runs `reduce`.
pub fn main(args: &Args) -> ExitCode {
    let done = match args.serve {
        Some(Serve(checks)) => serve(args, checks),
        None => run(args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => fail_as(&[message], args.json),
    }
}

fn serve(args: &Args, checks: Checks) -> Result<(), String> {
    let passes = &args.program.passes;
    let way = Way {
        steps: steps(passes).map_err(|e| e.render(passes))?,
        target: args.program.target.clone().unwrap_or_else(Target::native),
        verify_each: args.program.verify_each,
        checks,
    };
    worker::serve(&way).map_err(|e| format!("error: {e}"))
}

fn run(args: &Args) -> Result<(), String> {
    let mut job = read(args)?;
    let timeout = seconds("timeout", args.timeout)?;
    let asked = asked(args)?;
    // Whatever it is that goes wrong, a run that checks everything meets it.
    let seed = job.seed.unwrap_or(0);
    let oracle = asked.clone().unwrap_or(Oracle::Wrong { seed });
    let worker = |job: &Job, oracle: &Oracle| {
        let (way, checks) = (command(job), oracle.checks());
        let limit = if let Oracle::Slow { limit } = oracle { *limit } else { timeout };
        Worker::new(limit, move || way(checks))
    };
    let mut judge = Judge::new(oracle.clone(), worker(&job, &oracle), timeout)?;
    let program = job.source.text().to_owned();
    if program.is_empty() {
        return Err(format!(
            "{}: error: not a text; strata opt FILE prints bytecode as text",
            job.source.name
        ));
    }
    let first = judge.ending(&program)?;
    let oracle = match asked {
        Some(oracle) => Some(oracle).filter(|o| o.shows(&first, None)),
        None => Oracle::for_ending(&first, seed),
    };
    let Some(oracle) = oracle else {
        return Err(format!(
            "{}: error: the program {}: there is nothing to reduce",
            job.source.name,
            first.text()
        ));
    };
    // What comes behind the step that fails cannot matter.
    if let (Some(step), false) = (first.step, matches!(oracle, Oracle::Slow { .. } | Oracle::Test { .. })) {
        job.steps.truncate(step);
    }
    let mut judge = Judge::new(oracle.clone(), worker(&job, &oracle), timeout)?;
    judge.first = Some(first.clone());
    if !args.json {
        eprintln!("the program {}", first.text());
    }
    let limits = Limits {
        candidates: args.max_candidates,
        time: args.max_seconds.map(|s| seconds("max-seconds", s)).transpose()?,
    };
    let reproducer = Reproducer {
        seed: if let Oracle::Wrong { seed } = oracle { Some(seed) } else { None },
        ..job.reproducer(&pipeline_text(&job.steps))
    };
    let whole = |text: &str| {
        if job.steps.is_empty() { format!("{}\n", text.trim_end()) } else { reproducer.text(text) }
    };
    let mut unwritten = None;
    let reduced = reduce(&program, limits, &mut |text| judge.shows(text), &mut |p| {
        if !args.json {
            eprintln!("{}", report::progress(&p));
        }
        // The file always holds the smallest program so far: a reduction may be interrupted.
        if args.output != Path::new("-") {
            unwritten = write(&args.output, &whole(p.text)).err();
        }
    })
    .map_err(|m| format!("{}: error: {m}", job.source.name))?;
    if let Some(message) = unwritten {
        return Err(message);
    }
    write(&args.output, &whole(&reduced.text))?;
    tell(args, &job, &oracle, &reduced, &first);
    Ok(())
}

/// The program: a reproducer is known by its last part.
fn read(args: &Args) -> Result<Job, String> {
    let program = &args.program;
    let stated = !program.passes.is_empty() || program.compile_to.is_some() || program.compile_from.is_some();
    Job::read(program, None, |text| program.run_reproducer || !stated && text.contains("mlir_reproducer:"))
}

/// The oracle that the command line asks for.
fn asked(args: &Args) -> Result<Option<Oracle>, String> {
    let crash =
        args.crash.as_ref().map(|t| Oracle::Crash { message: Some(t.clone()).filter(|t| !t.is_empty()) });
    let verifier = args.verifier.then_some(Oracle::Verifier);
    let wrong = args.wrong.map(|seed| Oracle::Wrong { seed });
    let slow = args.slow.map(|s| Ok::<_, String>(Oracle::Slow { limit: seconds("slow", s)? })).transpose()?;
    let test = args.test.clone().map(|command| Oracle::Test { command });
    Ok(crash.or(verifier).or(wrong).or(slow).or(test))
}

/// The command of the process that programs are sent through.
fn command(job: &Job) -> impl Fn(Checks) -> Result<Command, String> + 'static {
    let (passes, target, verify) = (pipeline_text(&job.steps), job.target.to_string(), job.verify_each);
    move |checks| {
        let mut command = this_program("reduce")?;
        command.arg(format!("--serve={}", checks_text(checks))).arg(format!("--passes={passes}"));
        command.arg(format!("--target={target}")).arg(format!("--verify-each={verify}"));
        Ok(command)
    }
}

fn write(file: &Path, text: &str) -> Result<(), String> {
    crate::opt::worker::write(file, text)
}

/// Says what came out, and how to see the fault again.
fn tell(args: &Args, job: &Job, oracle: &Oracle, reduced: &Reduced, first: &Ending) {
    let file = args.output.display();
    let command = match oracle {
        Oracle::Test { command } if command.contains("{}") => command.replace("{}", &file.to_string()),
        Oracle::Test { command } => format!("{command} {file}"),
        _ if job.steps.is_empty() => format!("strata opt {file}"),
        Oracle::Slow { limit } => {
            format!("strata opt --run-reproducer {file} --timeout={}", limit.as_secs_f64())
        }
        _ => format!("strata opt --run-reproducer {file}"),
    };
    if args.json {
        eprintln!("{}", report::json(reduced, first, &command));
    } else {
        eprint!("{}", report::text(reduced, first, &command));
    }
}
