//! `strata opt`: passes over MLIR.

mod bisect;
pub(crate) mod job;
mod list;
pub(crate) mod supervise;
pub(crate) mod worker;

use job::Job;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use strata_compiler::driver::bisect::Point;
use strata_compiler::driver::diagnostics::Diagnostic;
use strata_compiler::driver::observe::Filter;
use strata_compiler::driver::session::Watch;
use strata_compiler::target::Target;

/// The program and its pipeline: options that `opt` and `reduce` share.
#[derive(clap::Args, Debug)]
pub struct Program {
    /// MLIR text or bytecode; `-` is standard input
    #[arg(default_value = "-")]
    pub file: PathBuf,
    /// The pipeline: `a,b{x=1}` or `builtin.module(func.func(cse),a)`, own and upstream passes mixed
    #[arg(
        long,
        alias = "pass-pipeline",
        default_value = "",
        hide_default_value = true,
        value_name = "PIPELINE"
    )]
    pub passes: String,
    /// Run the target's phases up to this one
    #[arg(long, value_name = "PHASE", conflicts_with = "passes")]
    pub compile_to: Option<String>,
    /// The input is what this phase left
    #[arg(long, value_name = "PHASE", conflicts_with = "passes")]
    pub compile_from: Option<String>,
    /// What code is made for: cpu, cpu:x86-64-v3, nvptx:sm_90a
    #[arg(long)]
    pub target: Option<Target>,
    /// Verify the IR after each upstream pass (own passes are always verified)
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL", help_heading = "Finding faults")]
    pub verify_each: bool,
    /// FILE is a reproducer: take the pipeline from it
    #[arg(long, conflicts_with_all = ["passes", "compile_to", "compile_from"], help_heading = "Finding faults")]
    pub run_reproducer: bool,
}

/// Options of `opt`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    pub program: Program,
    /// Where the result goes; `-` is standard output
    #[arg(short, long, default_value = "-", value_name = "FILE")]
    pub output: PathBuf,

    /// Print the IR before steps of these passes
    #[arg(long, value_delimiter = ',', value_name = "PASSES", help_heading = "Looking at the IR")]
    pub print_ir_before: Vec<String>,
    /// Print the IR before every step
    #[arg(long, help_heading = "Looking at the IR")]
    pub print_ir_before_all: bool,
    /// Print the IR after steps of these passes
    #[arg(long, value_delimiter = ',', value_name = "PASSES", help_heading = "Looking at the IR")]
    pub print_ir_after: Vec<String>,
    /// Print the IR after every step
    #[arg(long, help_heading = "Looking at the IR")]
    pub print_ir_after_all: bool,
    /// Print after a step only if it changed something
    #[arg(long, help_heading = "Looking at the IR")]
    pub print_ir_change_only: bool,
    /// Print what a failing step left
    #[arg(long, help_heading = "Looking at the IR")]
    pub print_ir_on_failure: bool,
    /// A numbered file for the input and for each step
    #[arg(long, value_name = "DIR", help_heading = "Looking at the IR")]
    pub print_ir_tree: Option<PathBuf>,
    /// A unified diff for each step
    #[arg(long, help_heading = "Looking at the IR")]
    pub ir_diff: bool,
    /// Print ops in MLIR's generic form
    #[arg(long, help_heading = "Looking at the IR")]
    pub print_generic: bool,
    /// Print locations
    #[arg(long, help_heading = "Looking at the IR")]
    pub print_locations: bool,
    /// Leave out constants of more than N elements
    #[arg(long, value_name = "N", help_heading = "Looking at the IR")]
    pub elide_constants: Option<usize>,

    /// Draw the resulting graph
    #[arg(long, value_name = "FILE.svg", help_heading = "Looking at the IR")]
    pub view: Option<PathBuf>,

    /// Where the time went
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "text", value_name = "FORM", help_heading = "Reports (on standard error)")]
    pub timing: Option<Form>,
    /// What the passes counted
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "text", value_name = "FORM", help_heading = "Reports (on standard error)")]
    pub stats: Option<Form>,
    /// One JSON object instead of text, for diagnostics, reports and lists
    #[arg(long, help_heading = "Reports (on standard error)")]
    pub json: bool,
    /// A JSON line for the input and for each step
    #[arg(long, value_name = "FILE", help_heading = "Reports (on standard error)")]
    pub trace: Option<PathBuf>,

    /// Run the program on random inputs before and after each step, and compare
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "0", value_name = "SEED", help_heading = "Finding faults")]
    pub check_semantics: Option<u64>,
    /// Print, parse and print the result again, and compare
    #[arg(long, help_heading = "Finding faults")]
    pub verify_roundtrip: bool,
    /// Run the first N steps only [of the last one M rewrites only], and say which
    #[arg(long, value_name = "N[.M]", help_heading = "Finding faults")]
    pub bisect_limit: Option<Point>,
    /// Find the first bad step and rewrite: by itself (run), or asking each time (bad to begin, then good or bad)
    #[arg(long, value_name = "HOW", conflicts_with_all = ["bisect_limit", "split_input_file"], help_heading = "Finding faults")]
    pub bisect: Option<bisect::How>,
    /// With --bisect=run: the IR is good where this shell command succeeds on its file, which it gets as last argument or for {}
    #[arg(long, value_name = "COMMAND", requires = "bisect", help_heading = "Finding faults")]
    pub good_if: Option<String>,
    /// With --bisect=good and bad: what is known so far
    #[arg(long, value_name = "FILE", default_value = ".strata-bisect.json", help_heading = "Finding faults")]
    pub bisect_state: PathBuf,
    /// Treat parts between lines `// -----` as separate programs
    #[arg(long, help_heading = "Finding faults")]
    pub split_input_file: bool,
    /// Compare diagnostics with comments `// expected-error@+1 {{text}}`
    #[arg(long, help_heading = "Finding faults")]
    pub verify_diagnostics: bool,
    /// Write a reproducer before every step into this folder (a failing step always gets one)
    #[arg(long, value_name = "DIR", help_heading = "Finding faults")]
    pub reproducer_dir: Option<PathBuf>,
    /// Give up after so many seconds
    #[arg(long, value_name = "SECONDS", help_heading = "Finding faults")]
    pub timeout: Option<f64>,
    /// Do not use a child process: a crash ends this one
    #[arg(long, help_heading = "Finding faults")]
    pub in_process: bool,

    /// List the passes: own (default), upstream, all
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "own", value_name = "WHICH", help_heading = "Lists")]
    pub list_passes: Option<list::Which>,
    /// List the phases of the target
    #[arg(long, help_heading = "Lists")]
    pub list_phases: bool,
    /// List the ops of the graph dialect
    #[arg(long, help_heading = "Lists")]
    pub list_ops: bool,
    /// With --list-ops: the reference page
    #[arg(long, requires = "list_ops", help_heading = "Lists")]
    pub markdown: bool,

    /// The child process's side: its scratch folder
    #[arg(long, hide = true, value_name = "DIR")]
    pub worker: Option<PathBuf>,
    /// The child process's side: only this part of a split file
    #[arg(long, hide = true, value_name = "N")]
    pub part: Option<usize>,
}

/// Form of a report.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// For people.
    Text,
    /// For programs.
    Json,
}

impl Args {
    fn filter(all: bool, names: &[String]) -> Filter {
        match (all, names) {
            (true, _) => Filter::All,
            (_, []) => Filter::None,
            _ => Filter::Passes(names.to_vec()),
        }
    }

    fn watch(&self) -> Watch {
        let changes = self.print_ir_change_only && self.print_ir_after.is_empty();
        Watch {
            before: Self::filter(self.print_ir_before_all, &self.print_ir_before),
            after: Self::filter(self.print_ir_after_all || changes, &self.print_ir_after),
            change_only: self.print_ir_change_only,
            on_failure: self.print_ir_on_failure,
            tree: self.print_ir_tree.clone(),
            diff: self.ir_diff,
        }
    }
}

/// Runs `opt`. `arguments`: the command line from the tool's name on.
pub fn main(args: &Args, arguments: &[OsString]) -> ExitCode {
    let done = if args.list_passes.is_some() || args.list_phases || args.list_ops {
        list::print(args)
    } else if let Some(how) = args.bisect {
        Job::new(args).and_then(|job| bisect::run(args, &job, how))
    } else if args.in_process || args.worker.is_some() {
        Job::new(args).and_then(|job| worker::run(args, &job))
    } else {
        Job::new(args).and_then(|job| supervise::run(args, &job, arguments))
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            if args.json {
                let diagnostic = Diagnostic::error(None, message);
                eprintln!("{}", serde_json::json!({"diagnostics": [diagnostic]}));
            } else {
                eprintln!("{message}");
            }
            ExitCode::FAILURE
        }
    }
}
