//! How much memory a run's intermediate values take.

use super::{BufferId, Place, Plan};
use std::collections::BTreeMap;

impl Plan {
    /// Bytes that intermediate values take at most at any one time, for these values of the symbols: the arena and the blocks that
    /// live together. `None` where a size cannot be worked out.
    pub fn intermediate_bytes(&self, symbols: &[i64]) -> Option<i64> {
        let mut lives: BTreeMap<BufferId, (usize, usize)> = BTreeMap::new();
        for (i, step) in self.steps.iter().enumerate() {
            let (reads, writes) = step.buffers();
            for b in reads.into_iter().chain(writes) {
                lives.entry(self.owner(b)?).and_modify(|(_, last)| *last = i).or_insert((i, i));
            }
        }
        let mut change = vec![0i64; self.steps.len() + 1];
        for (b, (first, last)) in lives {
            let buffer = &self.buffers[b.0 as usize];
            if buffer.place == Place::Block {
                let mut bytes = buffer.dtype.size() as i64;
                for n in &buffer.shape {
                    bytes = bytes.checked_mul(n.eval(symbols)?)?;
                }
                change[first] += bytes;
                change[last + 1] -= bytes;
            }
        }
        let (mut now, mut most) = (0, 0);
        for c in change {
            now += c;
            most = most.max(now);
        }
        Some(self.arena.eval(symbols)?.max(0) + most)
    }

    /// The buffer that owns a buffer's memory.
    fn owner(&self, mut id: BufferId) -> Option<BufferId> {
        for _ in 0..=self.buffers.len() {
            match self.buffers.get(id.0 as usize)?.place {
                Place::Alias { of, .. } => id = of,
                _ => return Some(id),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_count_while_they_live() {
        // The first two blocks live together, the third comes after the first.
        let text = "plan @b on cpu {
  symbol s0 \"n\" in [0, 9] hint 4 = dim 0 of input 0
  input %x = b0
  output %y = b5
  buffer b0 : f32[s0] = input 0
  buffer b1 : f32[s0] = block
  buffer b2 : f32[s0] = block
  buffer b3 : f32[s0] = block
  buffer b4 : f32[s0] = alias of b2 offset 0
  buffer b5 : f32[s0] = output 0
  arena 256 bytes
  copy b0 -> b1
  copy b1 -> b2
  copy b4 -> b3
  copy b3 -> b5
}
";
        let plan: Plan = text.parse().unwrap();
        assert_eq!(plan.intermediate_bytes(&[4]), Some(256 + 32));
        assert_eq!(plan.intermediate_bytes(&plan.typical().unwrap()), Some(256 + 32));
        assert_eq!(plan.intermediate_bytes(&[0]), Some(256));
        assert_eq!(plan.intermediate_bytes(&[]), None);
    }
}
