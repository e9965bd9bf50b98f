//! `strata translate MODEL --to=mlir|llvm|ptx|plan`

use super::compile::How;
use std::path::PathBuf;
use std::process::ExitCode;
use strata_compiler::source::{Input, module};

/// Show a model in another form
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The model: .onnx, .mlir, an FX graph as .json, or an artifact .strata (plan only).
    pub model: PathBuf,
    /// The form.
    #[arg(long, value_enum)]
    pub to: Form,
    #[command(flatten)]
    pub how: How,
}

/// A form of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Form {
    /// The imported graph, before any pass.
    Mlir,
    /// The optimised LLVM IR of the kernels: one module on the CPU, one a kernel on the GPU.
    Llvm,
    /// The text of every kernel (GPU targets).
    Ptx,
    /// The plan.
    Plan,
}

/// Runs the command.
pub fn main(args: &Args) -> ExitCode {
    match translate(args) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(lines) => super::fail(&lines),
    }
}

fn translate(args: &Args) -> Result<String, super::Failed> {
    if args.model.extension().is_some_and(|e| e == "strata") {
        if args.to != Form::Plan {
            return Err(vec!["an artifact holds a plan and machine code; use --to=plan".into()]);
        }
        let artifact =
            strata_runtime::artifact::Artifact::read(&args.model).map_err(|e| vec![e.to_string()])?;
        return Ok(artifact.plan.to_string());
    }
    if args.to == Form::Mlir {
        let input = Input::read(&args.model).map_err(|m| vec![m])?;
        let context = strata_dialects::context();
        let name = args.model.display().to_string();
        let program = module(&context, &input, &name, args.model.parent())
            .map_err(|list| super::shown(&list, &input, &name))?;
        use melior::ir::operation::OperationLike;
        let flags = melior::ir::operation::OperationPrintingFlags::new().elide_large_elements_attributes(32);
        return program.as_operation().to_string_with_flags(flags).map_err(|e| vec![e.to_string()]);
    }
    let options = args.how.options();
    if args.to == Form::Llvm {
        return super::compile_file_and(&args.model, &options, |context, program| {
            strata_compiler::compile::llvm_ir(context, program, &options.target)
        })
        .map(|(_, text)| text);
    }
    let compiled = super::compile_file(&args.model, &options)?;
    match args.to {
        Form::Plan => Ok(compiled.artifact.plan.to_string()),
        _ => {
            let texts: Vec<String> = compiled
                .artifact
                .images
                .iter()
                .map(|i| String::from_utf8_lossy(&i.bytes).into_owned())
                .collect();
            if args.how.target.device() != strata_runtime::plan::DeviceKind::Cuda {
                return Err(vec!["only GPU targets have PTX; add --target=nvptx:sm_90a".into()]);
            }
            Ok(texts.join("\n"))
        }
    }
}
