//! The parent of a process that compiles: whatever ends that one, an abort in LLVM included, becomes a message.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use strata_compiler::driver::child::{self, End};

/// Set for the child, and by whoever wants none (debuggers).
const IN_PROCESS: &str = "STRATA_IN_PROCESS";

/// Runs the command line in a child process and gives its exit code, or none if this process is to do the work itself.
pub fn supervised(arguments: &[OsString]) -> Option<ExitCode> {
    if std::env::var_os(IN_PROCESS).is_some() {
        return None;
    }
    // Where no process can be started, the work is done here, without the safety.
    let program = std::env::current_exe().ok()?;
    let mut command = Command::new(program);
    command.arg0("strata").args(&arguments[1..]).env(IN_PROCESS, "1");
    let end = child::run(&mut command, None).ok()?;
    if let End::Code(code @ (0 | 1)) = end {
        return Some(if code == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let tool = arguments.get(1).map(|t| t.to_string_lossy().into_owned()).unwrap_or_default();
    let next = match tool.as_str() {
        "reduce" => "the file of -o holds the smallest program that was found".to_owned(),
        _ => levels_before(),
    };
    let lines = [format!("error: strata {tool} {end}"), format!("note: {next}")];
    Some(super::fail_as(&lines, arguments.iter().any(|a| a == "--json")))
}

/// The command that shows how far the compilation came.
pub fn levels_before() -> String {
    let words: Vec<String> = std::env::args().skip(1).map(quoted).collect();
    if words.iter().any(|w| w.starts_with("--dump-dir")) {
        return "the levels before it are in the folder of --dump-dir".to_owned();
    }
    format!("the levels before it: strata {} --dump-dir=DIR", words.join(" "))
}

fn quoted(word: String) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_can_be_pasted_into_a_shell() {
        assert_eq!(quoted("--dim=rows=3".into()), "--dim=rows=3");
        assert_eq!(quoted("a b'c".into()), r"'a b'\''c'");
    }
}
