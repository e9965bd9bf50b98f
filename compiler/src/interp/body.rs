//! Bodies of `linalg.generic` and `tensor.pad`: straight-line scalar code on registers.

use super::decode::{constant, decode};
use super::scalar::{Cell, ScalarOp};
use super::tensor::{Env, Step, Val, key, tensor_of};
use crate::ir::{name, ops};
use melior::ir::attribute::IntegerAttribute;
use melior::ir::operation::{OperationLike, OperationRef};
use melior::ir::{BlockLike, BlockRef, Value};
use std::collections::BTreeMap;
use std::rc::Rc;
use strata_dialects::Attr;
use strata_dialects::ops::indexing::check_index;
use strata_dialects::reference::{RefTensor, Rounding};

/// What a body may use from outside.
pub(super) struct Outer<'e> {
    pub env: &'e Env,
    pub rounding: Rounding,
}

/// A step of a body.
pub(super) enum BodyStep {
    Scalar { op: ScalarOp, from: Vec<usize>, to: usize },
    Index { dim: usize, to: usize },
    Extract { tensor: Rc<RefTensor>, from: Vec<usize>, to: usize },
    Check { check: Check, index: usize, size: usize, to: usize },
}

/// A decoded body: its arguments are the first registers.
pub(super) struct Body {
    pub steps: Vec<BodyStep>,
    registers: Vec<Cell>,
    yields: Vec<usize>,
}

/// What `loop.check_index` checks.
#[derive(Debug)]
pub(super) struct Check {
    wrap: bool,
    message: String,
}

impl Check {
    pub fn of(op: &OperationRef<'_, '_>) -> Step<Self> {
        match ["wrap", "message"].map(|n| op.attribute(n).ok().and_then(Attr::from_mlir)) {
            [Some(Attr::Bool(wrap)), Some(Attr::Str(message))] => Ok(Self { wrap, message }),
            _ => Err("'loop.check_index' without 'wrap' or 'message'".into()),
        }
    }

    pub fn run(&self, index: Cell, size: Cell) -> Step<Cell> {
        check_index(index.i(), size.i(), self.wrap, &self.message).map(Cell::of_i)
    }
}

/// The flat position of an index, checked against the sizes.
pub(super) fn position(shape: &[usize], at: &[Cell]) -> Step<usize> {
    let mut flat = 0;
    for (d, (&n, i)) in shape.iter().zip(at).enumerate() {
        if i.i() < 0 || i.i() as usize >= n {
            return Err(format!("index {} is outside of dimension {d} of size {n}", i.i()));
        }
        flat = flat * n + i.i() as usize;
    }
    Ok(flat)
}

struct Decoder<'e> {
    outer: &'e Outer<'e>,
    places: BTreeMap<usize, usize>,
    registers: Vec<Cell>,
}

impl Decoder<'_> {
    fn define(&mut self, v: Value<'_, '_>, initial: Cell) -> usize {
        self.registers.push(initial);
        self.places.insert(key(v), self.registers.len() - 1);
        self.registers.len() - 1
    }

    /// The register of a value; a scalar from outside gets one that holds it.
    fn register(&mut self, v: Value<'_, '_>) -> Step<usize> {
        if let Some(&r) = self.places.get(&key(v)) {
            return Ok(r);
        }
        match self.outer.env.get(&key(v)) {
            Some(Val::Scalar(c)) => Ok(self.define(v, *c)),
            _ => Err("a body uses a value that is not a scalar computed before".into()),
        }
    }
}

impl Body {
    /// Decodes the block of a body.
    pub fn decode(block: BlockRef<'_, '_>, outer: &Outer<'_>) -> Step<Self> {
        let mut d = Decoder { outer, places: BTreeMap::new(), registers: vec![] };
        for i in 0..block.argument_count() {
            d.define(block.argument(i).map_err(|e| e.to_string())?.into(), Cell::default());
        }
        let (mut steps, mut yields) = (Vec::new(), None);
        for op in ops(block) {
            match name(&op) {
                "linalg.yield" | "tensor.yield" => {
                    yields = Some(op.operands().map(|v| d.register(v)).collect::<Step<Vec<_>>>()?);
                }
                "arith.constant" | "index.constant" => {
                    let value = op.attribute("value").map_err(|e| e.to_string())?;
                    let cells = constant(value)?;
                    d.define(op.result(0).map_err(|e| e.to_string())?.into(), cells[0]);
                }
                "linalg.index" => {
                    let dim = op.attribute("dim").map_err(|e| e.to_string())?;
                    let dim = IntegerAttribute::try_from(dim).map_err(|e| e.to_string())?.value() as usize;
                    let to = d.define(op.result(0).map_err(|e| e.to_string())?.into(), Cell::default());
                    steps.push(BodyStep::Index { dim, to });
                }
                "tensor.extract" => {
                    let tensor = tensor_of(outer.env, op.operand(0).map_err(|e| e.to_string())?)?;
                    let from = op.operands().skip(1).map(|v| d.register(v)).collect::<Step<Vec<_>>>()?;
                    let to = d.define(op.result(0).map_err(|e| e.to_string())?.into(), Cell::default());
                    steps.push(BodyStep::Extract { tensor, from, to });
                }
                "loop.check_index" => {
                    let check = Check::of(&op)?;
                    let operand =
                        |d: &mut Decoder<'_>, i: usize| d.register(op.operand(i).map_err(|e| e.to_string())?);
                    let (index, size) = (operand(&mut d, 0)?, operand(&mut d, 1)?);
                    let to = d.define(op.result(0).map_err(|e| e.to_string())?.into(), Cell::default());
                    steps.push(BodyStep::Check { check, index, size, to });
                }
                other => {
                    let f = decode(&op, outer.rounding)?;
                    let f =
                        f.ok_or_else(|| format!("'{other}' in a body is not known to the interpreter"))?;
                    let from = op.operands().map(|v| d.register(v)).collect::<Step<Vec<_>>>()?;
                    let to = d.define(op.result(0).map_err(|e| e.to_string())?.into(), Cell::default());
                    steps.push(BodyStep::Scalar { op: f, from, to });
                }
            }
        }
        Ok(Self { steps, registers: d.registers, yields: yields.ok_or("a body without a yield")? })
    }

    /// A machine that runs this body.
    pub fn machine(&self) -> Machine<'_> {
        Machine { code: self, registers: self.registers.clone(), row: Vec::new() }
    }
}

/// Registers of a running body.
pub(super) struct Machine<'b> {
    code: &'b Body,
    registers: Vec<Cell>,
    row: Vec<Cell>,
}

impl Machine<'_> {
    /// Sets an argument.
    pub fn set(&mut self, argument: usize, value: Cell) {
        self.registers[argument] = value;
    }

    /// Runs the body at a position of the iteration space.
    pub fn run(&mut self, index: &[Cell]) -> Step<()> {
        for step in &self.code.steps {
            match step {
                BodyStep::Scalar { op, from, to } => {
                    self.row.clear();
                    self.row.extend(from.iter().map(|&r| self.registers[r]));
                    self.registers[*to] = op.eval(&self.row).map_err(str::to_owned)?;
                }
                BodyStep::Check { check, index, size, to } => {
                    self.registers[*to] = check.run(self.registers[*index], self.registers[*size])?;
                }
                BodyStep::Index { dim, to } => self.registers[*to] = index[*dim],
                BodyStep::Extract { tensor, from, to } => {
                    self.row.clear();
                    self.row.extend(from.iter().map(|&r| self.registers[r]));
                    self.registers[*to] = Cell::of(tensor.get(position(&tensor.shape, &self.row)?));
                }
            }
        }
        Ok(())
    }

    /// What the body yielded.
    pub fn yielded(&self) -> Vec<Cell> {
        self.code.yields.iter().map(|&r| self.registers[r]).collect()
    }
}
