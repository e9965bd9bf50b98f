//! Building the multi-call binary, and the folder of links through which tests call it.

use crate::failure::{Context, Result};
use crate::paths;
use crate::sh::Cmd;
use std::path::{Path, PathBuf};

/// The Python crate is left out: its symbols are resolved by the interpreter that loads it.
pub const WORKSPACE: [&str; 3] = ["--workspace", "--exclude", "strata-torch"];

/// Builds `strata` and returns its path.
pub fn strata(release: bool) -> Result<PathBuf> {
    let cargo = Cmd::cargo(&paths::root()).arg("build");
    let cmd = if release {
        cargo.args(["--release", "--package", "strata"])
    } else {
        // The same packages as the Rust tests, with `--examples` (there are none) for the same features of what they
        // depend on: anything else would build half of the dependencies twice.
        cargo.args(WORKSPACE).args(["--bins", "--examples"])
    };
    cmd.run().map_err(|failure| {
        failure.fix("see the compiler's messages above; `cargo xtask doctor` checks the tools")
    })?;
    Ok(built_strata(release))
}

/// Where cargo puts `strata`.
pub fn built_strata(release: bool) -> PathBuf {
    paths::target().join(if release { "release" } else { "debug" }).join("strata")
}

/// Makes `target/strata-links/` with `strata`, `strata-opt`, … all pointing at `binary`.
pub fn links(binary: &Path) -> Result<PathBuf> {
    let folder = paths::target().join("strata-links");
    link_into(&folder, binary)?;
    Ok(folder)
}

fn link_into(folder: &Path, binary: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).context(|| format!("making {}", folder.display()))?;
    let names = paths::TOOLS.iter().map(|tool| format!("strata-{tool}"));
    for name in std::iter::once("strata".to_owned()).chain(names) {
        let link = folder.join(name);
        if std::fs::read_link(&link).is_ok_and(|to| to == binary) {
            continue;
        }
        std::fs::remove_file(&link).ok();
        std::os::unix::fs::symlink(binary, &link).context(|| format!("linking {}", link.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_follow_the_binary() {
        let folder = tempfile::tempdir().unwrap();
        let links = folder.path().join("links");
        for binary in ["debug/strata", "release/strata"] {
            let binary = folder.path().join(binary);
            link_into(&links, &binary).unwrap();
            assert_eq!(std::fs::read_link(links.join("strata-opt")).unwrap(), binary);
            assert_eq!(std::fs::read_link(links.join("strata")).unwrap(), binary);
        }
        assert_eq!(std::fs::read_dir(&links).unwrap().count(), paths::TOOLS.len() + 1);
    }
}
