//! The client of `strata serve`: starts it, asks it, survives it.
//!
//! The compiler runs in a child process, so that nothing that goes wrong in it takes the user's process along. If the child
//! dies, the request in flight fails with an error that says how it died and where the reproducer is; the next request
//! starts another child.

pub mod cached;
pub mod protocol;

use crate::error::{Error, Result, bail, err};
use crate::events::{Event, EventKind, emit};
use protocol::{CompileOptions, Compiled, Op, Outcome, Request, Response, Source, read_frame, write_frame};
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How the server is found and how long it may take.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// The `strata` binary; see [`find_server`] if unset.
    pub server: Option<PathBuf>,
    /// Arguments of the binary.
    pub args: Vec<String>,
    /// How long one request may take before the server is killed.
    pub timeout: Duration,
    /// How long the server may take to end after a request to shut down.
    pub grace: Duration,
}

impl Default for ClientOptions {
    fn default() -> Self {
        let (timeout, grace) = (Duration::from_secs(1800), Duration::from_secs(2));
        Self { server: None, args: vec!["serve".into()], timeout, grace }
    }
}

/// The server's binary: the path given, else `STRATA_SERVER`, else `strata` beside this executable.
pub fn find_server(given: Option<&Path>) -> Result<PathBuf> {
    const NEXT: &str =
        "set STRATA_SERVER to the path of the strata binary, or put strata beside the executable";
    let from_environment = std::env::var_os("STRATA_SERVER").map(PathBuf::from);
    if let Some(path) = given.map(Path::to_owned).or(from_environment) {
        if path.is_file() {
            return Ok(path);
        }
        return Err(err!(Server, "there is no compile server at this path").at(path.display()).next(NEXT));
    }
    let beside = std::env::current_exe().ok().and_then(|e| Some(e.parent()?.join("strata")));
    match beside {
        Some(path) if path.is_file() => Ok(path),
        _ => Err(err!(Server, "the compile server (strata) is not found").next(NEXT)),
    }
}

/// A compile server and the way to talk to it. Requests from several threads take turns.
pub struct Client {
    options: ClientOptions,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    running: Option<Running>,
    next_id: u64,
}

struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    responses: Receiver<Result<Response>>,
    /// The last of what the server wrote to standard error.
    stderr: Arc<Mutex<Vec<u8>>>,
    threads: Vec<JoinHandle<()>>,
}

/// Bytes of the server's standard error that are kept for the error message.
const STDERR_KEPT: usize = 4096;

impl Client {
    /// A client; the server starts with the first request, or with [`Client::start`].
    pub fn new(options: ClientOptions) -> Self {
        Self { options, state: Mutex::default() }
    }

    /// Starts the server if it does not run, without waiting for it: its start overlaps with the caller's work.
    pub fn start(&self) -> Result<()> {
        self.lock().ensure(&self.options).map(|_| ())
    }

    /// Compiles a program.
    pub fn compile(&self, source: Source, options: CompileOptions) -> Result<Compiled> {
        match self.request(Op::Compile { source, options })? {
            Outcome::Compiled(c) => Ok(c),
            Outcome::Failed(f) => Err(f.into()),
            Outcome::Done => bail!(Server, "the compile server answered a compilation without a result"),
        }
    }

    /// Whether the server answers.
    pub fn ping(&self) -> Result<()> {
        self.request(Op::Ping).map(|_| ())
    }

    /// The server's process number, if it runs.
    pub fn process_id(&self) -> Option<u32> {
        self.lock().running.as_ref().map(|r| r.child.id())
    }

    /// Asks the server to end; kills it if it does not.
    pub fn shutdown(&self) {
        let mut state = self.lock();
        if let Some(running) = state.running.take() {
            running.shutdown(self.options.grace);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Sends one request and waits for its answer. A dead server is one error, and an event; the next request starts another.
    pub fn request(&self, op: Op) -> Result<Outcome> {
        let reproducers = match &op {
            Op::Compile { options, .. } => options.reproducer_dir.clone(),
            _ => None,
        };
        let mut state = self.lock();
        state.next_id += 1;
        let id = state.next_id;
        let timeout = self.options.timeout;
        let running = state.ensure(&self.options)?;
        let answer = match running.ask(Request { id, op }, timeout) {
            Ok(outcome) => return Ok(outcome),
            Err(problem) => problem,
        };
        let Some(running) = state.running.take() else {
            bail!(Server, "the compile server is gone");
        };
        drop(state);
        let e = running.autopsy(answer, timeout, reproducers.as_deref());
        emit(Event::new(EventKind::ServerCrash, e.reason()).at(e.place()).next(e.next_step()));
        Err(e)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.shutdown();
    }
}

impl State {
    fn ensure(&mut self, options: &ClientOptions) -> Result<&mut Running> {
        // A server that ended between requests is replaced without a word: nothing was lost.
        if self.running.as_mut().is_some_and(|r| !matches!(r.child.try_wait(), Ok(None))) {
            self.running = None;
        }
        match self.running {
            Some(ref mut running) => Ok(running),
            None => Ok(self.running.insert(Running::spawn(options)?)),
        }
    }
}

/// Why no answer came.
enum Problem {
    /// The server closed its side, or writes failed.
    Gone,
    /// It broke the protocol.
    Broken(Error),
    Timeout,
}

impl Running {
    fn spawn(options: &ClientOptions) -> Result<Self> {
        let path = find_server(options.server.as_deref())?;
        let mut child = Command::new(&path)
            .args(&options.args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| {
                err!(Server, "cannot start the compile server: {e}")
                    .at(path.display())
                    .next("check that the file is an executable for this machine")
            })?;
        let (Some(stdin), Some(mut stdout), Some(mut stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            bail!(Server, "the compile server has no pipes");
        };
        let (send, responses) = channel();
        let reader = std::thread::spawn(move || {
            loop {
                let message = read_frame::<Response>(&mut stdout).transpose();
                let Some(message) = message else { return };
                let broken = message.is_err();
                if send.send(message).is_err() || broken {
                    return;
                }
            }
        });
        let kept = Arc::new(Mutex::new(Vec::new()));
        let keep = kept.clone();
        let errors = std::thread::spawn(move || {
            let mut chunk = [0; 1024];
            while let Ok(n @ 1..) = stderr.read(&mut chunk) {
                let mut kept = keep.lock().unwrap_or_else(|e| e.into_inner());
                kept.extend_from_slice(&chunk[..n]);
                let excess = kept.len().saturating_sub(STDERR_KEPT);
                kept.drain(..excess);
            }
        });
        Ok(Self { child, stdin: Some(stdin), responses, stderr: kept, threads: vec![reader, errors] })
    }

    fn ask(&mut self, request: Request, timeout: Duration) -> Result<Outcome, Problem> {
        let id = request.id;
        let deadline = Instant::now() + timeout;
        // Written by a thread of its own: a server that does not read must not block us beyond the timeout.
        let Some(mut stdin) = self.stdin.take() else { return Err(Problem::Gone) };
        let (sent, written) = channel();
        std::thread::spawn(move || {
            let result = write_frame(&mut stdin, &request);
            let _ = sent.send((stdin, result));
        });
        match written.recv_timeout(timeout) {
            Ok((stdin, Ok(()))) => self.stdin = Some(stdin),
            Ok((_, Err(_))) | Err(RecvTimeoutError::Disconnected) => return Err(Problem::Gone),
            Err(RecvTimeoutError::Timeout) => return Err(Problem::Timeout),
        }
        let left = deadline.saturating_duration_since(Instant::now());
        match self.responses.recv_timeout(left) {
            Ok(Ok(response)) if response.id == id => Ok(response.result),
            Ok(Ok(response)) => {
                Err(Problem::Broken(err!(Server, "request {id} got the answer to request {}", response.id)))
            }
            Ok(Err(e)) if self.ends_soon() => {
                let _ = e;
                Err(Problem::Gone)
            }
            Ok(Err(e)) => Err(Problem::Broken(e)),
            Err(RecvTimeoutError::Disconnected) => Err(Problem::Gone),
            Err(RecvTimeoutError::Timeout) => Err(Problem::Timeout),
        }
    }

    /// Whether the child has died, after a little patience: a pipe breaks before the process is gone.
    fn ends_soon(&mut self) -> bool {
        wait_for(&mut self.child, Duration::from_millis(200)).is_some()
    }

    /// Ends what is left of the server and says what happened.
    fn autopsy(mut self, problem: Problem, timeout: Duration, reproducers: Option<&str>) -> Error {
        drop(self.stdin.take());
        let status = match problem {
            // It had its chance; what follows is our own signal and tells nothing.
            Problem::Timeout | Problem::Broken(_) => None,
            Problem::Gone => wait_for(&mut self.child, Duration::from_secs(5)),
        };
        let _ = self.child.kill();
        let _ = self.child.wait();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        let how = match (problem, status) {
            (Problem::Timeout, _) => {
                format!("the compile server gave no answer in {:.1} s and was killed", timeout.as_secs_f64())
            }
            (Problem::Broken(e), _) => format!("the compile server broke the protocol: {}", e.reason()),
            (Problem::Gone, Some(status)) => format!("the compile server died: {}", describe(status)),
            (Problem::Gone, None) => "the compile server closed its output without ending".into(),
        };
        let stderr = self.stderr.lock().unwrap_or_else(|e| e.into_inner());
        let text = String::from_utf8_lossy(&stderr);
        let lines: Vec<&str> = text.lines().rev().take(8).collect();
        let tail: String = lines.into_iter().rev().map(|l| format!("\n    {l}")).collect();
        let reason = if tail.is_empty() { how } else { format!("{how}; its last words:{tail}") };
        let e = err!(Server, "{reason}");
        match reproducers {
            Some(dir) => match newest_file(Path::new(dir)) {
                Some(file) => e
                    .at(format_args!("reproducer {}", file.display()))
                    .next(format!("to see it again: strata opt --run-reproducer {}", file.display())),
                None => e.next(format!(
                    "no reproducer was written to {dir}; compile again with --dump-dir to see how far it got"
                )),
            },
            None => e.next("compile again with a reproducer folder to get a file that shows it again"),
        }
    }

    fn shutdown(mut self, grace: Duration) {
        if let Some(mut stdin) = self.stdin.take() {
            // A server that is stuck does not read; its pipe takes this small frame anyway.
            let _ = write_frame(&mut stdin, &Request { id: 0, op: Op::Shutdown });
        }
        if wait_for(&mut self.child, grace).is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// The status of a process that ends within `patience`.
fn wait_for(child: &mut Child, patience: Duration) -> Option<ExitStatus> {
    let deadline = Instant::now() + patience;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(2)),
            _ => return None,
        }
    }
}

fn describe(status: ExitStatus) -> String {
    let names = [
        (libc::SIGABRT, "SIGABRT, an abort (a failed assertion or a fatal error of LLVM)"),
        (libc::SIGSEGV, "SIGSEGV, an invalid memory access"),
        (libc::SIGBUS, "SIGBUS, an invalid memory access"),
        (libc::SIGILL, "SIGILL, an illegal instruction"),
        (libc::SIGFPE, "SIGFPE, an arithmetic error"),
        (libc::SIGKILL, "SIGKILL, perhaps for want of memory"),
        (libc::SIGTERM, "SIGTERM"),
    ];
    match status.signal() {
        Some(s) => match names.into_iter().find(|(n, _)| *n == s) {
            Some((_, text)) => format!("signal {s} ({text})"),
            None => format!("signal {s}"),
        },
        None => format!("exit code {}", status.code().unwrap_or(-1)),
    }
}

/// The file written last; by name among those of one time.
fn newest_file(dir: &Path) -> Option<PathBuf> {
    let files = std::fs::read_dir(dir).ok()?.filter_map(|entry| {
        let path = entry.ok()?.path();
        // Others write their own here: the PyTorch package scripts.
        let meta =
            path.metadata().ok().filter(|m| m.is_file() && path.extension().is_none_or(|e| e != "py"))?;
        Some((meta.modified().ok()?, path))
    });
    files.max().map(|(_, path)| path)
}

#[cfg(test)]
mod tests;
