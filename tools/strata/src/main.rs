//! The multi-call binary.

mod commands;

use clap::Parser;

#[derive(Parser)]
#[command(name = "strata", version)]
enum Cli {
    Compile(commands::compile::Args),
    Demo(commands::demo::Args),
    Run(commands::run::Args),
    Serve(commands::serve::Args),
    Translate(commands::translate::Args),
}

fn main() -> std::process::ExitCode {
    match Cli::parse() {
        Cli::Compile(a) => commands::compile::main(&a),
        Cli::Demo(a) => commands::demo::main(&a),
        Cli::Run(a) => commands::run::main(&a),
        Cli::Serve(a) => commands::serve::main(&a),
        Cli::Translate(a) => commands::translate::main(&a),
    }
}
