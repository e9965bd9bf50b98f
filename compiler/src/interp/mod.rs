//! Interpreters on the host for every level down to loop, and the oracle that compares two of their runs.
//!
//! They are readable before they are fast. Tensors are [`RefTensor`]s; float ops round to their type ([`Rounding::Exact`]) or not at
//! all ([`Rounding::Float64`]).

mod affine;
mod body;
pub mod compare;
mod decode;
mod graph;
pub mod inputs;
mod loops;
pub mod scalar;
pub mod symbols;
mod tensor;
mod views;

pub use compare::{Mismatch, compare};
pub use inputs::{Signature, random_inputs, signature};

use crate::driver::pass::{Failure, Level};
use crate::ir::{body, functions, name, ops, symbol_name};
use melior::ir::attribute::{ArrayAttribute, DictionaryAttribute};
use melior::ir::operation::{OperationLike, OperationRef};
use melior::ir::{BlockLike, BlockRef, Location, Module, TypeLike, ValueLike};
use strata_dialects::TensorType;
use strata_dialects::affine::dims_of;
use strata_dialects::reference::{RefTensor, Rounding};

/// How much work a run may do where nothing else is asked for, in scalar operations.
pub const DEFAULT_BUDGET: u64 = 100_000_000;

/// Runs a function of a module on tensors. Its level is found out by looking at it; calls may lead to functions of other levels.
///
/// `budget` bounds the scalar operations, about; a run that needs more fails.
pub fn run_function<'c>(
    module: &Module<'c>,
    name: &str,
    inputs: &[RefTensor],
    rounding: Rounding,
    budget: u64,
) -> Result<Vec<RefTensor>, Failure> {
    try_function(module, name, inputs, rounding, budget).map_err(|stopped| stopped.failure)
}

/// Why a run has no results.
#[derive(Clone, Debug)]
pub struct Stopped {
    /// What is said of it.
    pub failure: Failure,
    /// Whether it is a limit of the interpreter (budget, level, an op that it does not know). Otherwise the program itself is at fault: it
    /// reads what was never written, leaves a tensor, races, computes a size other than the stated one.
    pub limit: bool,
}

/// [`run_function`], telling faults of the program from limits of the interpreter.
pub fn try_function<'c>(
    module: &Module<'c>,
    name: &str,
    inputs: &[RefTensor],
    rounding: Rounding,
    budget: u64,
) -> Result<Vec<RefTensor>, Stopped> {
    let mut cx = Interpreter { module, rounding, left: budget, budget, limit: false };
    let done = cx.call(name, inputs.to_vec(), None, module.as_operation().location());
    done.map_err(|failure| Stopped { failure, limit: cx.limit })
}

/// The function of that name.
pub fn find<'c, 'a>(module: &'a Module<'c>, name: &str) -> Option<OperationRef<'c, 'a>> {
    functions(module).into_iter().find(|f| symbol_name(f) == name)
}

/// The level of a function, by its arguments and ops.
pub fn level_of<'c: 'a, 'a>(function: OperationRef<'c, 'a>) -> Level {
    let Some(block) = body(&function) else { return Level::Graph };
    let memref = |i: usize| {
        // SAFETY: a query on a valid type.
        block.argument(i).is_ok_and(|a| unsafe { mlir_sys::mlirTypeIsAMemRef(a.r#type().to_raw()) })
    };
    if function.has_attribute("loop.kernel") || (0..block.argument_count()).any(memref) {
        return Level::Loop;
    }
    let foreign = ops(block).iter().any(|op| !name(op).starts_with("graph.") && name(op) != "func.return");
    if foreign || (0..block.argument_count()).any(|i| argument_attribute(function, i, "loop.dims").is_some())
    {
        return Level::Tensor;
    }
    Level::Graph
}

/// An attribute of an argument.
fn argument_attribute<'c>(
    function: OperationRef<'c, '_>,
    i: usize,
    key: &str,
) -> Option<melior::ir::Attribute<'c>> {
    let list = ArrayAttribute::try_from(function.attribute("arg_attrs").ok()?).ok()?;
    DictionaryAttribute::try_from(list.element(i).ok()?).ok()?.element_by_name(key)
}

/// The plain types of the first `n` arguments below the graph level: sizes from `loop.dims`, or from the type where it is static.
fn argument_dims(
    function: OperationRef<'_, '_>,
    block: BlockRef<'_, '_>,
    n: usize,
) -> Result<Vec<TensorType>, String> {
    (0..n).map(|i| argument_type(function, block, i)).collect()
}

fn argument_type(
    function: OperationRef<'_, '_>,
    block: BlockRef<'_, '_>,
    i: usize,
) -> Result<TensorType, String> {
    let ty = block.argument(i).map_err(|e| e.to_string())?.r#type();
    let stored = decode::element_of(ty)?;
    let dtype =
        crate::element::stated(function, "arg_attrs", i).filter(|d| d.storage() == stored).unwrap_or(stored);
    if let Some(shape) = argument_attribute(function, i, "loop.dims").and_then(dims_of) {
        return Ok(TensorType { dtype, shape });
    }
    // SAFETY: queries on a type; it is shaped where it is asked for sizes, and its rank bounds the indices.
    unsafe {
        let raw = ty.to_raw();
        if !mlir_sys::mlirTypeIsAShaped(raw) {
            return Err(format!("argument {i} is '{ty}', expected a tensor or a memref"));
        }
        if !mlir_sys::mlirShapedTypeHasStaticShape(raw) {
            return Err(format!("argument {i} is '{ty}' without 'loop.dims'"));
        }
        let sizes = (0..mlir_sys::mlirShapedTypeGetRank(raw) as isize)
            .map(|d| mlir_sys::mlirShapedTypeGetDimSize(raw, d));
        Ok(TensorType::new(dtype, sizes))
    }
}

/// A run: the module, the rounding, what is left of the budget.
struct Interpreter<'m, 'c> {
    module: &'m Module<'c>,
    rounding: Rounding,
    left: u64,
    budget: u64,
    /// Set where the run ends for a reason that says nothing of the program.
    limit: bool,
}

impl<'c: 'm, 'm> Interpreter<'m, 'c> {
    /// Takes work off the budget.
    fn spend(&mut self, work: u64, location: Location<'c>) -> Result<(), Failure> {
        match self.left.checked_sub(work) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => {
                self.limit = true;
                Err(Failure::new(
                    location,
                    format!("the run needs more than its budget of {} scalar operations", self.budget),
                )
                .next("give smaller inputs or a larger budget"))
            }
        }
    }

    /// Notes that an error is a limit of the interpreter.
    fn limited<T, E>(&mut self, done: Result<T, E>) -> Result<T, E> {
        self.limit |= done.is_err();
        done
    }

    /// Runs a function by its name. `symbols` are the values of its symbols, where the caller states them.
    fn call(
        &mut self,
        name: &str,
        inputs: Vec<RefTensor>,
        symbols: Option<Vec<i64>>,
        location: Location<'c>,
    ) -> Result<Vec<RefTensor>, Failure> {
        let Some(function) = find(self.module, name) else {
            // The verifier checks calls: the callee is there, lowered to something that is not run here.
            self.limit = true;
            let known: Vec<String> =
                functions(self.module).iter().map(|f| format!("@{}", symbol_name(f))).collect();
            return Err(Failure::new(location, format!("the module defines no function @{name}"))
                .next(format!("it defines {}", known.join(", "))));
        };
        match level_of(function) {
            Level::Graph => graph::run(self, function, inputs, symbols),
            Level::Tensor => tensor::run(self, function, inputs, symbols),
            Level::Loop => loops::run(self, function, inputs, symbols),
            Level::Llvm => {
                self.limit = true;
                let what = "functions below the loop level are not interpreted";
                Err(Failure::new(function.location(), what).next("run them on a device"))
            }
        }
    }
}
