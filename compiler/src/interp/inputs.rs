//! What a function takes, and random tensors for it.

use super::symbols::{SymbolFact, symbols_for};
use super::{argument_attribute, argument_type, find, graph, level_of};
use crate::driver::pass::Level;
use crate::ir::body;
use melior::ir::{BlockLike, Module, TypeLike, ValueLike};
use strata_dialects::TensorType;
use strata_dialects::reference::{RefTensor, Rounding, Scalar};
use strata_runtime::DType;
use strata_runtime::tensor::SplitMix64;

/// The tensors that a function takes and its symbols, the same at every level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// Types of the input tensors.
    pub inputs: Vec<TensorType>,
    /// The function's symbols.
    pub symbols: Vec<SymbolFact>,
}

/// The signature of a function of any level down to loop.
pub fn signature(module: &Module<'_>, name: &str) -> Result<Signature, String> {
    let function = find(module, name).ok_or_else(|| format!("the module defines no function @{name}"))?;
    let block = body(&function).ok_or_else(|| format!("@{name} has no body"))?;
    let inputs = if level_of(function) == Level::Graph {
        graph::argument_types(block)?
    } else {
        let mut inputs = Vec::new();
        for i in 0..block.argument_count() {
            let is_index = block.argument(i).map_err(|e| e.to_string())?.r#type().is_index();
            if !is_index && argument_attribute(function, i, "loop.out").is_none() {
                inputs.push(argument_type(function, block, i)?);
            }
        }
        inputs
    };
    let symbols = symbols_for(&function, &inputs)?;
    Ok(Signature { inputs, symbols })
}

impl Signature {
    /// Small values of the symbols that keep their promises. Which ones depends on the seed alone.
    pub fn random_symbols(&self, seed: u64) -> Result<Vec<i64>, String> {
        let mut random = SplitMix64::new(seed ^ 0x5eed_5eed);
        let mut values = vec![0; self.symbols.len()];
        for (v, f) in values.iter_mut().zip(&self.symbols) {
            let s = &f.symbol;
            let first = (s.min.max(0) + s.divisor - 1) / s.divisor * s.divisor;
            let room = ((s.max.saturating_sub(first)) / s.divisor).clamp(0, 5);
            *v = first + s.divisor * (random.next_u64() % (room as u64 + 1)) as i64;
        }
        // Definitions may use symbols that are themselves defined.
        for _ in 0..self.symbols.len() {
            for (i, f) in self.symbols.iter().enumerate() {
                if let Some(d) = &f.def {
                    values[i] = d.eval(&values).ok_or_else(|| format!("the definition {d} has no value"))?;
                }
            }
        }
        Ok(values)
    }

    /// Random tensors for given values of the symbols.
    pub fn random_tensors(&self, symbols: &[i64], seed: u64) -> Result<Vec<RefTensor>, String> {
        self.tensors(symbols, seed, random_tensor)
    }

    /// The same with what random numbers hardly ever meet: ties, zeros of both signs, NaN.
    pub fn special_tensors(&self, symbols: &[i64], seed: u64) -> Result<Vec<RefTensor>, String> {
        self.tensors(symbols, seed, special_tensor)
    }

    fn tensors(
        &self,
        symbols: &[i64],
        seed: u64,
        make: fn(DType, &[usize], u64) -> RefTensor,
    ) -> Result<Vec<RefTensor>, String> {
        self.inputs
            .iter()
            .enumerate()
            .map(|(i, t)| {
                let shape = t
                    .shape
                    .iter()
                    .map(|e| {
                        let n = e.eval(symbols).ok_or_else(|| format!("the size {e} has no value"))?;
                        usize::try_from(n).map_err(|_| format!("the size {e} is {n}"))
                    })
                    .collect::<Result<Vec<_>, String>>()?;
                Ok(make(t.dtype, &shape, seed.wrapping_mul(0x9e37_79b9).wrapping_add(i as u64)))
            })
            .collect()
    }
}

/// Random inputs for a function, by seed: small sizes within the symbols' ranges, floats around 0, small integers.
pub fn random_inputs(module: &Module<'_>, name: &str, seed: u64) -> Result<Vec<RefTensor>, String> {
    let s = signature(module, name)?;
    s.random_tensors(&s.random_symbols(seed)?, seed)
}

/// A random tensor: floats of about unit size with some exact small numbers and zeros, integers from -9 to 9.
pub fn random_tensor(dtype: DType, shape: &[usize], seed: u64) -> RefTensor {
    let mut random = SplitMix64::new(seed);
    RefTensor::generate(dtype, shape, Rounding::Exact, |_| {
        let bits = random.next_u64();
        let unit = (bits >> 11) as f64 / (1u64 << 53) as f64;
        match dtype {
            DType::I1 => Scalar::I((bits >> 7) as i64 & 1),
            d if d.is_float() => Scalar::F(match bits % 16 {
                0 => ((bits >> 8) % 7) as f64 - 3.0,
                _ => 4.0 * unit - 2.0,
            }),
            _ => Scalar::I((bits >> 8) as i64 % 19 - 9),
        }
    })
}

/// Small whole numbers, so with ties, zeros of both signs and a few NaN; some rows are negative throughout, some positive. Integers as
/// [`random_tensor`] makes them.
pub fn special_tensor(dtype: DType, shape: &[usize], seed: u64) -> RefTensor {
    if !dtype.is_float() {
        return random_tensor(dtype, shape, seed);
    }
    let mut random = SplitMix64::new(seed);
    let (row, mut side) = (shape.last().copied().unwrap_or(1).max(1), 0);
    RefTensor::generate(dtype, shape, Rounding::Exact, |i| {
        if i % row == 0 {
            side = random.next_u64() % 4;
        }
        let bits = random.next_u64();
        let whole = ((bits >> 8) % 5) as f64;
        Scalar::F(match (bits % 64, side) {
            (0, _) => f64::NAN,
            (_, 0) => -1.0 - whole,
            (_, 1) => 1.0 + whole,
            (1..=4, _) => -0.0,
            _ => whole - 2.0,
        })
    })
}
