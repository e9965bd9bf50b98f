//! `cargo xtask setup`: system packages and the tests' Python. Every step is skipped when it is done already.

use crate::apt;
use crate::failure::{Failure, Result};
use crate::pyenv::{self, State};
use crate::sh::{self, Cmd};
use crate::{paths, version::Version};

/// Options of `setup`.
#[derive(clap::Args, Default)]
pub struct Args {
    /// Also install cargo-nextest (from source); without it, tests run through `cargo test`
    #[arg(long)]
    pub with_nextest: bool,
    /// Skip the Python environment (about 6 GB, mostly PyTorch)
    #[arg(long)]
    pub no_python: bool,
}

/// Runs every step that is not done yet.
pub fn run(args: &Args) -> Result<()> {
    system_packages(!args.no_python)?;
    check_llvm()?;
    if !args.no_python {
        python_environment()?;
    }
    if args.with_nextest {
        nextest()?;
    }
    Ok(())
}

/// What `test`, `lint` and `demo` do first.
pub fn ensure() -> Result<()> {
    run(&Args::default())
}

fn done(what: &str) {
    eprintln!("setup: {what}: ready");
}

fn system_packages(python: bool) -> Result<()> {
    let mut wanted = apt::PACKAGES.to_vec();
    // Python from elsewhere (a container image, pyenv) is as good as Debian's.
    if python && std::env::var_os("STRATA_PYTHON").is_none() && pyenv::find_base_interpreter().is_none() {
        wanted.extend(["python3", "python3-venv"]);
    }
    match apt::missing(&wanted) {
        Some(missing) if missing.is_empty() => done("system packages"),
        Some(missing) => {
            eprintln!("setup: system packages: installing {}", missing.join(" "));
            apt::install(&missing)?;
        }
        // Not a Debian: the checks that follow say whether LLVM is there.
        None => eprintln!("setup: system packages: no dpkg here, not checked"),
    }
    Ok(())
}

fn check_llvm() -> Result<()> {
    let config = paths::need_llvm_tool("llvm-config").map_err(|failure| {
        failure.fix(
            "install LLVM and MLIR 22, or set MLIR_SYS_220_PREFIX and LLVM_SYS_221_PREFIX to where they are",
        )
    })?;
    let said = Cmd::new(&config).arg("--version").check()?;
    match Version::find(&said) {
        Some(Version(22, ..)) => Ok(()),
        _ => {
            Err(Failure::new(format!("{} is LLVM {}, this project needs 22", config.display(), said.trim()))
                .fix("set MLIR_SYS_220_PREFIX and LLVM_SYS_221_PREFIX to an installation of LLVM 22"))
        }
    }
}

fn python_environment() -> Result<()> {
    match pyenv::state()? {
        State::Ready => done("Python environment"),
        State::Stale => {
            eprintln!(
                "setup: Python environment: installing {} into .strata-env (about 6 GB of disk; pip is silent for minutes)",
                pyenv::REQUIREMENTS
            );
            pyenv::install()?;
        }
    }
    Ok(())
}

/// Whether cargo-nextest is installed.
pub fn has_nextest() -> bool {
    sh::which("cargo-nextest").is_some()
        || std::env::var_os("CARGO_HOME")
            .is_some_and(|home| sh::is_executable(&std::path::Path::new(&home).join("bin/cargo-nextest")))
}

fn nextest() -> Result<()> {
    if has_nextest() {
        done("cargo-nextest");
        return Ok(());
    }
    Cmd::cargo(&paths::root())
        .args(["install", "cargo-nextest", "--locked"])
        .run()
        .map_err(|failure| failure.fix("tests run without it too: leave out --with-nextest"))
}
