//! `cargo xtask demo`: the digit classifier, from the ONNX file to the printed answer.

use crate::failure::{Failure, Result};
use crate::sh::Cmd;
use crate::{build, paths, setup};
use std::path::{Path, PathBuf};

/// Options of `demo`.
#[derive(clap::Args)]
pub struct Args {
    /// Where to run
    #[arg(long, value_enum, default_value = "cpu")]
    device: Device,
}

#[derive(clap::ValueEnum, Clone, Copy)]
enum Device {
    Cpu,
    Cuda,
}

/// Sets up, builds, runs.
pub fn run(args: &Args) -> Result<()> {
    let model = model()?;
    setup::run(&setup::Args { no_python: true, ..setup::Args::default() })?;
    let strata = build::strata(true)?;
    let cmd = command(&strata, &model, args.device);
    let line = cmd.line();
    let output = cmd.tee()?;
    if !output.ok {
        let what = format!("the demo ended with exit code {}", output.code.unwrap_or(-1));
        return Err(Failure::new(what).command(line).fix("see strata's message above"));
    }
    // A binary that does not know the command yet may also end well and say nothing.
    if output.text.trim().is_empty() {
        let what = "strata printed nothing: this version does not know the command";
        return Err(Failure::new(what).command(line).fix("docs/known-gaps.md says what works so far"));
    }
    Ok(())
}

/// The one place that knows how the demo is called.
fn command(strata: &Path, model: &Path, device: Device) -> Cmd {
    let device = match device {
        Device::Cpu => "cpu",
        Device::Cuda => "cuda",
    };
    Cmd::new(strata)
        .dir(&paths::root())
        .args(["demo", "--folder"])
        .arg(model.parent().expect("a file in a folder"))
        .args(["--device", device])
}

fn model() -> Result<PathBuf> {
    let model = paths::root().join("tools/demo/digits.onnx");
    if model.is_file() {
        return Ok(model);
    }
    Err(Failure::new(format!("{} is not in this checkout", paths::shown(&model)))
        .fix("docs/known-gaps.md says what works so far"))
}
