//! `strata serve`: the compile server on standard input and output.

use std::io::{BufReader, BufWriter};
use std::process::ExitCode;

/// Serve compile requests on standard input and output; started by programs, not by people
#[derive(clap::Args, Debug)]
pub struct Args {}

/// Runs the command.
pub fn main(_: &Args) -> ExitCode {
    let mut input = BufReader::new(std::io::stdin());
    let mut output = BufWriter::new(std::io::stdout());
    match strata_compiler::serve::serve(&mut input, &mut output) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => super::fail(&[e.to_string()]),
    }
}
