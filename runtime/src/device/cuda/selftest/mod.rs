//! A check of the whole device on the machine at hand: what no test without a GPU can see.
//!
//! Every result is compared with plain loops in f64 on the host. Results start as poison, and what lies between and behind
//! their elements must still be poison at the end.

mod convolutions;
mod kernels;
mod memory;
mod products;
mod tensors;

use super::CudaDevice;
use crate::device::{Device, Stream};
use crate::error::{ErrorKind, Result, err};
use std::fmt;
use std::sync::Arc;

/// How one check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As it should be.
    Pass,
    /// The library does not do it; the compiler has to use an own kernel.
    Unsupported,
    /// Wrong, or an error.
    Fail,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// What was checked.
    pub name: String,
    /// How it ended.
    pub outcome: Outcome,
    /// Numbers, or the reason.
    pub detail: String,
}

/// All checks, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The checks.
    pub lines: Vec<Line>,
}

impl Report {
    /// Whether nothing failed.
    pub fn ok(&self) -> bool {
        self.lines.iter().all(|l| l.outcome != Outcome::Fail)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.lines {
            let mark = match line.outcome {
                Outcome::Pass => "pass",
                Outcome::Unsupported => "none",
                Outcome::Fail => "FAIL",
            };
            writeln!(f, "{mark}  {}: {}", line.name, line.detail.replace('\n', "\n      "))?;
        }
        let count = |o| self.lines.iter().filter(|l| l.outcome == o).count();
        let (pass, none, fail) = (count(Outcome::Pass), count(Outcome::Unsupported), count(Outcome::Fail));
        write!(f, "{pass} passed, {none} without a library path, {fail} failed")
    }
}

/// What the checks share.
struct Bench {
    device: Arc<dyn Device>,
    /// The same device where it is a GPU; the checks themselves are tested on the CPU.
    gpu: Option<Arc<CudaDevice>>,
    stream: Stream,
    report: Report,
}

impl Bench {
    fn stream(&self) -> Stream {
        self.stream
    }

    fn gpu(&self) -> Result<&CudaDevice> {
        self.gpu.as_deref().ok_or_else(|| err!(Device, "this check needs a GPU").next("run it on one"))
    }

    /// Runs a check; its text goes into the report.
    fn check(&mut self, name: impl Into<String>, check: impl FnOnce(&Self) -> Result<String>) {
        self.record(name, check, false);
    }

    /// As `check`, where the library may decline.
    fn check_optional(&mut self, name: impl Into<String>, check: impl FnOnce(&Self) -> Result<String>) {
        self.record(name, check, true);
    }

    fn record(
        &mut self,
        name: impl Into<String>,
        check: impl FnOnce(&Self) -> Result<String>,
        optional: bool,
    ) {
        let (outcome, detail) = match check(self) {
            Ok(detail) => (Outcome::Pass, detail),
            Err(e) if optional && e.kind() == ErrorKind::Unsupported => (Outcome::Unsupported, e.to_string()),
            Err(e) => (Outcome::Fail, e.to_string()),
        };
        self.report.lines.push(Line { name: name.into(), outcome, detail });
    }
}

/// Checks memory, copies, linking, launches, graphs, products and convolutions on GPU `ordinal`. `Err` where it cannot begin.
pub fn selftest(ordinal: u32) -> Result<Report> {
    let gpu = Arc::new(CudaDevice::new(ordinal)?);
    let stream = gpu.new_stream()?;
    let mut bench =
        Bench { device: gpu.clone(), gpu: Some(gpu), stream: stream.stream(), report: Report::default() };
    bench.check("device", |b| {
        let (free, total) = b.gpu()?.context().memory()?;
        let (i, mib) = (b.gpu()?.context().info(), |bytes: u64| bytes >> 20);
        let (major, minor) = i.capability;
        Ok(format!(
            "{}, sm_{major}{minor}, {} multiprocessors, {} of {} MiB free, CUDA {}",
            i.name,
            i.multiprocessors,
            mib(free),
            mib(total),
            i.driver_version
        ))
    });
    memory::run(&mut bench);
    kernels::run(&mut bench);
    products::run(&mut bench);
    convolutions::run(&mut bench);
    bench.check("the GPU is still well", |b| b.gpu()?.context().synchronize().map(|()| "yes".into()));
    Ok(bench.report)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::cpu::CpuDevice;
    use crate::dtype::DType;

    /// The checks themselves are right if a device that has nothing to do with CUDA passes them.
    pub(super) fn on_cpu() -> Bench {
        let device = Arc::new(CpuDevice::new(1).unwrap());
        Bench { device, gpu: None, stream: Stream(0), report: Report::default() }
    }

    #[test]
    fn copies_pass_on_the_cpu() {
        memory::strided(&on_cpu(), DType::BF16).unwrap();
    }

    #[test]
    fn a_report_reads_well() {
        let line =
            |name: &str, outcome, detail: &str| Line { name: name.into(), outcome, detail: detail.into() };
        let report = Report {
            lines: vec![
                line("copy", Outcome::Pass, "12 cases"),
                line("product", Outcome::Unsupported, "no kernel\n  next: use an own kernel"),
                line("launch", Outcome::Fail, "wrong"),
            ],
        };
        assert!(!report.ok());
        insta::assert_snapshot!(report.to_string(), @r"
        pass  copy: 12 cases
        none  product: no kernel
                next: use an own kernel
        FAIL  launch: wrong
        1 passed, 1 without a library path, 1 failed
        ");
    }

    #[test]
    fn runs_where_there_is_a_gpu() {
        match super::super::probe() {
            Ok(_) => {
                let report = selftest(0).unwrap();
                assert!(report.ok(), "{report}");
            }
            Err(e) => {
                assert!(selftest(0).is_err());
                eprintln!("not run: {e}");
            }
        }
    }
}
