//! Binding: symbols get their values from the arguments, and the arguments are checked against what the plan says. The
//! messages are the guards' messages: parameter, dimension, expected, found.

use crate::device::TensorRef;
use crate::error::{Error, Result, err};
use crate::plan::{Binding, Plan};
use crate::sym::Expr;

/// The value of each symbol for these arguments, after every check.
pub(super) fn bind(plan: &Plan, inputs: &[TensorRef<'_>], scalars: &[i64]) -> Result<Vec<i64>> {
    if inputs.len() != plan.inputs.len() {
        let names: Vec<&str> = plan.inputs.iter().map(|i| i.name.as_str()).collect();
        return Err(err!(Input, "@{} takes {} tensors, got {}", plan.name, plan.inputs.len(), inputs.len())
            .next(format!("pass, in order: {}", names.join(", "))));
    }
    for (i, (t, input)) in inputs.iter().zip(&plan.inputs).enumerate() {
        let buffer = &plan.buffers[input.buffer.0 as usize];
        let at = |e: Error| e.at(format_args!("parameter %{} (number {i})", input.name));
        if t.dtype != buffer.dtype {
            return Err(at(err!(Input, "expected element type {}, found {}", buffer.dtype, t.dtype)
                .next("convert the tensor, or compile for this type")));
        }
        if t.shape.len() != buffer.shape.len() {
            return Err(at(err!(
                Input,
                "expected rank {}, found {} ({:?})",
                buffer.shape.len(),
                t.shape.len(),
                t.shape
            )
            .next("reshape the tensor, or compile for this rank")));
        }
    }
    let mut values = Vec::with_capacity(plan.symbols.len());
    for (s, symbol) in plan.symbols.iter().enumerate() {
        let name = |input: u32| &plan.inputs[input as usize].name;
        let (value, place) = match &symbol.binding {
            Binding::InputDim { input, dim } => (
                inputs[*input as usize].shape[*dim as usize],
                format!("parameter %{}, dimension {dim}", name(*input)),
            ),
            Binding::InputStride { input, dim } => {
                let place = format!("parameter %{}, stride of dimension {dim}", name(*input));
                (inputs[*input as usize].strides[*dim as usize], place)
            }
            Binding::Scalar(n) => {
                let value = scalars.get(*n as usize).copied().ok_or_else(|| {
                    err!(Input, "@{} takes an integer argument number {n}, got {}", plan.name, scalars.len())
                        .next("pass all integer arguments")
                })?;
                (value, format!("integer argument {n}"))
            }
            Binding::Defined(e) => (eval(e, &values, "a symbol")?, format!("s{s} = {e}")),
        };
        let info = &symbol.info;
        let (min, max, divisor) = (info.min, info.max, info.divisor.max(1));
        if value < min || value > max || value % divisor != 0 {
            let expected = match (max, divisor) {
                (i64::MAX, 1) => format!("at least {min}"),
                (_, 1) => format!("{min} to {max}"),
                (i64::MAX, d) => format!("a multiple of {d}, at least {min}"),
                (_, d) => format!("a multiple of {d}, {min} to {max}"),
            };
            return Err(err!(Input, "expected s{s} \"{}\": {expected}; found {value}", info.name)
                .at(place)
                .next("pass a size in the range, or compile again with a wider range"));
        }
        values.push(value);
    }
    for (i, (t, input)) in inputs.iter().zip(&plan.inputs).enumerate() {
        check_sizes(plan, i, t, input, &values)?;
    }
    Ok(values)
}

/// `size`, or `s0 * 2 = 16` where it is no number.
fn shown(e: &Expr, value: i64) -> String {
    if e.as_const().is_some() { value.to_string() } else { format!("{e} = {value}") }
}

fn check_sizes(
    plan: &Plan,
    number: usize,
    t: &TensorRef<'_>,
    input: &crate::plan::Input,
    values: &[i64],
) -> Result<()> {
    let buffer = &plan.buffers[input.buffer.0 as usize];
    let place = |d: usize| format!("parameter %{} (number {number}), dimension {d}", input.name);
    for (d, (expected, &found)) in buffer.shape.iter().zip(t.shape).enumerate() {
        let value = eval(expected, values, "a size")?;
        if value != found {
            return Err(err!(Input, "expected size {}, found {found}", shown(expected, value))
                .at(place(d))
                .next("pass a tensor of the expected size, or compile with this dimension dynamic"));
        }
    }
    // Strides of dimensions of size 1, and of empty tensors, are never used.
    if t.shape.contains(&0) {
        return Ok(());
    }
    let mut row_major = 1i64;
    for d in (0..t.shape.len()).rev() {
        let (value, text) = match &buffer.strides {
            Some(s) => {
                let value = eval(&s[d], values, "a stride")?;
                (value, shown(&s[d], value))
            }
            None => (row_major, format!("{row_major} (contiguous)")),
        };
        if t.shape[d] != 1 && t.strides[d] != value {
            return Err(err!(Input, "expected stride {text}, found {}", t.strides[d])
                .at(place(d))
                .next("make the tensor contiguous, or compile for these strides"));
        }
        row_major = row_major.saturating_mul(t.shape[d]);
    }
    Ok(())
}

/// The value of an expression of a verified plan.
pub(super) fn eval(e: &Expr, values: &[i64], what: &str) -> Result<i64> {
    e.eval(values).ok_or_else(|| {
        err!(Input, "{what} has no value: {e} with symbols {values:?} divides by zero or leaves 64 bits")
            .next("pass smaller sizes")
    })
}
