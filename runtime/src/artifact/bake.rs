//! Inputs that become constants: weights go into the file.

use super::Artifact;
use crate::error::{Result, bail, err};
use crate::plan::{Binding, Place};
use crate::tensor::row_major_strides;
use std::collections::BTreeMap;

impl Artifact {
    /// The artifact with these inputs' values, row-major, among its constants; the inputs are gone. One value given for several inputs is
    /// stored once.
    ///
    /// # Errors
    /// A value of another size than its input, an input whose size is a symbol, or that a symbol's value comes from.
    pub fn with_constants(mut self, values: &[(usize, &[u8])]) -> Result<Self> {
        let plan = &mut self.plan;
        let mut places = BTreeMap::new();
        let mut stored = BTreeMap::new();
        for &(number, bytes) in values {
            let Some(input) = plan.inputs.get(number) else {
                bail!(Input, "a value for input {number}; @{} has {}", plan.name, plan.inputs.len());
            };
            let buffer = &plan.buffers[input.buffer.0 as usize];
            let sizes =
                |list: &[crate::sym::Expr]| list.iter().map(|e| e.as_const()).collect::<Option<Vec<_>>>();
            let shape = sizes(&buffer.shape).ok_or_else(|| {
                err!(Input, "the size of input %{} is a symbol: it cannot be a constant", input.name)
            })?;
            let strides = buffer.strides.as_deref().map(sizes);
            if strides.is_some_and(|s| s != Some(row_major_strides(&shape))) {
                bail!(Input, "input %{} does not lie row by row: it cannot be a constant", input.name);
            }
            let expected = shape.iter().product::<i64>() as usize * buffer.dtype.size();
            if bytes.len() != expected {
                bail!(
                    Input,
                    "the value of input %{} has {} bytes, {} {shape:?} has {expected}",
                    input.name,
                    bytes.len(),
                    buffer.dtype
                );
            }
            let offset =
                *stored.entry((bytes.as_ptr(), bytes.len())).or_insert_with(|| self.constants.push(bytes));
            places.insert(number as u32, offset);
        }
        // Input → its number among those that are left.
        let left: Vec<Option<u32>> = (0..plan.inputs.len() as u32)
            .scan(0, |next, i| {
                let stays = !places.contains_key(&i);
                *next += u32::from(stays);
                Some(stays.then(|| *next - 1))
            })
            .collect();
        for b in &mut plan.buffers {
            if let Place::Input(n) = &mut b.place {
                match places.get(n) {
                    Some(&offset) => b.place = Place::Constant { offset },
                    None => *n = left[*n as usize].unwrap_or(*n),
                }
            }
        }
        for s in &mut plan.symbols {
            if let Binding::InputDim { input, .. } | Binding::InputStride { input, .. } = &mut s.binding {
                *input = left[*input as usize].ok_or_else(|| {
                    err!(Input, "the symbol \"{}\" comes from an input that becomes a constant", s.info.name)
                })?;
            }
        }
        plan.inputs = std::mem::take(&mut plan.inputs)
            .into_iter()
            .zip(&left)
            .filter_map(|(input, place)| place.map(|_| input))
            .collect();
        crate::plan::verify::verify(plan)?;
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use crate::device::cpu::CpuDevice;
    use crate::exec::Executable;
    use crate::tensor::HostTensor;
    use crate::testing::artifact;
    use std::sync::Arc;

    const PLAN: &str = "plan @f on cpu {
  symbol s0 \"n\" in [0, inf] = dim 0 of input 1
  input %w = b0
  input %x = b1
  input %v = b2
  output %a = b3
  output %b = b4
  output %c = b0
  buffer b0 : f32[2] = input 0
  buffer b1 : f32[s0] = input 1
  buffer b2 : f32[2] = input 2
  buffer b3 : f32[s0] = output 0
  buffer b4 : f32[2] = output 1
  arena 0 bytes
  copy b1 -> b3
  copy b2 -> b4
}
";

    fn bytes(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|v| v.to_le_bytes()).collect()
    }

    #[test]
    fn weights_become_constants_and_are_stored_once() {
        let w = bytes(&[1.0, 2.0]);
        let a = artifact(PLAN, "", Default::default()).with_constants(&[(0, &w), (2, &w)]).unwrap();
        assert_eq!((a.plan.inputs.len(), a.constants.len()), (1, 8));
        let exe = Executable::new(a, Arc::new(CpuDevice::new(1).unwrap())).unwrap();
        let x = HostTensor::from_slice(&[3], &[5.0f32, 6.0, 7.0]).unwrap();
        let y: Vec<_> = exe.run_host(&[x]).unwrap().iter().map(HostTensor::to_f64).collect();
        assert_eq!(y, [vec![5.0, 6.0, 7.0], vec![1.0, 2.0], vec![1.0, 2.0]]);
    }

    #[test]
    fn what_cannot_be_a_constant_is_said() {
        let e = |values: &[(usize, &[u8])]| {
            artifact(PLAN, "", Default::default()).with_constants(values).unwrap_err().to_string()
        };
        assert!(e(&[(0, &[0; 4])]).contains("%w has 4 bytes, f32 [2] has 8"));
        assert!(e(&[(1, &[0; 4])]).contains("size of input %x is a symbol"));
        assert!(e(&[(9, &[])]).contains("@f has 3"));
    }
}
