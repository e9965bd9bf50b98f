//! What a command line asks for: the program, the steps, the target.

use super::{Args, Program};
use std::io::Read;
use std::path::Path;
use strata_compiler::driver::diagnostics::Source;
use strata_compiler::driver::phase;
use strata_compiler::driver::reproducer::Reproducer;
use strata_compiler::driver::step::{Step, pipeline_text, steps};
use strata_compiler::target::Target;

/// The work of one call.
pub struct Job {
    /// What was read.
    pub input: Vec<u8>,
    /// The program or programs.
    pub source: Source,
    /// The pipeline.
    pub steps: Vec<Step>,
    /// What code is made for.
    pub target: Target,
    /// The target as it was written, if it was.
    pub target_text: Option<String>,
    /// Whether every step is verified.
    pub verify_each: bool,
    /// The seed of `--check-semantics`, from the command line or from a reproducer.
    pub seed: Option<u64>,
    /// Whether the file was a reproducer.
    pub is_reproducer: bool,
}

/// Reads a file, or standard input, which the child process finds in its scratch folder.
fn read(program: &Program, scratch: Option<&Path>) -> Result<Source, String> {
    let file = program.file.as_path();
    if file != Path::new("-") {
        let bytes =
            std::fs::read(file).map_err(|e| format!("{}: error: cannot be read: {e}", file.display()))?;
        if file.extension().is_some_and(|e| e == "onnx") {
            let (name, next) = (file.display(), "strata translate FILE --to=mlir makes MLIR of it");
            return Err(format!("{name}: error: this is an ONNX model, and opt reads MLIR; {next}"));
        }
        return Ok(Source { name: file.display().to_string(), bytes });
    }
    let mut bytes = Vec::new();
    let done = match scratch {
        Some(scratch) => std::fs::read(scratch.join("stdin")).map(|b| bytes = b),
        None => std::io::stdin().read_to_end(&mut bytes).map(drop),
    };
    done.map_err(|e| format!("error: cannot read standard input: {e}"))?;
    Ok(Source { name: "<stdin>".into(), bytes })
}

impl Job {
    /// Reads the command line's files and pipeline. Errors are complete messages.
    pub fn new(args: &Args) -> Result<Self, String> {
        let job = Self::read(&args.program, args.worker.as_deref(), |_| args.program.run_reproducer)?;
        Ok(Self { seed: args.check_semantics.or(job.seed), ..job })
    }

    /// Reads the program and its pipeline. `scratch`: the folder that standard input was kept in by another process.
    /// `is_reproducer`: whether a text's pipeline is in it.
    pub fn read(
        args: &Program,
        scratch: Option<&Path>,
        is_reproducer: impl Fn(&str) -> bool,
    ) -> Result<Self, String> {
        let mut source = read(args, scratch)?;
        let input = source.bytes.clone();
        let (mut target, mut verify_each) = (args.target.clone(), args.verify_each);
        let mut target_text = args.target.as_ref().map(Target::to_string);
        let mut passes = args.passes.clone();
        let mut seed = None;
        let is_reproducer = is_reproducer(source.text());
        if is_reproducer {
            let text = source.text();
            let (reproducer, program) =
                Reproducer::read(text).map_err(|e| format!("{}: error: {e}", source.name))?;
            if let (None, Some(text)) = (&target, &reproducer.target) {
                target = Some(text.parse().map_err(|e| format!("{}: error: {e}", source.name))?);
                target_text = Some(text.clone());
            }
            (passes, verify_each) = (reproducer.pipeline, verify_each && reproducer.verify_each);
            seed = reproducer.seed;
            source.bytes = program.into_bytes();
        }
        let target = target.unwrap_or_else(Target::native);
        let steps = if args.compile_to.is_some() || args.compile_from.is_some() {
            phase::pipeline(&target, args.compile_from.as_deref(), args.compile_to.as_deref())
                .map_err(|e| format!("error: {e}"))?
        } else {
            steps(&passes).map_err(|e| e.render(&passes))?
        };
        Ok(Self { input, source, steps, target, target_text, verify_each, seed, is_reproducer })
    }

    /// The programs of the input, with their numbers from 1.
    pub fn parts(&self, args: &Args) -> Vec<(usize, Source)> {
        let parts = if args.split_input_file { self.source.split() } else { vec![self.source.clone()] };
        let all = parts.into_iter().enumerate().map(|(i, part)| (i + 1, part));
        all.filter(|(n, _)| args.part.is_none_or(|only| *n == only)).collect()
    }

    /// The call in a form that a shell takes.
    pub fn command(&self, args: &Args) -> String {
        let mut command = format!("strata opt {}", args.program.file.display());
        if self.is_reproducer {
            command += " --run-reproducer";
        } else if !self.steps.is_empty() {
            command += &format!(" --passes='{}'", pipeline_text(&self.steps));
        }
        if let Some(target) = self.target_text.as_ref().filter(|_| !self.is_reproducer) {
            command += &format!(" --target={target}");
        }
        if let Some(seed) = self.seed {
            command += &format!(" --check-semantics={seed}");
        }
        if args.split_input_file {
            command += " --split-input-file";
        }
        command
    }

    /// A reproducer of one step, for a file.
    pub fn reproducer(&self, pipeline: &str) -> Reproducer {
        Reproducer {
            pipeline: pipeline.to_owned(),
            verify_each: self.verify_each,
            target: self.target_text.clone(),
            seed: self.seed,
        }
    }
}

/// Where reproducers of failing steps go when no folder is named.
pub fn reproducer_folder(args: &Args) -> std::path::PathBuf {
    args.reproducer_dir.clone().unwrap_or_else(|| std::env::temp_dir().join("strata-reproducers"))
}
