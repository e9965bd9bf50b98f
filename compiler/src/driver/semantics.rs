//! `--check-semantics[=SEED]`: runs the program on random inputs before and after each step and compares.
//!
//! Before: with rounding and in float64. After: with rounding. See `interp::compare` for what counts as equal; a pass that is declared
//! `exact` must give the same bits. A program that ran and now has no result (a value never written, an access outside of a tensor, a race
//! between iterations, sizes that contradict types) is different too. What cannot be run (a level without interpreter, too much work) is
//! said, not passed over.

use crate::driver::diagnostics::{Diagnostic, Position};
use crate::driver::pass::Level;
use crate::driver::run::{At, Observer, StepRecord};
use crate::driver::step::StepKind;
use crate::interp::{self, Stopped};
use crate::ir;
use melior::ir::Module;
use melior::ir::operation::OperationLike;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use strata_dialects::TensorType;
use strata_dialects::reference::{RefTensor, Rounding, Scalar, Values};

/// Scalar operations that the runs of one function may take.
const BUDGET: u64 = 10_000_000;

const RANDOM: &str = "random";
const SPECIAL: &str = "random whole numbers, ties and NaN";

/// Inputs of a function, and its results as the last step that could be run left them.
struct Trial {
    /// What the inputs are, for the user.
    what: &'static str,
    inputs: Vec<RefTensor>,
    exact: Vec<RefTensor>,
    float64: Vec<RefTensor>,
}

/// What is known of a function: its types, and one run for each kind of inputs.
struct Known {
    takes: Vec<TensorType>,
    trials: Vec<Trial>,
}

/// Why there is no new result.
enum Missing {
    /// The interpreter cannot run it.
    Skipped(String),
    /// The program is no longer what it was.
    Wrong(String, &'static str),
}

/// What was compared and what was not.
#[derive(Clone, Debug, Default)]
pub struct Checked {
    /// Comparisons made: steps times functions.
    pub compared: u64,
    /// Why some were not made: step and reason.
    pub skipped: Vec<String>,
}

/// Checks each step.
pub struct Semantics {
    seed: u64,
    known: BTreeMap<String, Known>,
    /// The module when it was last run; empty where it could not be.
    text: String,
    checked: Rc<RefCell<Checked>>,
}

impl Semantics {
    /// With inputs by `seed`. What was done is added to `checked`.
    pub fn new(seed: u64, checked: Rc<RefCell<Checked>>) -> Self {
        Self { seed, known: BTreeMap::new(), text: String::new(), checked }
    }

    fn learn(&self, module: &Module<'_>, name: &str) -> Result<Known, String> {
        let signature = interp::signature(module, name)?;
        let symbols = signature.random_symbols(self.seed)?;
        let trial = |what, inputs: Vec<RefTensor>| {
            let run = |rounding| evaluate(module, name, &inputs, rounding).map_err(|s| s.failure.to_string());
            let (exact, float64) = (run(Rounding::Exact)?, run(Rounding::Float64)?);
            Ok::<_, String>(Trial { what, inputs, exact, float64 })
        };
        let random = signature.random_tensors(&symbols, self.seed)?;
        // Integers may be indices, of which only some are inside.
        let near = || random.iter().map(first_positions).collect();
        let first = trial(RANDOM, random.clone()).or_else(|why| trial(RANDOM, near()).map_err(|_| why));
        let mut trials = vec![first?];
        if signature.inputs.iter().any(|t| t.dtype.is_float()) {
            // What has no result on such inputs is still checked with others.
            trials.extend(trial(SPECIAL, signature.special_tensors(&symbols, self.seed)?));
        }
        Ok(Known { takes: signature.inputs, trials })
    }

    /// Compares with what was known, and learns the new results.
    fn check(module: &Module<'_>, name: &str, known: &mut Known, exact: bool) -> Result<(), Missing> {
        let signature = interp::signature(module, name).map_err(Missing::Skipped)?;
        if signature.inputs != known.takes {
            let list =
                |types: &[TensorType]| types.iter().map(TensorType::to_string).collect::<Vec<_>>().join(", ");
            let text = format!("it takes ({}), took ({})", list(&signature.inputs), list(&known.takes));
            return Err(Missing::Wrong(text, RANDOM));
        }
        for trial in &mut known.trials {
            let wrong = |text| Missing::Wrong(text, trial.what);
            let now = match evaluate(module, name, &trial.inputs, Rounding::Exact) {
                Ok(now) => now,
                Err(stopped) if stopped.limit => {
                    return Err(Missing::Skipped(stopped.failure.to_string()));
                }
                Err(stopped) => return Err(wrong(format!("it has no result: {}", stopped.failure))),
            };
            if exact {
                bit_equal(&now, &trial.exact).map_err(wrong)?;
            } else {
                interp::compare(&now, &trial.exact, &trial.float64).map_err(|m| wrong(m.to_string()))?;
            }
            // The next step is measured against what this one left. In float64 a right step leaves what the input computes.
            trial.exact = now;
        }
        Ok(())
    }
}

/// Integers as 0 and 1, which most dimensions have.
fn first_positions(t: &RefTensor) -> RefTensor {
    if t.dtype.is_float() {
        return t.clone();
    }
    RefTensor::generate(t.dtype, &t.shape, Rounding::Exact, |i| Scalar::I(t.get(i).i().rem_euclid(2)))
}

fn bit_equal(now: &[RefTensor], before: &[RefTensor]) -> Result<(), String> {
    if now.len() != before.len() {
        return Err(format!("it has {} results, had {}", now.len(), before.len()));
    }
    match now.iter().zip(before).position(|(a, b)| !same_bits(a, b)) {
        Some(i) => Err(format!("result {i}: {}, was {}", now[i], before[i])),
        None => Ok(()),
    }
}

fn evaluate(
    module: &Module<'_>,
    name: &str,
    inputs: &[RefTensor],
    rounding: Rounding,
) -> Result<Vec<RefTensor>, Stopped> {
    interp::try_function(module, name, inputs, rounding, BUDGET)
}

/// The public functions: those that a step must not change. Private ones come and go with outlining and inlining.
fn entries(module: &Module<'_>) -> Vec<String> {
    let public = |f: &&melior::ir::operation::OperationRef<'_, '_>| {
        f.attribute("sym_visibility").is_err() && ir::body(*f).is_some()
    };
    ir::functions(module).iter().filter(public).map(ir::symbol_name).collect()
}

impl Observer for Semantics {
    fn start(&mut self, module: &Module<'_>) -> Result<(), Diagnostic> {
        self.text = module.as_operation().to_string();
        for name in entries(module) {
            match self.learn(module, &name) {
                Ok(known) => drop(self.known.insert(name, known)),
                Err(why) => self.checked.borrow_mut().skipped.push(format!("input, @{name}: {why}")),
            }
        }
        Ok(())
    }

    fn after(&mut self, at: At<'_>, _: &StepRecord, module: &Module<'_>) -> Result<(), Diagnostic> {
        let step = at.step();
        let exact = matches!(step.kind, StepKind::Own(pass, _) if pass.exact);
        // Most steps of a pipeline find nothing to do.
        let text = module.as_operation().to_string();
        if text == self.text {
            self.checked.borrow_mut().compared += self.known.len() as u64;
            return Ok(());
        }
        self.text = text;
        for (name, known) in &mut self.known {
            match Self::check(module, name, known, exact) {
                Ok(()) => self.checked.borrow_mut().compared += 1,
                Err(Missing::Skipped(why)) => {
                    let lowest = matches!(step.kind, StepKind::Own(pass, _) if pass.to == Level::Llvm);
                    let why = if lowest { "the interpreters end at the loop level".to_owned() } else { why };
                    let text = format!("step {}, {}, @{name}: {why}", at.number, step.name);
                    self.checked.borrow_mut().skipped.push(text);
                    self.text.clear();
                }
                Err(Missing::Wrong(wrong, what)) => {
                    let function = interp::find(module, name);
                    let position = function.and_then(|f| Position::of(f.location()));
                    let declared = if exact { ", which is declared exact," } else { "" };
                    let message = format!(
                        "step {}, '{}'{declared} changes what @{name} computes: {wrong}",
                        at.number,
                        step.text()
                    );
                    return Err(Diagnostic::error(position, message)
                        .note(None, format!("inputs are {what} by seed {}", self.seed)));
                }
            }
        }
        Ok(())
    }
}

/// Equal to the sign of zeros; every NaN counts as the same.
fn same_bits(a: &RefTensor, b: &RefTensor) -> bool {
    a.dtype == b.dtype
        && a.shape == b.shape
        && match (&a.values, &b.values) {
            (Values::Float(x), Values::Float(y)) => {
                x.iter().zip(y).all(|(x, y)| x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan())
            }
            (x, y) => x == y,
        }
}
