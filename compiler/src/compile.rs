//! A whole compilation: a module of graph ops in, an artifact out.

use crate::driver::diagnostics::Diagnostic;
use crate::driver::pass::Failure;
use crate::driver::phase::{Phase, phases};
use crate::driver::registry::PASSES;
use crate::driver::run::{RunConfig, run};
use crate::driver::step::{Step, StepKind, steps, unknown_option, unknown_pass};
use crate::graph::to_plan::{self, KernelFacts, KernelInfo};
use crate::graph::{KERNEL, entry};
use crate::target::Target;
use crate::{cpu, gpu, ir};
use melior::Context;
use melior::ir::Module;
use melior::ir::operation::OperationLike;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;
use strata_dialects::OpView;
use strata_runtime::artifact::{Artifact, Image, ImageKind, Metadata};
use strata_runtime::device::Libraries;
use strata_runtime::events::{Event, EventKind};

/// What a compilation is asked for.
#[derive(Clone, Debug)]
pub struct Options {
    /// What code is made for.
    pub target: Target,
    /// Every op rounds in its own type; else f32 may stay f32 between fused ops.
    pub strict: bool,
    /// Whether ops are fused.
    pub fuse: bool,
    /// What goes to libraries.
    pub libraries: Libraries,
    /// Options of single passes: what pass, which option, the value. These go before all others.
    pub pass_options: Vec<PassSetting>,
    /// The source's name, for the artifact's metadata.
    pub source_name: String,
    /// Where to write the IR after every phase.
    pub dump_dir: Option<PathBuf>,
}

impl Options {
    /// The defaults for a target.
    pub fn new(target: Target) -> Self {
        Self {
            target,
            strict: false,
            fuse: true,
            libraries: Libraries::ALL,
            pass_options: vec![],
            source_name: String::new(),
            dump_dir: None,
        }
    }
}

/// An option of one pass: `linalg-to-loops.schedule={"kind":"pointwise","vector":8,"threads":128,"per_thread":2}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassSetting {
    /// The pass.
    pub pass: &'static str,
    /// Which of its options.
    pub option: &'static str,
    /// The value.
    pub value: String,
}

impl std::str::FromStr for PassSetting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('=').and_then(|(name, value)| Some((name.split_once('.')?, value)));
        let Some(((pass, option), value)) = parts else {
            return Err(format!("'{text}' is not of the form PASS.OPTION=VALUE"));
        };
        let Some(pass) = PASSES.iter().find(|p| p.name == pass) else {
            return Err(unknown_pass(pass, PASSES.iter().map(|p| p.name)));
        };
        let known: Vec<&'static str> = pass.options.iter().map(|o| o.name).collect();
        let Some(option) = known.iter().copied().find(|o| *o == option) else {
            return Err(unknown_option(pass.name, option, &known));
        };
        Ok(Self { pass: pass.name, option, value: value.to_owned() })
    }
}

/// A compiled program with what happened on the way.
#[derive(Debug)]
pub struct Compiled {
    /// The program.
    pub artifact: Artifact,
    /// Fallbacks and the like.
    pub events: Vec<Event>,
    /// Nanoseconds by phase, in order.
    pub timings: Vec<(String, u64)>,
}

/// Why a compilation failed.
#[derive(Debug)]
pub struct CompileError {
    /// The messages.
    pub diagnostics: Vec<Diagnostic>,
    /// The step that failed, as a pipeline; empty outside of steps.
    pub pipeline: String,
}

impl From<Failure> for CompileError {
    fn from(f: Failure) -> Self {
        Self { diagnostics: vec![Diagnostic::from_failure(&f)], pipeline: String::new() }
    }
}

/// The steps of a phase, with the options of this compilation.
fn phase_steps(phase: &Phase, options: &Options) -> Result<Vec<Step>, CompileError> {
    let mut list = steps(phase.pipeline).map_err(|e| CompileError {
        diagnostics: vec![Diagnostic::error(None, e.to_string())],
        pipeline: phase.pipeline.to_owned(),
    })?;
    for step in &mut list {
        let StepKind::Own(pass, values) = &mut step.kind else { continue };
        let mut set = |name: &str, value: String| {
            if pass.options.iter().any(|o| o.name == name) {
                values.insert(name.to_owned(), value);
            }
        };
        set("numerics", if options.strict { "strict" } else { "default" }.to_owned());
        set("libraries", options.libraries.to_string());
        if pass.name == "fuse" {
            set("enable", options.fuse.to_string());
        }
        for s in options.pass_options.iter().filter(|s| s.pass == pass.name) {
            set(s.option, s.value.clone());
        }
    }
    Ok(list)
}

/// Compiles a module. It is left at its lowest level.
pub fn compile<'c>(
    context: &'c Context,
    module: &mut Module<'c>,
    options: &Options,
) -> Result<Compiled, CompileError> {
    let mut timings = Vec::new();
    let config = RunConfig::new(options.target.clone());
    let mut facts = BTreeMap::new();
    for (number, phase) in phases(&options.target).iter().enumerate().skip(1) {
        let started = Instant::now();
        let list = phase_steps(phase, options)?;
        run(context, module, &list, &config, &mut []).map_err(|stopped| CompileError {
            diagnostics: stopped.diagnostics,
            pipeline: stopped.pipeline,
        })?;
        if phase.name == "fused" {
            for f in ir::functions(module).iter().filter(|f| f.has_attribute(KERNEL)) {
                facts.insert(ir::symbol_name(f), KernelFacts::of(f));
            }
        }
        for f in ir::functions(module).into_iter().filter(|f| f.has_attribute("loop.kernel")) {
            if let Some(facts) = facts.get_mut(&ir::symbol_name(&f)) {
                facts.add_loops(f)?;
            }
        }
        if let Some(dir) = &options.dump_dir {
            dump(dir, &format!("{number}-{}.mlir", phase.name), &module.as_operation().to_string())?;
        }
        timings.push((phase.name.to_owned(), started.elapsed().as_nanos() as u64));
    }

    let started = Instant::now();
    let (kernels, images) = codegen(context, module, options, &mut facts)?;
    timings.push(("codegen".to_owned(), started.elapsed().as_nanos() as u64));

    let started = Instant::now();
    let (plan, constants) = to_plan::build(module, &kernels, options.target.device())?;
    strata_runtime::plan::verify::verify(&plan).map_err(|e| CompileError {
        diagnostics: vec![Diagnostic::error(None, e.to_string())],
        pipeline: String::new(),
    })?;
    if let Some(dir) = &options.dump_dir {
        dump(dir, "plan.txt", &plan.to_string())?;
    }
    let metadata = Metadata {
        compiler: concat!("strata ", env!("CARGO_PKG_VERSION")).to_owned(),
        source: options.source_name.clone(),
        options: [
            ("target".to_owned(), options.target.to_string()),
            ("numerics".to_owned(), if options.strict { "strict" } else { "default" }.to_owned()),
        ]
        .into_iter()
        .chain(options.pass_options.iter().map(|s| (format!("{}.{}", s.pass, s.option), s.value.clone())))
        .collect(),
        notes: BTreeMap::new(),
    };
    let artifact = Artifact { plan, images, constants, metadata };
    timings.push(("plan".to_owned(), started.elapsed().as_nanos() as u64));
    Ok(Compiled { artifact, events: events(module), timings })
}

fn dump(dir: &std::path::Path, name: &str, text: &str) -> Result<(), CompileError> {
    std::fs::create_dir_all(dir).and_then(|()| std::fs::write(dir.join(name), text)).map_err(|e| {
        CompileError {
            diagnostics: vec![Diagnostic::error(
                None,
                format!("cannot write {}: {e}", dir.join(name).display()),
            )],
            pipeline: String::new(),
        }
    })
}

type Generated = (BTreeMap<String, KernelInfo>, Vec<Image>);

fn codegen<'c>(
    context: &'c Context,
    module: &Module<'c>,
    options: &Options,
    facts: &mut BTreeMap<String, KernelFacts>,
) -> Result<Generated, CompileError> {
    let mut kernels = BTreeMap::new();
    let mut images = Vec::new();
    let mut add = |meta: crate::kernel::metadata::KernelMeta, image: usize| {
        let info = KernelInfo {
            symbol: meta.name.clone(),
            image: image as u32,
            facts: facts.remove(&meta.name).unwrap_or_default(),
            block: meta.block,
            shared_bytes: meta.shared_bytes,
            checks: meta.checks,
            grid: meta.grid,
        };
        kernels.insert(meta.name, info);
    };
    match &options.target {
        Target::Nvptx { chip } => {
            for kernel in gpu::codegen::compile_kernels(context, module, chip)? {
                if let Some(dir) = &options.dump_dir {
                    dump(dir, &format!("{}.ptx", kernel.meta.name), &kernel.ptx)?;
                }
                add(kernel.meta, images.len());
                images.push(Image {
                    kind: ImageKind::Ptx,
                    target: chip.clone(),
                    bytes: kernel.ptx.into_bytes(),
                });
            }
        }
        Target::Cpu { .. } => {
            let compiled = cpu::codegen::compile_object(context, module, &options.target)?;
            for meta in compiled.kernels {
                add(meta, 0);
            }
            if !kernels.is_empty() {
                images.push(Image {
                    kind: ImageKind::ElfX86_64,
                    target: compiled.target,
                    bytes: compiled.object,
                });
            }
        }
    }
    Ok((kernels, images))
}

/// The LLVM IR of a compiled module's kernels, as code is selected from it: what [`compile`] left, once more.
pub fn llvm_ir<'c>(
    context: &'c Context,
    module: &Module<'c>,
    target: &Target,
) -> Result<String, CompileError> {
    Ok(match target {
        Target::Nvptx { chip } => gpu::codegen::llvm_ir(context, module, chip)?.join("\n"),
        Target::Cpu { .. } => cpu::codegen::llvm_ir(context, module, target)?,
    })
}

/// One event for every op that runs in the embedding program.
fn events(module: &Module<'_>) -> Vec<Event> {
    let Some(body) = entry(module).and_then(|f| ir::body(&f)) else { return vec![] };
    ir::ops(body)
        .iter()
        .filter(|op| ir::name(*op) == "graph.custom_call")
        .filter_map(|op| {
            let view = OpView::new(op).ok()?;
            let (target, reason) = (view.str("target"), view.str("reason"));
            // Without a reason to fall back it is a library of that program.
            (!reason.is_empty()).then(|| {
                Event::new(EventKind::Fallback, format!("{target}: {reason}"))
                    .at(ir::location_text(op.location()))
            })
        })
        .collect()
}
