//! The multi-call binary: `strata opt …`, or `strata-opt …` through a link of that name.

mod commands;
mod opt;
mod reduce;

use clap::{Parser, Subcommand};
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

/// Strata, a compiler for tensor programs. README.md walks through one; `strata COMMAND --help` says more.
#[derive(Parser)]
#[command(name = "strata", version)]
struct Strata {
    #[command(subcommand)]
    tool: Tool,
}

#[derive(Subcommand)]
enum Tool {
    /// Run passes over MLIR and look at what they do
    Opt(Box<opt::Args>),
    Reduce(Box<reduce::Args>),
    Run(Box<commands::run::Args>),
    Compile(Box<commands::compile::Args>),
    Translate(Box<commands::translate::Args>),
    Serve(commands::serve::Args),
    Demo(commands::demo::Args),
    Selftest(commands::selftest::Args),
}

/// The command line, with the tool's name taken from the link that was called.
fn arguments() -> Vec<OsString> {
    let mut arguments: Vec<OsString> = std::env::args_os().collect();
    let called = arguments.first().map(Path::new).and_then(|p| p.file_name()?.to_str());
    if let Some(tool) = called.and_then(|name| name.strip_prefix("strata-")) {
        let tool = tool.into();
        arguments.insert(1, tool);
    }
    arguments
}

fn main() -> ExitCode {
    let arguments = arguments();
    let strata = Strata::try_parse_from(&arguments).unwrap_or_else(|e| {
        // clap would exit with 2; every refused input of ours exits with 1.
        let code = i32::from(e.use_stderr());
        let _ = e.print();
        std::process::exit(code)
    });
    let supervised = match &strata.tool {
        Tool::Reduce(args) => args.serve.is_none(),
        tool => matches!(tool, Tool::Run(_) | Tool::Compile(_) | Tool::Translate(_) | Tool::Demo(_)),
    };
    if supervised && let Some(code) = commands::supervised(&arguments) {
        return code;
    }
    match strata.tool {
        Tool::Opt(args) => opt::main(&args, &arguments[1..]),
        Tool::Reduce(args) => reduce::main(&args),
        Tool::Run(args) => commands::run::main(&args),
        Tool::Compile(args) => commands::compile::main(&args),
        Tool::Translate(args) => commands::translate::main(&args),
        Tool::Serve(args) => commands::serve::main(&args),
        Tool::Demo(args) => commands::demo::main(&args),
        Tool::Selftest(args) => commands::selftest::main(&args),
    }
}
