//! `--check-semantics[=SEED]`: runs the program on random inputs before and after each step and compares.
//!
//! Before: with rounding and in float64. After: with rounding. See `interp::compare` for what counts as equal; a pass that is declared
//! `exact` must give the same bits. What cannot be run (a level without interpreter, too much work) is said, not passed over.

use crate::driver::diagnostics::{Diagnostic, Position};
use crate::driver::run::{At, Observer, StepRecord};
use crate::driver::step::StepKind;
use crate::interp;
use crate::ir;
use melior::ir::Module;
use melior::ir::operation::OperationLike;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use strata_dialects::TensorType;
use strata_dialects::reference::{RefTensor, Rounding, Values};

/// Scalar operations that the runs of one function may take.
const BUDGET: u64 = 10_000_000;

/// A function as the last step that could be run left it: types, inputs and results.
struct Known {
    takes: Vec<TensorType>,
    inputs: Vec<RefTensor>,
    exact: Vec<RefTensor>,
    float64: Vec<RefTensor>,
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
    checked: Rc<RefCell<Checked>>,
}

impl Semantics {
    /// With inputs by `seed`. What was done is added to `checked`.
    pub fn new(seed: u64, checked: Rc<RefCell<Checked>>) -> Self {
        Self { seed, known: BTreeMap::new(), checked }
    }

    fn learn(&self, module: &Module<'_>, name: &str) -> Result<Known, String> {
        let signature = interp::signature(module, name)?;
        let inputs = signature.random_tensors(&signature.random_symbols(self.seed)?, self.seed)?;
        let exact = evaluate(module, name, &inputs, Rounding::Exact)?;
        let float64 = evaluate(module, name, &inputs, Rounding::Float64)?;
        Ok(Known { takes: signature.inputs, inputs, exact, float64 })
    }

    /// Compares with what was known. An error is a difference; a text why there is nothing to compare.
    fn check(
        &self,
        module: &Module<'_>,
        name: &str,
        known: &Known,
        exact: bool,
    ) -> Result<Result<Known, String>, String> {
        let signature = match interp::signature(module, name) {
            Ok(signature) => signature,
            Err(why) => return Ok(Err(why)),
        };
        if signature.inputs != known.takes {
            let list =
                |types: &[TensorType]| types.iter().map(TensorType::to_string).collect::<Vec<_>>().join(", ");
            return Err(format!("it takes ({}), took ({})", list(&signature.inputs), list(&known.takes)));
        }
        let now = match evaluate(module, name, &known.inputs, Rounding::Exact) {
            Ok(now) => now,
            Err(why) => return Ok(Err(why)),
        };
        if exact {
            if now.len() != known.exact.len() {
                return Err(format!("it has {} results, had {}", now.len(), known.exact.len()));
            }
            if let Some(i) = now.iter().zip(&known.exact).position(|(a, b)| !same_bits(a, b)) {
                return Err(format!("result {i}: {}, was {}", now[i], known.exact[i]));
            }
        } else {
            interp::compare(&now, &known.exact, &known.float64).map_err(|m| m.to_string())?;
        }
        // The next step is measured against what this one left.
        let float64 = evaluate(module, name, &known.inputs, Rounding::Float64);
        let float64 = float64.unwrap_or_else(|_| known.float64.clone());
        Ok(Ok(Known { takes: signature.inputs, inputs: known.inputs.clone(), exact: now, float64 }))
    }
}

fn evaluate(
    module: &Module<'_>,
    name: &str,
    inputs: &[RefTensor],
    rounding: Rounding,
) -> Result<Vec<RefTensor>, String> {
    interp::run_function(module, name, inputs, rounding, BUDGET).map_err(|f| f.to_string())
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
        let names: Vec<_> = self.known.keys().cloned().collect();
        for name in names {
            match self.check(module, &name, &self.known[&name], exact) {
                Ok(Ok(known)) => {
                    self.known.insert(name, known);
                    self.checked.borrow_mut().compared += 1;
                }
                Ok(Err(why)) => {
                    let text = format!("step {}, {}, @{name}: {why}", at.number, step.name);
                    self.checked.borrow_mut().skipped.push(text);
                }
                Err(wrong) => {
                    let function = interp::find(module, &name);
                    let position = function.and_then(|f| Position::of(f.location()));
                    let declared = if exact { ", which is declared exact," } else { "" };
                    let message = format!(
                        "step {}, '{}'{declared} changes what @{name} computes: {wrong}",
                        at.number,
                        step.text()
                    );
                    return Err(Diagnostic::error(position, message)
                        .note(None, format!("inputs are random by seed {}", self.seed)));
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
