//! The project's chores: set-up, tests, checks, packaging. Builds on a machine without LLVM.
//!
//! One sub-command is one file. Shared parts: `sh` (running commands), `failure`, `paths`, `version`, `summary`.

mod apt;
mod build;
mod demo;
mod dist;
mod doctor;
mod failure;
mod lint;
mod pack;
mod paths;
mod pyenv;
mod setup;
mod sh;
mod suite;
mod summary;
mod test;
mod version;
mod wheel;

use clap::{Parser, Subcommand};
use failure::Result;
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Strata's chores", version, disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Install what the build and the tests need: system packages, Python environment
    Setup(setup::Args),
    /// Say what is found, what is missing, and in which versions
    Doctor(doctor::Args),
    /// Formatting, clippy, and the repository's own checks
    Lint(lint::Args),
    /// Set up, then run every test: Rust, lit, Python
    Test(test::Args),
    /// Run a long suite beside PyTorch: opinfo, random_graphs, models, or the week's slices of them
    Suite(suite::Args),
    /// Set up, build, and run the digit classifier through every level
    Demo(demo::Args),
    /// Build the static `strata` binary, stripped and compressed
    Dist(dist::Args),
    /// Build the Python wheel
    Wheel(wheel::Args),
    /// Fill `pack/` for a machine with a GPU and no network
    Pack(pack::Args),
}

fn main() -> ExitCode {
    let outcome: Result<()> = match Cli::parse().command {
        Command::Setup(args) => setup::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Lint(args) => lint::run(&args),
        Command::Test(args) => test::run(&args),
        Command::Suite(args) => suite::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Dist(args) => dist::run(&args),
        Command::Wheel(args) => wheel::run(&args).map(|_| ()),
        Command::Pack(args) => pack::run(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
