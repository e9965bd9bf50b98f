//! Runs other programs: shown, captured, or both.

use crate::failure::{Context, Failure, Result};
use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;

/// A command line under construction. Programs that `cargo run` starts inherit variables that describe xtask
/// itself; they are removed, so that nested builds have the same fingerprint as a plain `cargo build`.
pub struct Cmd {
    inner: Command,
    name: String,
    shown: Vec<String>,
}

/// What a program printed, and whether it succeeded.
pub struct Output {
    /// Exit code 0.
    pub ok: bool,
    /// Exit code, when there was one.
    pub code: Option<i32>,
    /// Standard output, then standard error where both were asked for.
    pub text: String,
}

impl Cmd {
    /// Starts a command line.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        let mut inner = Command::new(program.as_ref());
        for name in inherited_from_cargo(std::env::vars_os().map(|(name, _)| name)) {
            inner.env_remove(name);
        }
        match clean_library_path(std::env::var_os("LD_LIBRARY_PATH")) {
            Some(path) => inner.env("LD_LIBRARY_PATH", path),
            None => inner.env_remove("LD_LIBRARY_PATH"),
        };
        let name = program.as_ref().to_string_lossy().into_owned();
        Self { inner, shown: vec![name.clone()], name }
    }

    /// The cargo that runs us, in the repository's root.
    pub fn cargo(root: &Path) -> Self {
        let mut cmd = Self::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cmd.name = "cargo".into();
        cmd.shown = vec![cmd.name.clone()];
        cmd.dir(root)
    }

    /// Adds an argument.
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.shown.push(quote(&arg.as_ref().to_string_lossy()));
        self.inner.arg(arg);
        self
    }

    /// Adds arguments.
    pub fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        for arg in args {
            self = self.arg(arg);
        }
        self
    }

    /// Sets an environment variable; it is part of the printed command line.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.shown.insert(0, format!("{name}={}", quote(&value.as_ref().to_string_lossy())));
        self.inner.env(name, value);
        self
    }

    /// Sets the working directory.
    pub fn dir(mut self, dir: &Path) -> Self {
        self.inner.current_dir(dir);
        self
    }

    /// The command line as one could type it.
    pub fn line(&self) -> String {
        self.shown.join(" ")
    }

    /// Prints the command line and runs it with our own output; an exit code other than 0 is a failure.
    pub fn run(mut self) -> Result<()> {
        eprintln!("$ {}", self.line());
        let status = self.inner.stdin(Stdio::null()).status();
        let line = self.line();
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(Failure::new(format!("{} ended with {status}", self.name)).command(line)),
            Err(error) => Err(self.not_started(&error)),
        }
    }

    /// Runs silently and returns what was printed (standard output only).
    pub fn capture(mut self) -> Result<Output> {
        let output = self.inner.stdin(Stdio::null()).stderr(Stdio::piped()).output();
        let output = output.map_err(|error| self.not_started(&error))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(Output { ok: output.status.success(), code: output.status.code(), text })
    }

    /// Runs silently; a failure carries the end of what was printed to standard error.
    pub fn check(mut self) -> Result<String> {
        let output = self.inner.stdin(Stdio::null()).output();
        let output = output.map_err(|error| self.not_started(&error))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let tail: Vec<&str> = said.trim().lines().rev().take(15).collect();
        let tail: Vec<&str> = tail.into_iter().rev().collect();
        let what = format!("{} ended with {}\n{}", self.name, output.status, tail.join("\n"));
        Err(Failure::new(what).command(self.line()))
    }

    /// Prints every line as it comes and returns them all. Only a program that cannot start is an error.
    pub fn tee(mut self) -> Result<Output> {
        eprintln!("$ {}", self.line());
        self.inner.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.inner.spawn().map_err(|error| self.not_started(&error))?;
        let (send, receive) = mpsc::channel::<String>();
        let stdout = child.stdout.take().expect("stdout is piped");
        let stderr = child.stderr.take().expect("stderr is piped");
        let readers = [reader(stdout, send.clone()), reader(stderr, send)];
        let mut text = String::new();
        for line in receive {
            println!("{line}");
            text.push_str(&line);
            text.push('\n');
        }
        for thread in readers {
            thread.join().ok();
        }
        let status = child.wait().context(|| format!("waiting for {}", self.line()))?;
        Ok(Output { ok: status.success(), code: status.code(), text })
    }

    fn not_started(&self, error: &std::io::Error) -> Failure {
        Failure::new(format!("cannot start {}: {error}", self.name)).command(self.line())
    }
}

fn reader(
    stream: impl std::io::Read + Send + 'static,
    send: mpsc::Sender<String>,
) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let mut stream = BufReader::new(stream);
        let mut bytes = Vec::new();
        while matches!(stream.read_until(b'\n', &mut bytes), Ok(n) if n > 0) {
            let line = String::from_utf8_lossy(&bytes).trim_end_matches(['\n', '\r']).to_owned();
            bytes.clear();
            if send.send(line).is_err() {
                break;
            }
        }
    })
}

fn inherited_from_cargo(names: impl Iterator<Item = OsString>) -> Vec<OsString> {
    names
        .filter(|name| {
            let name = name.to_string_lossy();
            name.starts_with("CARGO_PKG_")
                || name.starts_with("CARGO_MANIFEST_")
                || matches!(&*name, "CARGO_BIN_NAME" | "CARGO_CRATE_NAME" | "CARGO_PRIMARY_PACKAGE")
        })
        .collect()
}

/// `cargo run` puts its target directories and the toolchain's libraries first; what the user set stays.
fn clean_library_path(path: Option<OsString>) -> Option<OsString> {
    let kept: Vec<PathBuf> = std::env::split_paths(&path?)
        .filter(|dir| {
            let dir = dir.to_string_lossy();
            let cargo =
                dir.contains("/target/debug") || dir.contains("/target/release") || dir.contains("/rustlib/");
            let toolchain = dir.contains("/toolchains/") && dir.ends_with("/lib");
            !cargo && !toolchain && !dir.is_empty()
        })
        .collect();
    if kept.is_empty() { None } else { std::env::join_paths(kept).ok() }
}

fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.into()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// The first program of that name on the search path.
pub fn which(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|file| is_executable(file))
}

/// A file that may be executed.
pub fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// Whether we are root.
pub fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|meta| meta.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_can_be_pasted() {
        let cmd = Cmd::new("sh").arg("-c").arg("echo 'a b'").env("X", "1 2");
        assert_eq!(cmd.line(), r#"X='1 2' sh -c 'echo '\''a b'\'''"#);
    }

    #[test]
    fn tee_collects_both_streams_and_the_exit_code() {
        let output = Cmd::new("sh").arg("-c").arg("echo out; echo err >&2; exit 3").tee().unwrap();
        let mut lines: Vec<&str> = output.text.lines().collect();
        lines.sort_unstable();
        assert_eq!((output.ok, output.code, lines), (false, Some(3), vec!["err", "out"]));
    }

    #[test]
    fn a_failed_check_quotes_what_was_said() {
        let failure = Cmd::new("sh").arg("-c").arg("echo no such thing >&2; exit 1").check().unwrap_err();
        assert!(failure.to_string().contains("no such thing"), "{failure}");
    }

    #[test]
    fn a_missing_program_is_named() {
        let failure = Cmd::new("surely-not-here").check().unwrap_err();
        assert!(failure.to_string().starts_with("error: cannot start surely-not-here"), "{failure}");
    }

    #[test]
    fn library_path_loses_only_cargos_entries() {
        let clean =
            |text: &str| clean_library_path(Some(text.into())).map(|path| path.into_string().unwrap());
        assert_eq!(clean("/x/target/debug/deps:/x/target/debug:/r/toolchains/1.95/lib"), None);
        assert_eq!(
            clean("/x/target/debug/deps:/usr/local/cuda/lib64").as_deref(),
            Some("/usr/local/cuda/lib64")
        );
    }

    #[test]
    fn cargos_own_variables_are_dropped() {
        let names = ["CARGO_PKG_NAME", "CARGO_HOME", "CARGO", "CARGO_MANIFEST_DIR", "CARGO_TARGET_DIR"];
        let dropped = inherited_from_cargo(names.iter().map(OsString::from));
        assert_eq!(dropped, ["CARGO_PKG_NAME", "CARGO_MANIFEST_DIR"]);
    }
}
