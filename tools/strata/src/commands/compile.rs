//! `strata compile MODEL -o FILE.strata`

use std::path::PathBuf;
use std::process::ExitCode;
use strata_compiler::compile::{Options, PassSetting};
use strata_compiler::target::Target;
use strata_runtime::device::Libraries;

/// Compile a model to one file that runs without the compiler
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The model: .onnx, .mlir or an FX graph as .json.
    pub model: PathBuf,
    /// The artifact to write.
    #[arg(short, long)]
    pub output: PathBuf,
    #[command(flatten)]
    pub how: How,
    /// Print times and sizes as JSON.
    #[arg(long)]
    pub json: bool,
}

/// How to compile; shared by the commands that do.
#[derive(clap::Args, Debug, Clone)]
pub struct How {
    /// cpu, cpu:x86-64-v3, nvptx:sm_90a
    #[arg(long, default_value = "cpu")]
    pub target: Target,
    /// Every op rounds as eager execution does.
    #[arg(long)]
    pub strict: bool,
    /// Every op is a kernel of its own.
    #[arg(long)]
    pub no_fuse: bool,
    /// Products and convolutions by own kernels, not by libraries.
    #[arg(long)]
    pub no_libraries: bool,
    /// An option of a pass, as `strata opt --list-passes` shows them; may be given several times.
    #[arg(long = "set", value_name = "PASS.OPTION=VALUE")]
    pub pass_options: Vec<PassSetting>,
    /// Write the IR of every level, the kernels and the plan here.
    #[arg(long)]
    pub dump_dir: Option<PathBuf>,
}

impl How {
    /// The compiler's options.
    pub fn options(&self) -> Options {
        Options {
            strict: self.strict,
            fuse: !self.no_fuse,
            libraries: if self.no_libraries { Libraries::NONE } else { Libraries::ALL },
            pass_options: self.pass_options.clone(),
            dump_dir: self.dump_dir.clone(),
            ..Options::new(self.target.clone())
        }
    }
}

/// Runs the command.
pub fn main(args: &Args) -> ExitCode {
    let compiled = match super::compile_file(&args.model, &args.how.options()) {
        Ok(c) => c,
        Err(lines) => return super::fail_as(&lines, args.json),
    };
    for event in &compiled.events {
        eprintln!("{event}");
    }
    if let Err(e) = compiled.artifact.write(&args.output) {
        return super::fail_as(&[e.to_string()], args.json);
    }
    let plan = &compiled.artifact.plan;
    let total: u64 = compiled.timings.iter().map(|t| t.1).sum();
    if args.json {
        let timings: serde_json::Map<String, serde_json::Value> =
            compiled.timings.iter().map(|(n, t)| (n.clone(), (*t as f64 * 1e-9).into())).collect();
        println!(
            "{}",
            serde_json::json!({"output": args.output, "kernels": plan.kernels.len(), "steps": plan.steps.len(), "seconds": timings})
        );
    } else {
        println!(
            "{}: {} kernels, {} steps, compiled in {:.1} ms",
            args.output.display(),
            plan.kernels.len(),
            plan.steps.len(),
            total as f64 * 1e-6
        );
        for (name, t) in &compiled.timings {
            println!("  {name:8} {:8.1} ms", *t as f64 * 1e-6);
        }
    }
    ExitCode::SUCCESS
}
