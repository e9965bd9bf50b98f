//! `cargo xtask lint`: rustfmt, clippy, and the repository's own checks. Every check runs; all findings are printed.

mod files;
mod links;
mod passes;

use crate::failure::{Failure, Result};
use crate::sh::Cmd;
use crate::{paths, setup};
use std::path::PathBuf;
use std::time::Instant;

/// Options of `lint`.
#[derive(clap::Args)]
pub struct Args {
    /// Only the checks that need neither a build nor LLVM
    #[arg(long)]
    quick: bool,
}

/// Runs every check; fails when one found something.
pub fn run(args: &Args) -> Result<()> {
    let mut failed = Vec::new();
    let mut check = |name: &'static str, found: Result<Vec<String>>| {
        let findings = found.unwrap_or_else(|failure| vec![failure.to_string()]);
        findings.iter().for_each(|finding| println!("{finding}"));
        println!(
            "lint: {name}: {}",
            if findings.is_empty() { "ok".into() } else { format!("{} found", findings.len()) }
        );
        if !findings.is_empty() {
            failed.push(name);
        }
    };
    let root = paths::root();
    let tracked = files::tracked(&root)?;
    check("formatting", cargo(&["fmt", "--all", "--check"]));
    check("file length", files::long(&root, &tracked));
    check("machine paths", files::machine_paths(&root, &tracked));
    check("links in the docs", links::broken(&root, &tracked));
    if !args.quick {
        setup::ensure()?;
        let start = Instant::now();
        check("clippy", cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]));
        println!("lint: clippy took {:.0} s", start.elapsed().as_secs_f64());
    }
    check("a lit test for every pass", passes::without_test(&root));
    if failed.is_empty() {
        return Ok(());
    }
    let fix = if failed == ["formatting"] { "cargo fmt --all" } else { "see the findings above" };
    Err(Failure::new(format!("lint: {}", failed.join(", "))).fix(fix))
}

fn cargo(args: &[&str]) -> Result<Vec<String>> {
    let mut cmd = Cmd::cargo(&paths::root()).args(args);
    if args[0] == "clippy" {
        // The Python crate's build script asks an interpreter for its configuration.
        let python: PathBuf = crate::pyenv::python();
        cmd = cmd.env("PYO3_PYTHON", python);
    }
    Ok(cmd.run().err().map(|failure| failure.to_string()).into_iter().collect())
}
