//! Work in a child process: what ends it becomes data, whatever it is.

use std::fmt;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

/// How a child process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// Killed after the limit.
    TimedOut(Duration),
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(101) => f.write_str("panicked outside of a pass"),
            Self::Code(code) => write!(f, "ended with code {code}"),
            Self::Signal(signal) => {
                let name = match *signal {
                    libc::SIGABRT => " (SIGABRT: an abort in LLVM or MLIR, or a stack overflow)",
                    libc::SIGSEGV => " (SIGSEGV: an access outside of memory, or a stack overflow)",
                    libc::SIGKILL => " (SIGKILL: out of memory, or killed by someone)",
                    libc::SIGILL => " (SIGILL)",
                    libc::SIGFPE => " (SIGFPE)",
                    libc::SIGBUS => " (SIGBUS)",
                    _ => "",
                };
                write!(f, "was ended by signal {signal}{name}")
            }
            Self::TimedOut(limit) => write!(f, "did not end within {} s", limit.as_secs_f64()),
        }
    }
}

/// Makes a command's process leave no core file and not outlive this one.
pub fn confine(command: &mut Command) {
    // SAFETY: only an async-signal-safe call between fork and exec.
    unsafe {
        command.pre_exec(|| {
            let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            Ok(())
        });
    }
}

/// Runs a command to its end; after `limit` it is killed. It leaves no core file, and does not outlive this process.
pub fn run(command: &mut Command, limit: Option<Duration>) -> io::Result<End> {
    confine(command);
    let mut child = command.spawn()?;
    let pid = child.id() as libc::pid_t;
    // A thread that ends with the child wakes the wait: no polling.
    let (done, ended) = mpsc::channel::<()>();
    let guard = limit.map(|limit| {
        std::thread::spawn(move || {
            let late = ended.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout);
            if late {
                // SAFETY: the child is not reaped before `done` is dropped, so the id is still its own.
                unsafe { libc::kill(pid, libc::SIGKILL) };
            }
            late
        })
    });
    // SAFETY: waits without reaping, so that the id stays the child's until the guard has ended.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        while libc::waitid(libc::P_PID, pid as libc::id_t, &raw mut info, libc::WEXITED | libc::WNOWAIT) == -1
            && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
        {}
    }
    drop(done);
    let late = guard.is_some_and(|g| g.join().unwrap_or(false));
    let status = child.wait()?;
    Ok(match (status.code(), status.signal()) {
        (Some(code), _) => End::Code(code),
        (_, Some(libc::SIGKILL)) if late => End::TimedOut(limit.expect("only with a limit")),
        (_, Some(signal)) => End::Signal(signal),
        _ => End::Code(1),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_end_is_told_apart() {
        let sh = |script: &str, limit| run(Command::new("sh").args(["-c", script]), limit).unwrap();
        assert_eq!(sh("exit 3", None), End::Code(3));
        assert_eq!(sh("kill -ABRT $$", None), End::Signal(libc::SIGABRT));
        let limit = Duration::from_millis(20);
        assert_eq!(sh("exec sleep 60", Some(limit)), End::TimedOut(limit));
        assert_eq!(sh("exit 0", Some(Duration::from_secs(60))), End::Code(0));
    }
}
