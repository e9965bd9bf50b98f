//! Runs a function of the loop level on tensors.

use super::super::scalar::Cell;
use super::super::symbols::symbols_of;
use super::super::tensor::{cells, tensor};
use super::super::{Interpreter, argument_attribute, argument_type};
use super::decode::Decoder;
use super::machine::Machine;
use super::memory::{Buffer, Memory, View, row_major};
use crate::driver::pass::Failure;
use crate::ir::body;
use crate::kernel::signature::TICKETS;
use melior::ir::attribute::IntegerAttribute;
use melior::ir::operation::{OperationLike, OperationRef};
use melior::ir::{BlockLike, BlockRef, TypeLike, ValueLike};
use strata_dialects::TensorType;
use strata_dialects::affine::dims_of;
use strata_dialects::reference::RefTensor;

/// What an argument is.
enum Role {
    Input(TensorType),
    Output(TensorType),
    Symbol,
}

fn roles(function: OperationRef<'_, '_>, block: BlockRef<'_, '_>) -> Result<Vec<Role>, String> {
    (0..block.argument_count())
        .map(|i| {
            if block.argument(i).map_err(|e| e.to_string())?.r#type().is_index() {
                return Ok(Role::Symbol);
            }
            let ty = argument_type(function, block, i)?;
            let out = argument_attribute(function, i, "loop.out").is_some();
            Ok(if out { Role::Output(ty) } else { Role::Input(ty) })
        })
        .collect()
}

/// The number of the operand whose elements a result holds when the kernel starts (`loop.init`).
fn initial(function: OperationRef<'_, '_>, i: usize) -> Result<Option<usize>, String> {
    let Some(a) = argument_attribute(function, i, "loop.init") else { return Ok(None) };
    let n =
        IntegerAttribute::try_from(a).map_err(|_| format!("loop.init of argument {i} is not a number"))?;
    Ok(usize::try_from(n.value()).ok())
}

/// Offset and strides of a memref argument: from `loop.strides`, else from its type, else contiguous.
fn layout(
    function: OperationRef<'_, '_>,
    block: BlockRef<'_, '_>,
    i: usize,
    sizes: &[i64],
    symbols: &[i64],
) -> Result<View, String> {
    let mut view = View::contiguous(0, sizes.to_vec());
    if let Some(strides) = argument_attribute(function, i, "loop.strides").and_then(dims_of) {
        view.strides = strides
            .iter()
            .map(|e| e.eval(symbols).ok_or_else(|| format!("the stride {e} of argument {i} has no value")))
            .collect::<Result<_, _>>()?;
        return Ok(view);
    }
    let ty = block.argument(i).map_err(|e| e.to_string())?.r#type();
    let (mut strides, mut offset) = (vec![0i64; sizes.len()], 0i64);
    // SAFETY: a memref type; the callee fills in one stride a dimension.
    let strided = unsafe {
        mlir_sys::mlirMemRefTypeGetStridesAndOffset(ty.to_raw(), strides.as_mut_ptr(), &mut offset).value != 0
    };
    let dynamic = strata_dialects::types::DYNAMIC as i64;
    if strided && !strides.contains(&dynamic) && strides != row_major(sizes) {
        view.strides = strides;
    }
    Ok(view)
}

/// Runs a function: memrefs of the operands, memrefs of the results, one index a symbol.
pub fn run<'c>(
    cx: &mut Interpreter<'_, 'c>,
    function: OperationRef<'c, '_>,
    inputs: Vec<RefTensor>,
    given: Option<Vec<i64>>,
) -> Result<Vec<RefTensor>, Failure> {
    let at = |m: String| Failure::new(function.location(), m);
    let block = body(&function).ok_or_else(|| at("the function has no body".into()))?;
    let roles = roles(function, block).map_err(at)?;
    let types: Vec<TensorType> = roles
        .iter()
        .filter_map(|r| match r {
            Role::Input(t) => Some(t.clone()),
            _ => None,
        })
        .collect();
    let symbols = cx.bindings(function, &types, &inputs, given)?;
    let expected = roles.iter().filter(|r| matches!(r, Role::Symbol)).count();
    if expected != symbols.len() && !symbols_of(&function).map_err(at)?.is_empty() {
        return Err(at(format!("takes {expected} index arguments, but has {} symbols", symbols.len())));
    }

    let mut decoder = Decoder::new(cx.rounding);
    let mut memory = Memory { serial: 1, ..Memory::default() };
    let (mut views, mut outputs, mut tickets) = (Vec::new(), Vec::new(), Vec::new());
    let given = inputs.clone();
    let (mut next_symbol, mut inputs) = (symbols.iter(), inputs.into_iter());
    for (i, role) in roles.iter().enumerate() {
        let argument = block.argument(i).expect("in range").into();
        let ty = match role {
            Role::Symbol => {
                let place = decoder.define(argument).map_err(at)?;
                let value = next_symbol
                    .next()
                    .ok_or_else(|| at(format!("argument {i} is an index without a symbol")))?;
                decoder.program.registers[place.at] = Cell::of_i(*value);
                continue;
            }
            Role::Input(t) | Role::Output(t) => t,
        };
        decoder.define_memref(argument);
        let sizes = ty
            .shape
            .iter()
            .map(|e| e.eval(&symbols).ok_or_else(|| format!("the size {e} of argument {i} has no value")))
            .collect::<Result<Vec<i64>, _>>()
            .map_err(at)?;
        let mut view = layout(function, block, i, &sizes, &symbols).map_err(at)?;
        view.buffer = memory.buffers.len();
        let positions = view.positions();
        let size = positions.iter().max().map_or(0, |&m| m as usize + 1);
        let mut buffer = Buffer::new(size);
        if let Role::Input(_) = role {
            let t = inputs.next().expect("as many as types, checked by bindings");
            for (&p, c) in positions.iter().zip(cells(&t.stored())) {
                buffer.cells[p as usize] = c;
                buffer.writers[p as usize] = 1;
            }
        } else {
            if argument_attribute(function, i, "loop.scratch").is_none() {
                outputs.push((view.clone(), ty.dtype));
            }
            // A result that the kernel changes holds an operand's elements before.
            if let Some(o) = initial(function, i).map_err(at)? {
                let t =
                    given.get(o).ok_or_else(|| at(format!("loop.init of argument {i} names no operand")))?;
                for (&p, c) in positions.iter().zip(cells(&t.clone().stored())) {
                    buffer.cells[p as usize] = c;
                    buffer.writers[p as usize] = 1;
                }
            }
        }
        if argument_attribute(function, i, TICKETS).is_some() {
            tickets.push((i, memory.buffers.len()));
            buffer.cells.fill(Cell::of_i(0));
        }
        memory.buffers.push(buffer);
        views.push(view);
    }

    let elsewhere =
        |(location, message): (String, String)| Failure { location, message, next: String::new() };
    let (code, _) = cx.limited(decoder.block(block)).map_err(elsewhere)?;
    let program = decoder.program;
    views.resize(program.memrefs, View::default());
    let mut machine = Machine {
        registers: program.registers,
        views,
        memory,
        sites: vec![None; program.sites],
        left: cx.left,
        row: vec![],
    };
    let outcome = machine.run(&code);
    cx.left = machine.left;
    // Nothing is left only where the budget was too small.
    cx.limit |= outcome.is_err() && cx.left == 0;
    outcome.map_err(|f| elsewhere((program.locations[f.location].clone(), f.message)))?;
    for (i, buffer) in tickets {
        if machine.memory.buffers[buffer].cells.iter().any(|c| c.i() != 0) {
            return Err(at(format!(
                "argument {i}: a ticket is not 0 at the end: fewer blocks arrived than it counts"
            )));
        }
    }
    outputs
        .into_iter()
        .enumerate()
        .map(|(k, (view, dtype))| {
            let positions = view.positions();
            let data = positions
                .iter()
                .map(|&p| machine.memory.read(view.buffer, p))
                .collect::<Result<Vec<Cell>, _>>()
                .map_err(|m| at(format!("result {k} is not complete: {m}")))?;
            let sizes = view.sizes.iter().map(|&n| n as usize).collect();
            Ok(tensor(dtype.storage(), sizes, data).bitcast(dtype))
        })
        .collect()
}
