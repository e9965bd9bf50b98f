//! `strata opt`: passes over MLIR.

mod worker;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use strata_compiler::driver::observe::Filter;
use strata_compiler::target::Target;

/// Options of `opt`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// MLIR text or bytecode; `-` is standard input
    #[arg(default_value = "-")]
    pub file: PathBuf,
    /// Where the result goes; `-` is standard output
    #[arg(short, long, default_value = "-", value_name = "FILE")]
    pub output: PathBuf,
    /// The pipeline: `a,b{x=1}` or `builtin.module(func.func(cse),a)`, own and upstream passes mixed
    #[arg(
        long,
        alias = "pass-pipeline",
        default_value = "",
        hide_default_value = true,
        value_name = "PIPELINE"
    )]
    pub passes: String,
    /// What code is made for: cpu, cpu:x86-64-v3, nvptx:sm_90a
    #[arg(long, default_value = "cpu")]
    pub target: Target,

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

    /// Verify the IR after each upstream pass (own passes are always verified)
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL", help_heading = "Finding faults")]
    pub verify_each: bool,
    /// Run the first N steps only
    #[arg(long, value_name = "N", help_heading = "Finding faults")]
    pub bisect_limit: Option<usize>,
    /// Treat parts between lines `// -----` as separate programs
    #[arg(long, help_heading = "Finding faults")]
    pub split_input_file: bool,
    /// Compare diagnostics with comments `// expected-error@+1 {{text}}`
    #[arg(long, help_heading = "Finding faults")]
    pub verify_diagnostics: bool,
}

impl Args {
    fn filter(all: bool, names: &[String]) -> Filter {
        match (all, names) {
            (true, _) => Filter::All,
            (_, []) => Filter::None,
            _ => Filter::Passes(names.to_vec()),
        }
    }
}

/// Runs `opt`. `arguments`: the command line behind the program's name.
pub fn main(args: Args, _arguments: &[OsString]) -> ExitCode {
    match worker::run(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}
