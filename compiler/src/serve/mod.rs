//! The compile server: requests on standard input, answers on standard output, one after the other.

use crate::compile::{Options, compile};
use crate::source::{Input, module};
use crate::target::Target;
use std::io::{Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use strata_runtime::client::protocol::{
    self, CompileOptions, Compiled, Failure, Numerics, Op, Outcome, Request, Response, Source, read_frame,
    write_frame,
};
use strata_runtime::device::Libraries;

/// Serves until the client closes the pipe or asks for the end. Errors are those of the pipe.
pub fn serve(input: &mut impl Read, output: &mut impl Write) -> strata_runtime::error::Result<()> {
    while let Some(request) = read_frame::<Request>(input)? {
        let result = match request.op {
            Op::Ping => Outcome::Done,
            Op::Shutdown => {
                write_frame(output, &Response { id: request.id, result: Outcome::Done })?;
                return Ok(());
            }
            Op::Abort => std::process::abort(),
            Op::Compile { source, options } => answer(&source, &options),
        };
        write_frame(output, &Response { id: request.id, result })?;
    }
    Ok(())
}

fn answer(source: &Source, options: &CompileOptions) -> Outcome {
    // Written first, so that it is there when LLVM aborts the process.
    let reproducer =
        options.reproducer_dir.as_ref().and_then(|dir| write_reproducer(Path::new(dir), source, options));
    let result = catch_unwind(AssertUnwindSafe(|| compile_source(source, options))).unwrap_or_else(|panic| {
        let what =
            panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        Err(vec![format!("the compiler panicked: {}; this is a bug of strata", what.unwrap_or("no message"))])
    });
    match result {
        Ok(compiled) => {
            // A compilation that went well needs no reproducer.
            if let Some(path) = reproducer {
                let _ = std::fs::remove_file(path);
            }
            Outcome::Compiled(compiled)
        }
        Err(diagnostics) => {
            Outcome::Failed(Failure { diagnostics, reproducer: reproducer.map(|p| p.display().to_string()) })
        }
    }
}

fn compile_source(source: &Source, options: &CompileOptions) -> Result<Compiled, Vec<String>> {
    if let Some(unknown) =
        options.extra.keys().find(|k| !["fuse", "libraries", "abort"].contains(&k.as_str()))
    {
        return Err(vec![format!("unknown option '{unknown}'; known: fuse, libraries")]);
    }
    if options.extra.get("abort").is_some_and(|v| v == "true") {
        // For tests of what an LLVM abort does to the embedding program.
        std::process::abort();
    }
    let texts = |list: Vec<crate::driver::diagnostics::Diagnostic>| {
        // With the next steps, which are notes.
        list.iter()
            .flat_map(|d| std::iter::once(d).chain(&d.notes))
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    let context = strata_dialects::context();
    let (input, name) = match source {
        Source::Mlir(text) => (Input::Mlir(text.clone()), "program.mlir"),
        Source::Onnx(bytes) => (Input::Onnx(bytes.clone()), "model.onnx"),
        Source::Fx(text) => (Input::Fx(text.clone()), "graph.json"),
    };
    let name = if options.source_name.is_empty() { name } else { &options.source_name };
    let mut program = module(&context, &input, name, None).map_err(texts)?;
    let compiled = compile(&context, &mut program, &resolve(options, name).map_err(|m| vec![m])?)
        .map_err(|e| texts(e.diagnostics))?;
    let artifact = compiled.artifact.to_bytes().map_err(|e| vec![e.to_string()])?;
    Ok(Compiled { artifact, events: compiled.events, timings: compiled.timings })
}

fn target(options: &CompileOptions) -> Target {
    match &options.target {
        protocol::Target::Host => Target::native(),
        protocol::Target::Cpu(text) => Target::cpu(text),
        protocol::Target::Cuda(chip) => Target::Nvptx { chip: chip.clone() },
    }
}

/// The compiler's options behind a request's.
///
/// # Errors
/// An option with a value that it does not take.
pub fn resolve(options: &CompileOptions, name: &str) -> Result<Options, String> {
    let flag = |name: &str| options.extra.get(name).is_none_or(|v| v != "false");
    Ok(Options {
        strict: options.numerics == Numerics::Strict,
        fuse: flag("fuse"),
        libraries: options.extra.get("libraries").map_or(Ok(Libraries::ALL), |v| v.parse())?,
        source_name: name.to_owned(),
        dump_dir: options.dump_dir.as_ref().map(PathBuf::from),
        ..Options::new(target(options))
    })
}

/// Writes the source beside the command that compiles it. The name is the content's hash: the same failure writes one file.
fn write_reproducer(dir: &Path, source: &Source, options: &CompileOptions) -> Option<PathBuf> {
    let (bytes, ending): (&[u8], _) = match source {
        Source::Mlir(text) => (text.as_bytes(), "mlir"),
        Source::Onnx(bytes) => (bytes, "onnx"),
        Source::Fx(text) => (text.as_bytes(), "json"),
    };
    let hash = blake3::hash(bytes).to_hex();
    let path = dir.join(format!("strata-{}.{ending}", &hash[..12]));
    std::fs::create_dir_all(dir).ok()?;
    std::fs::write(&path, bytes).ok()?;
    let target = target(options);
    tracing::debug!("reproduce with: strata compile {} --target={target} -o /dev/null", path.display());
    Some(path)
}
