//! `cargo xtask suite NAME`: a long suite of `tools/suites`, with the package and the compiler of this checkout.

use crate::failure::{Context, Failure, Result};
use crate::sh::Cmd;
use crate::{build, paths, pyenv, setup, wheel};
use std::path::{Path, PathBuf};

/// Options of `suite`.
#[derive(clap::Args)]
pub struct Args {
    /// Which one: opinfo, random_graphs, models, slices
    name: String,
    /// Build for speed, as the package is built for users
    #[arg(long)]
    release: bool,
    /// What the suite itself takes, as --device cuda --slice 1/8 --json FILE; --help shows all
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

/// The suites there are: scripts and folders of `tools/suites`, by name.
fn known() -> Result<Vec<String>> {
    let folder = paths::root().join("tools/suites");
    let entries = std::fs::read_dir(&folder).context(|| format!("reading {}", folder.display()))?;
    let mut names: Vec<String> = entries.flatten().filter_map(|e| name_of(&e.path())).collect();
    names.sort();
    names.dedup();
    Ok(names)
}

fn name_of(path: &Path) -> Option<String> {
    let stem = path.file_stem()?.to_str()?.to_owned();
    let runs = if path.is_dir() {
        path.join("__main__.py").is_file()
    } else {
        path.extension()? == "py" && std::fs::read_to_string(path).ok()?.contains("__main__")
    };
    (runs && stem != "workers").then_some(stem)
}

/// Builds what the suite needs, and runs it. It fails when the suite does.
pub fn run(args: &Args) -> Result<()> {
    let names = known()?;
    if !names.contains(&args.name) {
        return Err(Failure::new(format!("there is no suite '{}'", args.name))
            .fix(format!("known: {}", names.join(", "))));
    }
    setup::ensure()?;
    command(&args.name, args.release)?
        .args(&args.rest)
        .run()
        .map_err(|_| Failure::new(format!("the suite {} found failures", args.name)))
}

/// What runs a suite there is, with all that it needs built.
pub fn command(name: &str, release: bool) -> Result<Cmd> {
    let (python, site, path) = environment(release)?;
    let folder = paths::root().join("tools/suites");
    let script = [folder.join(name), folder.join(format!("{name}.py"))];
    let script = script
        .into_iter()
        .find(|path| name_of(path).is_some())
        .ok_or_else(|| Failure::new(format!("tools/suites has no {name}")))?;
    Ok(Cmd::new(python).dir(&paths::root()).env("PATH", path).env("PYTHONPATH", site).arg(script))
}

/// Python, the folder of the unpacked package, and a PATH on which the compiler is found.
fn environment(release: bool) -> Result<(PathBuf, PathBuf, std::ffi::OsString)> {
    let python = pyenv::need_python()?;
    let site = if release { wheel::unpacked_release_build()? } else { wheel::unpacked_debug_build()? };
    let links = build::links(&build::strata(release)?)?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(links).chain(std::env::split_paths(&path)))
        .context(|| "putting strata on the search path".into())?;
    Ok((python, site, path))
}
