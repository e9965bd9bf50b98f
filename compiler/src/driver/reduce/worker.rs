//! The process that programs are sent through: started again whenever one of them ends it.
//!
//! On its standard input it takes programs, each after its length in bytes on a line; on its standard output it says `ready`, for each
//! program which step begins (`begin STEP NAME`), and at the end a line `end JSON` with the [`Ending`].

use crate::driver::reduce::ending::{Ending, Kind, Way};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How much of what a dying process said is kept.
const LAST_WORDS: usize = 4000;

/// What the start of a process may take.
const STARTING: Duration = Duration::from_secs(60);

/// The side of the process: sends programs through `way` until there are no more.
pub fn serve(way: &Way) -> std::io::Result<()> {
    let mut input = std::io::stdin().lock();
    let mut line = String::new();
    println!("ready");
    while input.read_line(&mut line)? > 0 {
        let length = line.trim().parse().map_err(std::io::Error::other)?;
        line.clear();
        let mut program = vec![0; length];
        input.read_exact(&mut program)?;
        let program = String::from_utf8(program).map_err(std::io::Error::other)?;
        let say = |text: String| {
            let mut out = std::io::stdout().lock();
            // Without its other side this process has nothing to do.
            if writeln!(out, "{text}").and_then(|()| out.flush()).is_err() {
                std::process::exit(1);
            }
        };
        let ending = way.send(&program, &mut |step, pass| say(format!("begin {step} {pass}")));
        say(format!("end {}", serde_json::to_string(&ending)?));
    }
    Ok(())
}

/// The other side: keeps a process and starts it again.
pub struct Worker {
    command: Box<dyn Fn() -> Result<Command, String>>,
    limit: Duration,
    running: Option<Running>,
}

struct Running {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    errors: File,
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Worker {
    /// With the command that calls [`serve`]. After `limit` a program counts as slow.
    pub fn new(limit: Duration, command: impl Fn() -> Result<Command, String> + 'static) -> Self {
        Self { command: Box::new(command), limit, running: None }
    }

    fn start(&self) -> Result<Running, String> {
        let fail = |e: std::io::Error| format!("cannot start a process: {e}");
        let errors = tempfile::tempfile().map_err(fail)?;
        let mut command = (self.command)()?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors.try_clone().map_err(fail)?);
        crate::driver::child::confine(&mut command);
        let mut child = command.spawn().map_err(fail)?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("a process without its pipes".to_owned());
        };
        // A thread, so that the wait for a line can be given up.
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        // The start is not the program's time.
        match lines.recv_timeout(STARTING) {
            Ok(line) if line == "ready" => Ok(Running { child, input, lines, errors }),
            other => Err(format!("a process does not start: {other:?}")),
        }
    }

    /// Sends a program and waits for its end, whatever it is.
    pub fn send(&mut self, program: &str) -> Result<Ending, String> {
        let mut running = match self.running.take() {
            Some(running) => running,
            None => self.start()?,
        };
        // What was said of earlier programs is none of this one's last words.
        let emptied = running.errors.set_len(0).and_then(|()| running.errors.rewind());
        emptied.map_err(|e| format!("cannot empty a scratch file: {e}"))?;
        let written =
            write!(running.input, "{}\n{program}", program.len()).and_then(|()| running.input.flush());
        let until = Instant::now() + self.limit;
        let (mut step, mut pass) = (None, None);
        while written.is_ok() {
            match running.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    if let Some((number, name)) = line.strip_prefix("begin ").and_then(|l| l.split_once(' '))
                    {
                        (step, pass) = (number.parse().ok(), Some(name.to_owned()));
                    } else if let Some(json) = line.strip_prefix("end ") {
                        let ending = serde_json::from_str(json).map_err(|e| format!("'{line}': {e}"))?;
                        self.running = Some(running);
                        return Ok(ending);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    let message = format!("no end within {} s", self.limit.as_secs_f64());
                    return Ok(Ending { kind: Kind::Slow, step, pass, message });
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let status = running.child.wait().map_err(|e| format!("cannot wait for a process: {e}"))?;
        let kind = Kind::Died(status.signal().unwrap_or_else(|| 256 + status.code().unwrap_or(0)));
        Ok(Ending { kind, step, pass, message: last_words(&mut running.errors) })
    }
}

/// The end of what a process wrote on standard error.
fn last_words(errors: &mut File) -> String {
    let mut bytes = Vec::new();
    let end = errors.seek(SeekFrom::End(0)).unwrap_or(0);
    // What cannot be read back is only missing from the message.
    let _ = errors.seek(SeekFrom::Start(end.saturating_sub(LAST_WORDS as u64)));
    let _ = errors.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).trim().to_owned()
}
