//! `strata run MODEL --device cpu|cuda --input NAME=FILE.npy|random:SEED --dim s0=8 --output-dir D --bench N --profile`

use super::compile::How;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;
use strata_compiler::target::Target;
use strata_runtime::artifact::Artifact;
use strata_runtime::device::{Device, Stream, usable_libraries};
use strata_runtime::exec::{DeviceTensor, Executable};
use strata_runtime::plan::{Binding, DeviceKind, Plan};
use strata_runtime::tensor::HostTensor;

/// Runs a model.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The model: .onnx, .mlir, an FX graph as .json, or an artifact .strata.
    pub model: PathBuf,
    /// Where to run.
    #[arg(long, value_enum, default_value = "cpu")]
    pub device: DeviceName,
    /// NAME=FILE.npy or NAME=random:SEED; inputs that are not named are random with seed 0.
    #[arg(long = "input", value_name = "NAME=VALUE")]
    pub inputs: Vec<String>,
    /// NAME=N: the size that a symbol stands for; without it the symbol's hint, or 4.
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
        Err(lines) => super::fail(&lines),
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
    let (artifact, timings) = if args.model.extension().is_some_and(|e| e == "strata") {
        (Artifact::read(&args.model).map_err(text)?, vec![])
    } else {
        let mut options = args.how.options();
        if args.device == DeviceName::Cuda && options.target.device() == DeviceKind::Cpu {
            options.target = Target::Nvptx { chip: "sm_90a".into() };
        }
        options.libraries = options.libraries.and(usable_libraries(&*open(options.target.device())?));
        let compiled = super::compile_file(&args.model, &options)?;
        for event in &compiled.events {
            eprintln!("{event}");
        }
        (compiled.artifact, compiled.timings)
    };
    let compile_seconds = started.elapsed().as_secs_f64();
    let plan = artifact.plan.clone();
    let device = open(plan.device)?;
    let inputs = make_inputs(&plan, args)?;
    let started = Instant::now();
    let executable = Executable::new(artifact, device.clone()).map_err(text)?;
    let load_seconds = started.elapsed().as_secs_f64();
    let outputs = executable.run_host(&inputs).map_err(text)?;
    for (output, t) in plan.outputs.iter().zip(&outputs) {
        if let Some(dir) = &args.output_dir {
            std::fs::create_dir_all(dir).map_err(text)?;
            t.write_npy(&dir.join(format!("{}.npy", output.name))).map_err(text)?;
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

fn pair(text: &str) -> Result<(&str, &str), super::Failed> {
    text.split_once('=').ok_or_else(|| vec![format!("'{text}' is not of the form NAME=VALUE")])
}

/// The inputs of a call: files, or random numbers of the sizes that `--dim` gives.
fn make_inputs(plan: &Plan, args: &Args) -> Result<Vec<HostTensor>, super::Failed> {
    let mut sizes: Vec<i64> = Vec::new();
    let dims = args.dims.iter().map(|d| pair(d)).collect::<Result<BTreeMap<_, _>, _>>()?;
    for (i, s) in plan.symbols.iter().enumerate() {
        let given = dims.get(s.info.name.as_str()).or(dims.get(format!("s{i}").as_str()));
        sizes.push(match (given, &s.binding) {
            (Some(n), _) => {
                n.parse().map_err(|_| vec![format!("--dim {}={n} is not a number", s.info.name)])?
            }
            (None, Binding::Defined(e)) => e.eval(&sizes).unwrap_or(1),
            (None, _) => s.info.hint.unwrap_or_else(|| 4.clamp(s.info.min, s.info.max)),
        });
    }
    if let Some(unknown) = dims
        .keys()
        .find(|k| !plan.symbols.iter().enumerate().any(|(i, s)| s.info.name == **k || format!("s{i}") == **k))
    {
        let known: Vec<&str> = plan.symbols.iter().map(|s| s.info.name.as_str()).collect();
        return Err(vec![format!("--dim {unknown}: no such symbol; known: {}", known.join(", "))]);
    }
    let given = args.inputs.iter().map(|d| pair(d)).collect::<Result<BTreeMap<_, _>, _>>()?;
    if let Some(unknown) = given.keys().find(|k| !plan.inputs.iter().any(|i| i.name == **k)) {
        let known: Vec<&str> = plan.inputs.iter().map(|i| i.name.as_str()).collect();
        return Err(vec![format!("--input {unknown}: no such input; known: {}", known.join(", "))]);
    }
    plan.inputs
        .iter()
        .enumerate()
        .map(|(k, input)| {
            let value = given.get(input.name.as_str()).copied().unwrap_or("random:0");
            let Some(seed) = value.strip_prefix("random:") else {
                return HostTensor::read_npy(std::path::Path::new(value)).map_err(text);
            };
            let seed: u64 = seed.parse().map_err(|_| {
                vec![format!("--input {}=random:{seed}: the seed is not a number", input.name)]
            })?;
            let buffer = &plan.buffers[input.buffer.0 as usize];
            let shape: Option<Vec<usize>> =
                buffer.shape.iter().map(|e| e.eval(&sizes).map(|n| n as usize)).collect();
            let shape =
                shape.ok_or_else(|| vec![format!("input {} has a size without a value", input.name)])?;
            HostTensor::random(buffer.dtype, &shape, seed.wrapping_add(k as u64)).map_err(text)
        })
        .collect()
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
