//! The loop that runs steps. Everything that watches a pipeline (printing, diffs, traces, checks) is an `Observer`.

use crate::driver::bisect::Point;
use crate::driver::diagnostics::{Collector, Diagnostic};
use crate::driver::pass::{PassCx, Rewrites};
use crate::driver::step::{Step, StepKind};
use crate::target::Target;
use melior::Context;
use melior::ir::Module;
use melior::ir::operation::OperationLike;
use melior::pass::PassManager;
use serde::Serialize;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::time::Instant;

/// How steps are run.
#[derive(Clone, Debug)]
pub struct RunConfig {
    /// What code is made for.
    pub target: Target,
    /// Verify after each upstream step (own passes are always verified).
    pub verify_each: bool,
    /// Run only a part.
    pub limit: Option<Point>,
    /// Keep what a step was given, so that a failure can be reproduced.
    pub keep_input: bool,
}

impl RunConfig {
    /// For a target: everything verified, nothing kept.
    pub fn new(target: Target) -> Self {
        Self { target, verify_each: true, limit: None, keep_input: false }
    }
}

/// The place of a step in its pipeline.
#[derive(Clone, Copy, Debug)]
pub struct At<'a> {
    /// From 1.
    pub number: usize,
    /// All steps of the pipeline.
    pub steps: &'a [Step],
}

impl<'a> At<'a> {
    /// The step itself.
    pub fn step(&self) -> &'a Step {
        &self.steps[self.number - 1]
    }
}

/// How a step went.
#[derive(Clone, Debug, Serialize)]
pub struct StepRecord {
    /// From 1.
    pub number: usize,
    /// The pass's name.
    pub name: String,
    /// The step as a pipeline.
    pub pipeline: String,
    /// Wall time of the pass.
    pub seconds: f64,
    /// Wall time of the verification after it.
    pub verify_seconds: f64,
    /// The pass's counters.
    pub stats: BTreeMap<String, u64>,
    /// The rewrites that it wanted to make, where it counts them.
    pub rewrites: u64,
}

/// Watches a run. A diagnostic as an error stops it.
pub trait Observer {
    /// Before any step.
    fn start(&mut self, _module: &Module<'_>) -> Result<(), Diagnostic> {
        Ok(())
    }
    /// Before a step.
    fn before(&mut self, _at: At<'_>, _module: &Module<'_>) -> Result<(), Diagnostic> {
        Ok(())
    }
    /// After a step that went well.
    fn after(&mut self, _at: At<'_>, _record: &StepRecord, _module: &Module<'_>) -> Result<(), Diagnostic> {
        Ok(())
    }
    /// After a step that failed; the module may not verify.
    fn failed(&mut self, _at: At<'_>, _module: &Module<'_>) {}
}

/// What a run did.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// The steps that ended well.
    pub steps: Vec<StepRecord>,
    /// Wall time spent in observers.
    pub observer_seconds: f64,
    /// Steps that the limit left out.
    pub skipped: usize,
    /// Warnings and remarks.
    pub diagnostics: Vec<Diagnostic>,
}

/// What stopped a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The pass gave up.
    Pass,
    /// The pass panicked.
    Panic,
    /// The IR does not verify after the step.
    Verifier,
    /// An observer: a check failed, or a file could not be written.
    Observer,
}

/// Why and where a run stopped.
#[derive(Clone, Debug)]
pub struct Stopped {
    /// What stopped it.
    pub cause: Cause,
    /// The failing step, from 1.
    pub number: usize,
    /// The failing step as a pipeline.
    pub pipeline: String,
    /// What is wrong, and what was said before.
    pub diagnostics: Vec<Diagnostic>,
    /// What the step was given, if it was kept.
    pub input: Option<String>,
}

/// Runs steps on a module.
pub fn run<'c>(
    context: &'c Context,
    module: &mut Module<'c>,
    steps: &[Step],
    config: &RunConfig,
    observers: &mut [Box<dyn Observer + '_>],
) -> Result<Report, Box<Stopped>> {
    let collector = Collector::new(context);
    let mut report = Report::default();
    let count = config.limit.map_or(steps.len(), |point| point.step.min(steps.len()));
    report.skipped = steps.len() - count;

    let stop = |cause: Cause, number: usize, said: Vec<Diagnostic>, input: Option<String>| {
        let mut diagnostics = collector.take();
        diagnostics.extend(said);
        let pipeline = steps.get(number.wrapping_sub(1)).map(Step::text).unwrap_or_default();
        Box::new(Stopped { cause, number, pipeline, diagnostics, input })
    };

    // All upstream pass managers are made first: a bad option value is found before any work is done.
    let mut managers = Vec::new();
    for (i, step) in steps[..count].iter().enumerate() {
        managers.push(match step.kind {
            StepKind::Own(..) => None,
            StepKind::Upstream(_) => Some(
                manager(context, &step.text(), config.verify_each)
                    .map_err(|m| stop(Cause::Pass, i + 1, vec![Diagnostic::error(None, m)], None))?,
            ),
        });
    }

    let watched = Instant::now();
    for observer in observers.iter_mut() {
        observer.start(module).map_err(|d| stop(Cause::Observer, 0, vec![d], None))?;
    }
    report.observer_seconds += watched.elapsed().as_secs_f64();

    for (i, step) in steps[..count].iter().enumerate() {
        let at = At { number: i + 1, steps };
        let watched = Instant::now();
        for observer in observers.iter_mut() {
            observer.before(at, module).map_err(|d| stop(Cause::Observer, at.number, vec![d], None))?;
        }
        report.observer_seconds += watched.elapsed().as_secs_f64();

        let input = config.keep_input.then(|| clone(module));
        let started = Instant::now();
        let (result, stats, rewrites) = match (&step.kind, &managers[i]) {
            (StepKind::Own(pass, options), _) => {
                let cx = PassCx {
                    context,
                    target: config.target.clone(),
                    options: options.clone(),
                    stats: RefCell::default(),
                    rewrites: Rewrites {
                        limit: config.limit.filter(|p| p.step == at.number).and_then(|p| p.rewrites),
                        ..Rewrites::default()
                    },
                };
                let result =
                    guarded(&step.name, || (pass.run)(&cx, module).map_err(|f| Diagnostic::from_failure(&f)));
                (result, cx.stats.into_inner(), cx.rewrites.wanted.get())
            }
            (_, Some(manager)) => {
                let ran = manager
                    .run(module)
                    .map_err(|_| Diagnostic::error(None, format!("the pass '{}' failed", step.name)))
                    .map_err(|d| (Cause::Pass, d));
                (ran, BTreeMap::new(), 0)
            }
            (_, None) => unreachable!("every upstream step has a manager"),
        };
        let ran = started.elapsed().as_secs_f64();

        let verifying = Instant::now();
        let result = result.and_then(|()| {
            if step.is_own() && !module.as_operation().verify() {
                let message = format!("the IR does not verify after step {}, '{}'", at.number, step.text());
                return Err((Cause::Verifier, Diagnostic::error(None, message)));
            }
            Ok(())
        });
        let verify_seconds = verifying.elapsed().as_secs_f64();

        let watched = Instant::now();
        if let Err((cause, diagnostic)) = result {
            for observer in observers.iter_mut() {
                observer.failed(at, module);
            }
            // MLIR has already said why; a second line without a place adds nothing.
            let said = if collector.has_error() && diagnostic.position.is_none() && !step.is_own() {
                Vec::new()
            } else {
                vec![diagnostic]
            };
            return Err(stop(cause, at.number, said, input.map(|m| m.as_operation().to_string())));
        }
        let record = StepRecord {
            number: at.number,
            name: step.name.clone(),
            pipeline: step.text(),
            seconds: ran,
            verify_seconds,
            stats,
            rewrites,
        };
        for observer in observers.iter_mut() {
            observer.after(at, &record, module).map_err(|d| {
                stop(
                    Cause::Observer,
                    at.number,
                    vec![d],
                    input.as_ref().map(|m| m.as_operation().to_string()),
                )
            })?;
        }
        report.observer_seconds += watched.elapsed().as_secs_f64();
        report.steps.push(record);
    }
    report.diagnostics = collector.take();
    Ok(report)
}

/// A copy of a module.
pub fn clone<'c>(module: &Module<'c>) -> Module<'c> {
    // SAFETY: a clone of a module's op is a module's op, owned by nobody else.
    unsafe {
        let copy = mlir_sys::mlirOperationClone(module.as_operation().to_raw());
        Module::from_raw(mlir_sys::mlirModuleFromOperation(copy))
    }
}

fn manager<'c>(context: &'c Context, pipeline: &str, verify: bool) -> Result<PassManager<'c>, String> {
    unsafe extern "C" fn push(text: mlir_sys::MlirStringRef, message: *mut std::ffi::c_void) {
        // SAFETY: MLIR passes a valid string, and back the pointer below.
        unsafe {
            let bytes = std::slice::from_raw_parts(text.data.cast::<u8>(), text.length);
            (*message.cast::<String>()).push_str(&String::from_utf8_lossy(bytes));
        }
    }
    let mut message = String::new();
    // SAFETY: the manager is owned by the returned wrapper; `message` outlives the call that writes it.
    unsafe {
        let anchor = melior::StringRef::new("builtin.module");
        let manager = PassManager::from_raw(mlir_sys::mlirPassManagerCreateOnOperation(
            context.to_raw(),
            anchor.to_raw(),
        ));
        let added = mlir_sys::mlirOpPassManagerAddPipeline(
            mlir_sys::mlirPassManagerGetAsOpPassManager(manager.to_raw()),
            melior::StringRef::new(pipeline).to_raw(),
            Some(push),
            (&raw mut message).cast(),
        );
        if added.value == 0 {
            return Err(format!("'{pipeline}': {}", message.trim()));
        }
        manager.enable_verifier(verify);
        Ok(manager)
    }
}

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Runs an own pass; a panic in it becomes a diagnostic.
fn guarded(name: &str, f: impl FnOnce() -> Result<(), Diagnostic>) -> Result<(), (Cause, Diagnostic)> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !GUARDED.get() {
                return usual(info);
            }
            let payload = info.payload();
            let what = payload.downcast_ref::<String>().map(String::as_str);
            let what = what.or(payload.downcast_ref::<&str>().copied()).unwrap_or("no message");
            let place = info.location().map(|l| format!(" at {}:{}", l.file(), l.line())).unwrap_or_default();
            PANIC.set(format!("{what}{place}"));
        }));
    });
    GUARDED.set(true);
    let result = catch_unwind(AssertUnwindSafe(f));
    GUARDED.set(false);
    match result {
        Ok(done) => done.map_err(|d| (Cause::Pass, d)),
        Err(_) => Err((
            Cause::Panic,
            Diagnostic::error(None, format!("the pass '{name}' panicked: {}", PANIC.take()))
                .note(None, "this is a bug in the pass, not in the program"),
        )),
    }
}
