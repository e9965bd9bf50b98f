//! `strata run MODEL --device cpu|cuda --input NAME=FILE.npy|random:SEED --dim s0=8 --output-dir D --bench N --profile`

use super::compile::How;
use super::inputs;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;
use strata_compiler::target::Target;
use strata_runtime::artifact::Artifact;
use strata_runtime::device::{Device, Stream, usable_libraries};
use strata_runtime::exec::{DeviceTensor, Executable};
use strata_runtime::plan::DeviceKind;
use strata_runtime::tensor::HostTensor;

/// Run a model
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The model: .onnx, .mlir, an FX graph as .json, or an artifact .strata.
    pub model: PathBuf,
    /// Where to run.
    #[arg(long, value_enum, default_value = "cpu")]
    pub device: DeviceName,
    /// NAME=FILE.npy or NAME=random:SEED; inputs that are not named are random with seed 0. Arguments of MLIR are called
    /// arg0, arg1, … unless `graph.name` names them.
    #[arg(long = "input", value_name = "NAME=VALUE")]
    pub inputs: Vec<String>,
    /// NAME=N: the size that a symbol stands for; without it the size in the files of --input, the symbol's hint, or 4.
    #[arg(long = "dim", value_name = "NAME=N")]
    pub dims: Vec<String>,
    /// Write each result here as NAME.npy.
    #[arg(long)]
    pub output_dir: Option<PathBuf>,
    /// Run so many times and print the median time.
    #[arg(long, value_name = "N")]
    pub bench: Option<usize>,
    /// Print the time of every step.
    #[arg(long)]
    pub profile: bool,
    /// Print everything as one JSON object.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub how: How,
}

/// A device's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum DeviceName {
    /// The processor.
    Cpu,
    /// The first NVIDIA GPU.
    Cuda,
}

/// Runs the command.
pub fn main(args: &Args) -> ExitCode {
    match run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(lines) => super::fail_as(&lines, args.json),
    }
}

fn text(e: impl std::fmt::Display) -> super::Failed {
    vec![e.to_string()]
}

/// The device that a plan runs on.
pub fn open(kind: DeviceKind) -> Result<Arc<dyn Device>, super::Failed> {
    match kind {
        DeviceKind::Cpu => Ok(Arc::new(strata_runtime::device::cpu::CpuDevice::new(0).map_err(text)?)),
        DeviceKind::Cuda => Ok(Arc::new(strata_runtime::device::cuda::CudaDevice::new(0).map_err(text)?)),
    }
}

fn run(args: &Args) -> Result<(), super::Failed> {
    let started = Instant::now();
    let (artifact, device, timings) = if args.model.extension().is_some_and(|e| e == "strata") {
        let artifact = Artifact::read(&args.model).map_err(text)?;
        let device = open(artifact.plan.device)?;
        (artifact, device, vec![])
    } else {
        let mut options = args.how.options();
        if args.device == DeviceName::Cuda && options.target.device() == DeviceKind::Cpu {
            options.target = Target::Nvptx { chip: "sm_90a".into() };
        }
        let device = open(options.target.device())?;
        options.libraries = options.libraries.and(usable_libraries(&*device));
        let compiled = super::compile_file(&args.model, &options)?;
        for event in &compiled.events {
            eprintln!("{event}");
        }
        (compiled.artifact, device, compiled.timings)
    };
    let compile_seconds = started.elapsed().as_secs_f64();
    let plan = artifact.plan.clone();
    let inputs = inputs::make(&plan, args)?;
    let started = Instant::now();
    let executable = Executable::new(artifact, device.clone()).map_err(text)?;
    let load_seconds = started.elapsed().as_secs_f64();
    let outputs = executable.run_host(&inputs).map_err(text)?;
    for (output, t) in plan.outputs.iter().zip(&outputs) {
        if let Some(dir) = &args.output_dir {
            std::fs::create_dir_all(dir)
                .map_err(|e| vec![format!("cannot make the folder {}: {e}", dir.display())])?;
            t.write_npy(&dir.join(file_name(&output.name))).map_err(text)?;
        }
        if !args.json {
            println!("{}: {}", output.name, preview(t));
        }
    }
    let bench = args.bench.map(|n| measure(&executable, &device, &inputs, n)).transpose()?;
    let profile = if args.profile { Some(profile(&executable, &inputs)?) } else { None };
    if args.json {
        let timings: BTreeMap<&str, f64> =
            timings.iter().map(|(n, t)| (n.as_str(), *t as f64 * 1e-9)).collect();
        println!(
            "{}",
            serde_json::json!({
                "device": device.name(), "compile_seconds": compile_seconds, "phases": timings, "load_seconds": load_seconds,
                "outputs": plan.outputs.iter().zip(&outputs).map(|(o, t)| output_json(&o.name, t, args)).collect::<Vec<_>>(),
                "kernels": plan.kernels.len(), "steps": plan.steps.len(), "median_ms": bench,
                "profile": profile.as_ref().map(|p| serde_json::to_value(p).unwrap_or_default()),
            })
        );
        return Ok(());
    }
    if let Some(ms) = bench {
        println!(
            "{ms:.4} ms a call on {} (median of {}), {} steps",
            device.name(),
            args.bench.unwrap_or(0),
            plan.steps.len()
        );
    }
    if let Some(p) = profile {
        println!("{p}");
    }
    Ok(())
}

fn preview(t: &HostTensor) -> String {
    let values: Vec<String> = if t.dtype().is_float() {
        t.to_f64().iter().take(8).map(|x| format!("{x:.6}")).collect()
    } else {
        t.to_i64().iter().take(8).map(|x| x.to_string()).collect()
    };
    format!("{}{:?} = {}{}", t.dtype(), t.shape(), values.join(", "), if t.len() > 8 { ", …" } else { "" })
}

/// A name of the model as one of a file: models call their results anything, `/head/logits` too.
fn file_name(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    format!("{}.npy", name.trim_start_matches(['/', '.']).chars().map(plain).collect::<String>())
}

fn output_json(name: &str, t: &HostTensor, args: &Args) -> serde_json::Value {
    let file = args.output_dir.as_ref().map(|dir| dir.join(file_name(name)));
    serde_json::json!({"name": name, "dtype": t.dtype().to_string(), "shape": t.shape(), "file": file})
}

/// The median time of a call in milliseconds, inputs and outputs on the device. On a GPU each sample is a run of calls, so that the
/// time of the launches is hidden behind the work as it is in use.
pub fn measure(
    executable: &Executable,
    device: &Arc<dyn Device>,
    inputs: &[HostTensor],
    n: usize,
) -> Result<f64, super::Failed> {
    let stream = Stream::default();
    let on_device: Vec<DeviceTensor> = inputs
        .iter()
        .map(|t| DeviceTensor::upload(executable.pool(), t, stream))
        .collect::<Result<_, _>>()
        .map_err(text)?;
    for _ in 0..3 {
        executable.run(&on_device).map_err(text)?;
    }
    device.synchronize(stream).map_err(text)?;
    let calls = if device.host_memory() { 1 } else { 20 };
    let mut times = Vec::new();
    for _ in 0..n.max(1) {
        let from = device.record(stream).map_err(text)?;
        for _ in 0..calls {
            executable.run(&on_device).map_err(text)?;
        }
        let to = device.record(stream).map_err(text)?;
        device.synchronize(stream).map_err(text)?;
        times.push(device.elapsed_ns(&from, &to).map_err(text)? as f64 * 1e-6 / calls as f64);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

fn profile(
    executable: &Executable,
    inputs: &[HostTensor],
) -> Result<strata_runtime::exec::Profile, super::Failed> {
    let stream = Stream::default();
    let on_device: Vec<DeviceTensor> = inputs
        .iter()
        .map(|t| DeviceTensor::upload(executable.pool(), t, stream))
        .collect::<Result<_, _>>()
        .map_err(text)?;
    executable.profile(&on_device, 10, &mut strata_runtime::exec::NoHostCalls).map_err(text)
}
