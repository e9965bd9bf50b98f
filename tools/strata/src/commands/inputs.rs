//! The inputs of a call: files, or random numbers of the sizes that `--dim` and the files give.

use super::Failed;
use super::run::Args;
use std::collections::BTreeMap;
use std::path::Path;
use strata_runtime::plan::{Binding, Plan};
use strata_runtime::tensor::HostTensor;

fn pair(text: &str) -> Result<(&str, &str), Failed> {
    text.split_once('=').ok_or_else(|| vec![format!("'{text}' is not of the form NAME=VALUE")])
}

/// An input as the command line gives it.
enum Given {
    File(String, HostTensor),
    Random(u64),
}

/// The inputs that a command line asks for.
pub fn make(plan: &Plan, args: &Args) -> Result<Vec<HostTensor>, Failed> {
    let given = given(plan, &args.inputs)?;
    let sizes = sizes(plan, &args.dims, &given)?;
    let tensor = |(k, given): (usize, Given)| {
        let seed = match given {
            Given::File(_, tensor) => return Ok(tensor),
            Given::Random(seed) => seed,
        };
        let input = &plan.inputs[k];
        let buffer = &plan.buffers[input.buffer.0 as usize];
        let shape: Option<Vec<usize>> =
            buffer.shape.iter().map(|e| usize::try_from(e.eval(&sizes)?).ok()).collect();
        let shape = shape.ok_or_else(|| vec![format!("input {} has a size without a value", input.name)])?;
        HostTensor::random(buffer.dtype, &shape, seed.wrapping_add(k as u64)).map_err(|e| vec![e.to_string()])
    };
    given.into_iter().enumerate().map(tensor).collect()
}

fn given(plan: &Plan, inputs: &[String]) -> Result<Vec<Given>, Failed> {
    let named = inputs.iter().map(|d| pair(d)).collect::<Result<BTreeMap<_, _>, _>>()?;
    if let Some(unknown) = named.keys().find(|k| !plan.inputs.iter().any(|i| i.name == **k)) {
        let known: Vec<&str> = plan.inputs.iter().map(|i| i.name.as_str()).collect();
        return Err(vec![format!("--input {unknown}: no such input; known: {}", known.join(", "))]);
    }
    let one = |name: &str| {
        let value = named.get(name).copied().unwrap_or("random:0");
        let Some(seed) = value.strip_prefix("random:") else {
            let tensor = HostTensor::read_npy(Path::new(value)).map_err(|e| vec![e.to_string()])?;
            return Ok(Given::File(value.to_owned(), tensor));
        };
        let seed = seed
            .parse()
            .map_err(|_| vec![format!("--input {name}=random:{seed}: the seed is not a number")])?;
        Ok(Given::Random(seed))
    };
    plan.inputs.iter().map(|input| one(&input.name)).collect()
}

/// What every symbol stands for. The size in a file wins over hints; `--dim` must agree with it.
fn sizes(plan: &Plan, dims: &[String], given: &[Given]) -> Result<Vec<i64>, Failed> {
    let dims = dims.iter().map(|d| pair(d)).collect::<Result<BTreeMap<_, _>, _>>()?;
    let named = |name: &str, i: usize, k: &str| name == k || format!("s{i}") == k;
    if let Some(unknown) =
        dims.keys().find(|k| !plan.symbols.iter().enumerate().any(|(i, s)| named(&s.info.name, i, k)))
    {
        let known: Vec<&str> = plan.symbols.iter().map(|s| s.info.name.as_str()).collect();
        return Err(vec![format!("--dim {unknown}: no such symbol; known: {}", known.join(", "))]);
    }
    let mut sizes: Vec<i64> = Vec::new();
    for (i, s) in plan.symbols.iter().enumerate() {
        let info = &s.info;
        let asked = match dims.iter().find(|(k, _)| named(&info.name, i, k)) {
            Some((name, n)) => Some(
                n.parse::<i64>()
                    .ok()
                    .filter(|n| *n >= 0)
                    .ok_or_else(|| vec![format!("--dim {name}={n}: a size is a whole number from 0 on")])?,
            ),
            None => None,
        };
        let in_file = match s.binding {
            Binding::InputDim { input, dim } => match given.get(input as usize) {
                Some(Given::File(file, tensor)) => {
                    tensor.shape().get(dim as usize).map(|&n| (input, dim, file, n as i64))
                }
                _ => None,
            },
            _ => None,
        };
        if let (Some(asked), Some((input, dim, file, n))) = (asked, in_file)
            && asked != n
        {
            let (symbol, input) = (&info.name, &plan.inputs[input as usize].name);
            return Err(vec![format!(
                "--dim {symbol}={asked}, but dimension {dim} of input {input} is {n} in {file}; leave out one of them"
            )]);
        }
        sizes.push(match (asked, in_file, &s.binding) {
            (Some(n), ..) | (None, Some((.., n)), _) => n,
            (None, None, Binding::Defined(e)) => e.eval(&sizes).unwrap_or(1),
            (None, None, _) => info.hint.unwrap_or_else(|| 4.clamp(info.min, info.max)),
        });
    }
    Ok(sizes)
}
