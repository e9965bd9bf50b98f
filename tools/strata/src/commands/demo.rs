//! `strata demo`: reads handwritten digits with the classifier in `tools/demo`, and shows what the compiler made of it.

use super::run::{DeviceName, measure, open};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use strata_compiler::compile::Options;
use strata_compiler::target::Target;
use strata_runtime::device::usable_libraries;
use strata_runtime::exec::Executable;
use strata_runtime::plan::{Plan, Step};
use strata_runtime::tensor::HostTensor;

/// Classify handwritten digits with a small network (convolution, normalisation, attention) and show the compiler's work
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The folder with digits.onnx and images/.
    #[arg(long, default_value = "tools/demo")]
    pub folder: PathBuf,
    /// Where to run.
    #[arg(long, value_enum, default_value = "cpu")]
    pub device: DeviceName,
    /// Images to show.
    #[arg(long, default_value_t = 3)]
    pub images: usize,
    /// Images in one call when time is measured.
    #[arg(long, default_value_t = 256)]
    pub batch: usize,
}

/// Runs the command.
pub fn main(args: &Args) -> ExitCode {
    match demo(args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => super::fail(&["a digit was not recognised".into()]),
        Err(lines) => super::fail(&lines),
    }
}

fn text(e: impl std::fmt::Display) -> super::Failed {
    vec![e.to_string()]
}

fn demo(args: &Args) -> Result<bool, super::Failed> {
    let target = match args.device {
        DeviceName::Cpu => Target::native(),
        DeviceName::Cuda => Target::Nvptx { chip: "sm_90a".into() },
    };
    let model = args.folder.join("digits.onnx");
    let device = open(target.device())?;
    let options = Options { libraries: usable_libraries(&*device), ..Options::new(target) };
    let fused = super::compile_file(&model, &options)?;
    let plan = fused.artifact.plan.clone();
    let executable = Executable::new(fused.artifact, device.clone()).map_err(text)?;

    let mut right = true;
    let labels = labels(&args.folder.join("images"))?;
    for (file, label) in labels.iter().take(args.images) {
        let image = HostTensor::read_npy(&args.folder.join("images").join(file)).map_err(text)?;
        let logits = executable.run_host(std::slice::from_ref(&image)).map_err(text)?.remove(0).to_f64();
        let probabilities = softmax(&logits);
        let best = (0..10).max_by(|&a, &b| probabilities[a].total_cmp(&probabilities[b])).unwrap_or(0);
        right &= best == *label;
        println!("{}", picture(&image, &probabilities, best, *label));
    }

    println!("compiled for {} in", device.name());
    for (phase, ns) in &fused.timings {
        println!("  {phase:8} {:7.1} ms", *ns as f64 * 1e-6);
    }
    print_kernels(&plan);

    let batch = batch(args, &labels)?;
    let together = measure(&executable, &device, &batch, 50)?;
    let single = super::compile_file(&model, &Options { fuse: false, ..options })?;
    let steps = single.artifact.plan.steps.len();
    let single = Executable::new(single.artifact, device.clone()).map_err(text)?;
    let alone = measure(&single, &device, &batch, 50)?;
    println!(
        "{} images a call: {together:.3} ms in {} steps; op by op {alone:.3} ms in {steps} steps ({:.1} times as long)",
        args.batch,
        plan.steps.len(),
        alone / together
    );
    Ok(right)
}

/// The images of the folder with their digits, from labels.json.
fn labels(folder: &Path) -> Result<Vec<(String, usize)>, super::Failed> {
    let path = folder.join("labels.json");
    let json =
        std::fs::read_to_string(&path).map_err(|e| vec![format!("cannot read {}: {e}", path.display())])?;
    let map: std::collections::BTreeMap<String, usize> = serde_json::from_str(&json).map_err(text)?;
    Ok(map.into_iter().collect())
}

fn softmax(x: &[f64]) -> Vec<f64> {
    let m = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let e: Vec<f64> = x.iter().map(|v| (v - m).exp()).collect();
    let sum: f64 = e.iter().sum();
    e.iter().map(|v| v / sum).collect()
}

/// The 8×8 picture in shades beside the three likeliest digits.
fn picture(image: &HostTensor, probabilities: &[f64], best: usize, label: usize) -> String {
    let pixels = image.to_f64();
    let top = pixels.iter().copied().fold(1e-9, f64::max);
    let shades = [' ', '░', '▒', '▓', '█'];
    let mut order: Vec<usize> = (0..10).collect();
    order.sort_by(|&a, &b| probabilities[b].total_cmp(&probabilities[a]));
    let mut out = String::new();
    for (row, line) in pixels.chunks(8).enumerate() {
        out.push_str("  ");
        for &p in line {
            let shade = shades[((p / top).clamp(0.0, 1.0) * 4.0).round() as usize];
            out.extend([shade, shade]);
        }
        match row {
            1 => out.push_str(&format!(
                "   it is a {label}, read as {best}{}",
                if best == label { "" } else { " (wrong)" }
            )),
            3..=5 => {
                let digit = order[row - 3];
                let bar = "■".repeat((probabilities[digit] * 20.0).round() as usize);
                out.push_str(&format!("   {digit}  {:5.1} %  {bar}", probabilities[digit] * 100.0));
            }
            _ => {}
        }
        out.push('\n');
    }
    out
}

fn print_kernels(plan: &Plan) {
    println!("{} kernels, and what is fused in each:", plan.kernels.len());
    for k in &plan.kernels {
        println!("  {:5} {}", k.name, k.summary);
    }
    let count = |f: fn(&Step) -> bool| plan.steps.iter().filter(|s| f(s)).count();
    println!(
        "{} steps: {} launches, {} products, {} convolutions, {} copies",
        plan.steps.len(),
        count(|s| matches!(s, Step::Launch { .. })),
        count(|s| matches!(s, Step::Product(_))),
        count(|s| matches!(s, Step::Convolution(_))),
        count(|s| matches!(s, Step::Copy { .. }))
    );
}

/// The images, repeated to one batch.
fn batch(args: &Args, labels: &[(String, usize)]) -> Result<Vec<HostTensor>, super::Failed> {
    let mut values = Vec::new();
    for (file, _) in labels.iter().cycle().take(args.batch) {
        values.extend(HostTensor::read_npy(&args.folder.join("images").join(file)).map_err(text)?.to_f64());
    }
    let all =
        HostTensor::from_f64(strata_runtime::DType::F32, &[args.batch, 1, 8, 8], &values).map_err(text)?;
    Ok(vec![all])
}
