//! `cargo xtask test`: set-up, then Rust tests, lit tests and Python tests, and one line that counts them all. In CI also
//! the week's slices of the long suites.

use crate::failure::{Context, Failure, Result};
use crate::sh::Cmd;
use crate::summary::{self, Counts};
use crate::{build, paths, pyenv, setup, suite, wheel};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Options of `test`.
#[derive(clap::Args)]
pub struct Args {
    /// Only tests whose name holds this text
    filter: Option<String>,
    /// Also write the counts to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Only these suites; default: all but `slices`, the week's slices of the long suites
    #[arg(long, value_enum, value_delimiter = ',')]
    suite: Vec<Suite>,
}

/// The kinds of tests.
#[derive(clap::ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
enum Suite {
    Rust,
    Lit,
    Python,
    Slices,
}

impl Suite {
    const USUAL: [Self; 3] = [Self::Rust, Self::Lit, Self::Python];

    fn name(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::Lit => "lit",
            Self::Python => "python",
            Self::Slices => "slices",
        }
    }
}

/// How one suite went.
struct Outcome {
    suite: Suite,
    counts: Counts,
    /// Why it did not run, or what broke it.
    note: Option<String>,
    broken: bool,
    took: Duration,
}

impl Outcome {
    fn ok(&self) -> bool {
        !self.broken && self.counts.failed == 0
    }

    fn line(&self) -> String {
        let note = self.note.as_deref().map(|note| format!("  ({note})")).unwrap_or_default();
        format!("  {:<7} {} in {:.1} s{note}", self.suite.name(), self.counts.line(), self.took.as_secs_f64())
    }
}

/// What a suite returns: counts, and a note where it had nothing to run.
type Ran = Result<(Counts, Option<String>)>;

/// Runs the suites; fails when a test failed or a suite could not run.
pub fn run(args: &Args) -> Result<()> {
    let suites = if args.suite.is_empty() { Suite::USUAL.to_vec() } else { args.suite.clone() };
    setup::ensure()?;
    let outcomes: Vec<Outcome> = suites.into_iter().map(|suite| one(suite, args.filter.as_deref())).collect();
    let mut total = Counts::default();
    outcomes.iter().for_each(|outcome| total.add(&outcome.counts));
    if let Some(file) = &args.json {
        write_json(file, &outcomes, &total)?;
    }
    println!("\nTests");
    outcomes.iter().for_each(|outcome| println!("{}", outcome.line()));
    total.failures.iter().for_each(|name| println!("  failed: {name}"));
    println!("{}", total.line());
    let broken: Vec<&Outcome> = outcomes.iter().filter(|outcome| outcome.broken).collect();
    if let Some(first) = broken.first() {
        let names: Vec<&str> = broken.iter().map(|outcome| outcome.suite.name()).collect();
        let what =
            format!("{} did not run to its end: {}", names.join(", "), first.note.as_deref().unwrap_or(""));
        return Err(Failure::new(what));
    }
    if outcomes.iter().all(Outcome::ok) { Ok(()) } else { Err(Failure::new("tests failed")) }
}

fn one(suite: Suite, filter: Option<&str>) -> Outcome {
    println!("\n== {} tests", suite.name());
    let start = Instant::now();
    let ran = match suite {
        Suite::Rust => rust(filter),
        Suite::Lit => lit(filter),
        Suite::Python => python(filter),
        Suite::Slices => slices(filter),
    };
    let took = start.elapsed();
    match ran {
        Ok((counts, note)) => Outcome { suite, counts, note, broken: false, took },
        Err(failure) => {
            eprintln!("{failure}");
            let first =
                failure.to_string().lines().next().unwrap_or("").trim_start_matches("error: ").to_owned();
            // A suite that cannot run counts as one failure, so that no summary reads as success.
            let counts = Counts { failed: 1, ..Counts::default() };
            Outcome { suite, counts, note: Some(first), broken: true, took }
        }
    }
}

fn rust(filter: Option<&str>) -> Ran {
    let cargo = with_ptxas(Cmd::cargo(&paths::root()));
    let (cmd, read): (Cmd, fn(&str) -> Option<Counts>) = if setup::has_nextest() {
        let quiet = [
            "--no-fail-fast",
            "--no-tests",
            "pass",
            "--status-level",
            "fail",
            "--final-status-level",
            "fail",
        ];
        (cargo.args(["nextest", "run"]).args(build::WORKSPACE).args(quiet).args(filter), summary::nextest)
    } else {
        let kinds = ["--lib", "--bins", "--tests", "--no-fail-fast"];
        (cargo.arg("test").args(build::WORKSPACE).args(kinds).args(filter), summary::cargo_test)
    };
    finish(cmd, "the Rust tests", read, &[])
}

/// Tests that assemble PTX find NVIDIA's assembler by this variable, and skip themselves without it.
fn with_ptxas(cmd: Cmd) -> Cmd {
    match pyenv::ptxas() {
        Some(ptxas) if std::env::var_os("STRATA_PTXAS").is_none() => cmd.env("STRATA_PTXAS", ptxas),
        _ => cmd,
    }
}

fn lit(filter: Option<&str>) -> Ran {
    let folder = paths::root().join("lit-tests");
    if !folder.join("lit.cfg.py").is_file() {
        return Ok((Counts::default(), Some("there are none yet".into())));
    }
    let links = build::links(&build::strata(false)?)?;
    let mut cmd = Cmd::new(paths::need_llvm_tool("lit")?)
        .dir(&paths::root())
        .args(["-v", "--order", "lexical", "--allow-empty-runs"])
        .args(lit_param("strata_links", Some(links)))
        .args(lit_param("llvm_bin", Some(paths::llvm_prefix().join("bin"))))
        .args(lit_param("exec_root", Some(paths::target().join("lit"))))
        .args(lit_param("python", Some(pyenv::need_python()?)))
        .args(lit_param("ptxas", pyenv::ptxas()));
    if let Some(filter) = filter {
        cmd = cmd.args(["--filter", &escape_regex(filter)]);
    }
    finish(cmd.arg("lit-tests"), "the lit tests", summary::lit, &[])
}

fn lit_param(name: &str, value: Option<PathBuf>) -> Vec<String> {
    value.map(|value| vec!["--param".into(), format!("{name}={}", value.display())]).unwrap_or_default()
}

fn escape_regex(text: &str) -> String {
    text.chars().flat_map(|c| (!c.is_ascii_alphanumeric()).then_some('\\').into_iter().chain([c])).collect()
}

fn python(filter: Option<&str>) -> Ran {
    let tests = paths::root().join("tools/python/tests");
    if !has_python_tests(&tests) {
        return Ok((Counts::default(), Some("tools/python/tests has none yet".into())));
    }
    let python = pyenv::need_python()?;
    let site = wheel::unpacked_debug_build()?;
    let links = build::links(&build::strata(false)?)?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(links.clone()).chain(std::env::split_paths(&path)))
        .context(|| "putting strata on the search path".into())?;
    let mut cmd = with_ptxas(Cmd::new(python))
        .dir(&paths::root())
        .env("PATH", path)
        .env("STRATA_BIN", links.join("strata"))
        .env("PYTHONPATH", site)
        .args(["-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider"]);
    if let Some(filter) = filter {
        cmd = cmd.args(["-k", filter]);
    }
    // pytest's exit code 5: it ran and found nothing to do, which a filter may well cause.
    finish(cmd.arg(tests), "the Python tests", summary::pytest, &[5])
}

/// The week's slices of the long suites; a filter that is no part's name leaves nothing to run.
fn slices(filter: Option<&str>) -> Ran {
    if filter.is_some_and(|filter| !["random_graphs", "opinfo"].contains(&filter)) {
        return Ok((Counts::default(), Some("a filter may be random_graphs or opinfo".into())));
    }
    let cmd = suite::command("slices", false)?.args(filter);
    finish(cmd, "the slices of the suites", summary::pytest, &[])
}

fn has_python_tests(folder: &Path) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).any(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        (path.is_dir() && has_python_tests(&path)) || (name.starts_with("test_") && name.ends_with(".py"))
    })
}

/// Runs a test runner. It must either say its counts or end well; a bad exit without a failed test is a breakdown.
fn finish(cmd: Cmd, what: &str, read: fn(&str) -> Option<Counts>, good_codes: &[i32]) -> Ran {
    let line = cmd.line();
    let output = cmd.tee()?;
    let good = output.ok || output.code.is_some_and(|code| good_codes.contains(&code));
    match read(&output.text) {
        Some(counts) if good || counts.failed > 0 => Ok((counts, None)),
        None if good => Ok((Counts::default(), Some("nothing to run".into()))),
        _ => {
            let code = output.code.map_or("a signal".to_owned(), |code| format!("exit code {code}"));
            Err(Failure::new(format!("{what} ended with {code}")).command(line).fix("see the messages above"))
        }
    }
}

fn write_json(file: &Path, outcomes: &[Outcome], total: &Counts) -> Result<()> {
    let suites: Vec<_> = outcomes
        .iter()
        .map(|outcome| {
            json!({
                "suite": outcome.suite.name(),
                "passed": outcome.counts.passed,
                "failed": outcome.counts.failed,
                "skipped": outcome.counts.skipped,
                "failures": outcome.counts.failures,
                "ok": outcome.ok(),
                "note": outcome.note,
                "seconds": outcome.took.as_secs_f64(),
            })
        })
        .collect();
    let report = json!({
        "passed": total.passed, "failed": total.failed, "skipped": total.skipped,
        "ok": outcomes.iter().all(Outcome::ok), "suites": suites,
    });
    std::fs::write(file, format!("{report:#}\n")).context(|| format!("writing {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Ran {
        finish(Cmd::new("sh").args(["-c", script]), "the tests", summary::pytest, &[5])
    }

    #[test]
    fn a_failed_test_is_counted_not_an_error() {
        let (counts, note) = shell("echo '1 failed, 2 passed in 0.1s'; exit 1").unwrap();
        assert_eq!((counts.passed, counts.failed, note), (2, 1, None));
    }

    #[test]
    fn a_breakdown_is_an_error() {
        assert!(shell("echo 'Traceback'; exit 1").is_err());
        assert!(shell("echo '2 passed in 0.1s'; exit 1").is_err());
    }

    #[test]
    fn an_empty_suite_is_fine() {
        let (counts, _) = shell("echo 'no tests ran in 0.01s'; exit 5").unwrap();
        assert_eq!(counts, Counts::default());
    }

    #[test]
    fn a_broken_suite_reads_as_a_failure() {
        let outcome = Outcome {
            suite: Suite::Lit,
            counts: Counts { failed: 1, ..Counts::default() },
            note: Some("no lit".into()),
            broken: true,
            took: Duration::from_millis(1500),
        };
        assert!(!outcome.ok());
        assert_eq!(outcome.line(), "  lit     0 passed, 1 failed in 1.5 s  (no lit)");
    }

    #[test]
    fn filters_are_taken_literally() {
        assert_eq!(escape_regex("a.b-c"), r"a\.b\-c");
    }

    #[test]
    fn python_tests_are_found_in_sub_folders() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!has_python_tests(folder.path()));
        std::fs::create_dir(folder.path().join("deep")).unwrap();
        std::fs::write(folder.path().join("deep/helper.py"), "").unwrap();
        assert!(!has_python_tests(folder.path()));
        std::fs::write(folder.path().join("deep/test_x.py"), "").unwrap();
        assert!(has_python_tests(folder.path()));
    }
}
