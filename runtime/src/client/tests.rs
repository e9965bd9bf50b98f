//! The server is this test binary itself, run with the one test [`fake_server`], which the environment turns into a server.

use super::*;
use crate::client::protocol::Failure;

const ROLE: &str = "STRATA_TEST_FAKE_SERVER";

fn client(role: &str, timeout_ms: u64) -> Client {
    let dir = std::env::temp_dir();
    let script = dir.join(format!("strata-fake-{role}-{}.sh", std::process::id()));
    let exe = std::env::current_exe().unwrap();
    // The test harness prints a preamble on standard output: the real stream goes to descriptor 3.
    let text = format!(
        "#!/bin/sh\nexec 3>&1\n{ROLE}={role} exec '{}' --exact --nocapture client::tests::fake_server >/dev/null\n",
        exe.display()
    );
    std::fs::write(&script, text).unwrap();
    let options = ClientOptions {
        server: Some("/bin/sh".into()),
        args: vec![script.display().to_string()],
        timeout: Duration::from_millis(timeout_ms),
        grace: Duration::from_secs(5),
    };
    Client::new(options)
}

/// Not a test unless a client above started it.
#[test]
fn fake_server() {
    use std::os::fd::FromRawFd;
    let Ok(role) = std::env::var(ROLE) else { return };
    // SAFETY: the script opened descriptor 3 for us.
    let mut out = unsafe { std::fs::File::from_raw_fd(3) };
    let mut input = std::io::stdin().lock();
    while let Some(request) = read_frame::<Request>(&mut input).unwrap() {
        let result = match request.op {
            Op::Shutdown => break,
            Op::Abort => {
                eprintln!("LLVM ERROR: Cannot select: t5");
                std::process::abort()
            }
            Op::Ping if role == "slow" => hang(),
            Op::Ping => Outcome::Done,
            Op::Compile { source: Source::Mlir(text), options } => match text.as_str() {
                "abort" => {
                    let path = Path::new(&options.reproducer_dir.unwrap()).join("repro.mlir");
                    std::fs::write(path, text).unwrap();
                    std::process::abort()
                }
                "exit" => std::process::exit(3),
                "garbage" => {
                    use std::io::Write;
                    out.write_all(b"warning: this is a line of text on stdout\n").unwrap();
                    hang()
                }
                "bad" => Outcome::Failed(Failure {
                    diagnostics: vec!["no lowering for x".into()],
                    reproducer: Some("r.mlir".into()),
                }),
                _ => Outcome::Compiled(Compiled { artifact: text.into_bytes(), ..Default::default() }),
            },
            Op::Compile { .. } => Outcome::Done,
        };
        write_frame(&mut out, &Response { id: request.id, result }).unwrap();
    }
    std::process::exit(0);
}

fn hang() -> Outcome {
    std::thread::sleep(Duration::from_secs(600));
    Outcome::Done
}

fn mlir(text: &str) -> Source {
    Source::Mlir(text.into())
}

#[test]
fn requests_are_answered_and_failures_are_errors() {
    let c = client("plain", 30_000);
    c.start().unwrap();
    let first = c.process_id().unwrap();
    c.ping().unwrap();
    let large = "x".repeat(3 << 20);
    assert_eq!(c.compile(mlir(&large), CompileOptions::default()).unwrap().artifact, large.as_bytes());
    let e = c.compile(mlir("bad"), CompileOptions::default()).unwrap_err();
    assert_eq!((e.kind(), e.reason()), (crate::ErrorKind::Compile, "no lowering for x"));
    assert!(e.next_step().contains("--run-reproducer r.mlir"));
    assert!(
        c.compile(Source::Fx("{}".into()), CompileOptions::default())
            .unwrap_err()
            .reason()
            .contains("without a result")
    );
    assert_eq!(c.process_id(), Some(first), "the server lives on");
    c.shutdown();
    assert_eq!(c.process_id(), None);
    c.ping().unwrap();
    assert_ne!(c.process_id(), Some(first));
}

#[test]
fn a_server_that_aborts_is_an_error_with_signal_and_reproducer() {
    let c = client("abort", 30_000);
    let e = c.request(Op::Abort).unwrap_err();
    assert_eq!(e.kind(), crate::ErrorKind::Server);
    assert!(
        e.reason().contains("signal 6 (SIGABRT") && e.reason().contains("LLVM ERROR: Cannot select"),
        "{e}"
    );
    c.ping().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().display().to_string();
    let options = CompileOptions { reproducer_dir: Some(path.clone()), ..Default::default() };
    let e = c.compile(mlir("abort"), options).unwrap_err();
    assert_eq!(e.place(), format!("reproducer {path}/repro.mlir"));
    let e = c.compile(mlir("exit"), CompileOptions::default()).unwrap_err();
    assert!(e.reason().contains("exit code 3"), "{e}");
    assert_eq!(c.compile(mlir("fine"), CompileOptions::default()).unwrap().artifact, b"fine");
    assert!(crate::events::events().counters()["server_crashes"] >= 3);
}

#[test]
fn a_server_that_hangs_or_talks_nonsense_is_killed() {
    let c = client("slow", 1500);
    let e = c.ping().unwrap_err();
    assert!(e.reason().contains("no answer in 1.5 s"), "{e}");
    let c = client("garbage", 30_000);
    let e = c.compile(mlir("garbage"), CompileOptions::default()).unwrap_err();
    assert!(e.reason().contains("broke the protocol") && e.reason().contains("warning: this is"), "{e}");
    c.ping().unwrap();
}

#[test]
fn a_server_that_is_not_there() {
    let missing = ClientOptions { server: Some("/no/such/strata".into()), ..Default::default() };
    let e = Client::new(missing).ping().unwrap_err();
    assert!(e.place() == "/no/such/strata" && e.next_step().contains("STRATA_SERVER"), "{e}");
    let text = tempfile::NamedTempFile::new().unwrap();
    let not_executable = ClientOptions { server: Some(text.path().into()), ..Default::default() };
    assert!(Client::new(not_executable).ping().unwrap_err().reason().contains("cannot start"));
}
