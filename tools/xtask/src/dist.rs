//! `cargo xtask dist`: one static `strata` that needs nothing but libc, libm and libgcc_s.

use crate::failure::{Context, Failure, Result};
use crate::paths::{self, file_size, human_size, shown};
use crate::setup;
use crate::sh::{self, Cmd};
use crate::version::Version;
use std::path::{Path, PathBuf};

/// Options of `dist`.
#[derive(clap::Args, Default)]
pub struct Args {
    /// Leave out the compressed copy
    #[arg(long)]
    no_compress: bool,
}

/// What LLVM uses from outside and what `ld` would otherwise take as shared libraries.
const STATIC_LIBRARIES: [&str; 5] = ["libstdc++.a", "libz.a", "libzstd.a", "libffi.a", "libxml2.a"];

/// Shared libraries that a shipped program may need: the C library's own, and gcc's unwinder.
const ALLOWED: [&str; 7] = [
    "libc.so.6",
    "libm.so.6",
    "libgcc_s.so.1",
    "libdl.so.2",
    "libpthread.so.0",
    "librt.so.1",
    "ld-linux-x86-64.so.2",
];

/// Builds, checks, compresses, prints sizes.
pub fn run(args: &Args) -> Result<()> {
    setup::run(&setup::Args { no_python: true, ..setup::Args::default() })?;
    let binary = build()?;
    let symbols = Cmd::new("readelf").args(["-V", "-W"]).arg(&binary).check()?;
    let glibc = newest_glibc(&symbols)
        .map(|found| format!("  needs glibc {}.{}", found.0, found.1))
        .unwrap_or_default();
    println!("{}  {}{glibc}", human_size(file_size(&binary)), shown(&binary));
    if !args.no_compress {
        let packed = compress(&binary)?;
        println!("{}  {}", human_size(file_size(&packed)), shown(&packed));
    }
    Ok(())
}

/// Builds the static binary and checks that it is one.
pub fn build() -> Result<PathBuf> {
    let target = paths::root().join("target-static");
    let libraries = static_libraries(&target)?;
    let mut flags = vec![format!("-Lnative={}", libraries.display())];
    // Identical functions are folded: a seventh of MLIR's code is copies of templates.
    for flag in ["-Clink-arg=-static-libgcc", "-Clink-arg=-Wl,--icf=all", "-Cstrip=symbols"] {
        flags.push(flag.to_owned());
    }
    Cmd::cargo(&paths::root())
        .env("MLIR_SYS_LINK_SHARED", "0")
        .env("CARGO_TARGET_DIR", &target)
        // Separated by 0x1f, so that paths may hold spaces.
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"))
        .args(["build", "--release", "--package", "strata", "--no-default-features", "--features", "static"])
        .run()
        .map_err(|failure| failure.fix("see the messages above; `cargo xtask doctor` checks the tools"))?;
    let binary = target.join("release/strata");
    check(&binary)?;
    Ok(binary)
}

/// A folder that holds only archives, so that the linker finds no shared library of the same name first.
fn static_libraries(target: &Path) -> Result<PathBuf> {
    let folder = target.join("static-libraries");
    std::fs::create_dir_all(&folder).context(|| format!("making {}", folder.display()))?;
    for name in STATIC_LIBRARIES {
        let answer = Cmd::new("c++").arg(format!("-print-file-name={name}")).check()?;
        let file = Path::new(answer.trim());
        // The compiler repeats the bare name where it does not know the file.
        if !file.is_absolute() {
            return Err(Failure::new(format!("no {name} on this machine")).fix("cargo xtask setup"));
        }
        let link = folder.join(name);
        std::fs::remove_file(&link).ok();
        std::os::unix::fs::symlink(file, &link).context(|| format!("linking {}", link.display()))?;
    }
    Ok(folder)
}

fn check(binary: &Path) -> Result<()> {
    let dynamic = Cmd::new("readelf").args(["-d", "-W"]).arg(binary).check()?;
    let extra: Vec<String> =
        needed(&dynamic).into_iter().filter(|name| !ALLOWED.contains(&name.as_str())).collect();
    if extra.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!("{} is not static: it needs {}", shown(binary), extra.join(", ")))
        .fix("add the archive of that library to STATIC_LIBRARIES in tools/xtask/src/dist.rs"))
}

/// Names of the shared libraries in what `readelf -d` prints.
pub fn needed(dynamic: &str) -> Vec<String> {
    let lines = dynamic.lines().filter(|line| line.contains("(NEEDED)"));
    lines.filter_map(|line| Some(line.split_once('[')?.1.split_once(']')?.0.to_owned())).collect()
}

/// The newest glibc whose symbols are used, from what `readelf -V` prints.
fn newest_glibc(symbols: &str) -> Option<Version> {
    symbols.split("GLIBC_").skip(1).filter_map(|rest| Version::parse(rest.split_whitespace().next()?)).max()
}

/// Compresses beside the file, with xz, or zstd where there is no xz.
pub fn compress(file: &Path) -> Result<PathBuf> {
    let name = file.display();
    if sh::which("xz").is_some() {
        Cmd::new("xz").args(["-6", "--threads=1", "--keep", "--force"]).arg(file).run()?;
        return Ok(PathBuf::from(format!("{name}.xz")));
    }
    if sh::which("zstd").is_some() {
        Cmd::new("zstd").args(["-19", "--quiet", "--keep", "--force"]).arg(file).run()?;
        return Ok(PathBuf::from(format!("{name}.zst")));
    }
    Err(Failure::new("neither xz nor zstd is installed").fix("cargo xtask setup"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needed_libraries_are_read() {
        let text = "\
Dynamic section at offset 0x4d5c8 contains 29 entries:
  Tag                Type           Name/Value
 0x0000000000000001 (NEEDED)        Shared library: [libgcc_s.so.1]
 0x0000000000000001 (NEEDED)        Shared library: [libc.so.6]
 0x000000000000000c (INIT)          0x5000";
        assert_eq!(needed(text), ["libgcc_s.so.1", "libc.so.6"]);
    }

    #[test]
    fn the_newest_glibc_decides() {
        let text = "0x0010:   Name: GLIBC_2.9  Flags: none\n0x0020:   Name: GLIBC_2.36  Flags: none  Name: GLIBC_2.2.5";
        assert_eq!(newest_glibc(text), Some(Version(2, 36, 0)));
        assert_eq!(newest_glibc("nothing"), None);
    }
}
