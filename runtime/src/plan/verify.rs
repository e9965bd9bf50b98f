//! The rules of plans. Every error names the place: a step with its source location, a buffer, a symbol.

use super::*;
use crate::error::{Error, Result, bail, err};

/// Checks a plan: ids in range, symbols bound before use, aliases without cycles, memory written before it is read and never shared
/// by two buffers that are live together (tried for the hints, the smallest and the largest values of the symbols), results written,
/// parameters and constants never, and nothing through two names in one step.
pub fn verify(plan: &Plan) -> Result<()> {
    let v = Verifier::new(plan)?;
    v.steps()?;
    v.memory()
}

const BUG: &str = "the plan breaks its own rules: report this as a bug of the compiler, with the program";

struct Verifier<'a> {
    plan: &'a Plan,
    /// Buffer → the buffer that owns its memory.
    roots: Vec<usize>,
}

/// What a step does with a buffer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Write,
}

fn accesses(step: &Step) -> Vec<(BufferId, Access)> {
    let (reads, writes) = step.buffers();
    reads
        .into_iter()
        .map(|b| (b, Access::Read))
        .chain(writes.into_iter().map(|b| (b, Access::Write)))
        .collect()
}

fn exprs_of(step: &Step) -> Vec<&Expr> {
    match step {
        Step::Launch { symbols, grid, .. } => symbols.iter().chain(grid).collect(),
        Step::Product(p) => {
            let strides = [&p.lhs, &p.rhs, &p.out];
            let strides = strides.into_iter().flat_map(|m| [&m.batch_stride, &m.row_stride, &m.col_stride]);
            [&p.m, &p.n, &p.k, &p.batch].into_iter().chain(strides).collect()
        }
        Step::HostCall(h) => h.symbols.iter().collect(),
        Step::Convolution(_) | Step::Copy { .. } => Vec::new(),
    }
}

impl<'a> Verifier<'a> {
    /// Checks all that has no order.
    fn new(plan: &'a Plan) -> Result<Self> {
        let mut v = Self { plan, roots: Vec::new() };
        v.symbols()?;
        for (i, b) in plan.buffers.iter().enumerate() {
            v.buffer(b).map_err(|e| e.at(format_args!("buffer b{i}")).next(BUG))?;
        }
        for i in 0..plan.buffers.len() {
            v.roots.push(v.root(i)?);
        }
        v.known(&plan.arena, plan.symbols.len()).map_err(|e| e.at("the arena's size").next(BUG))?;
        for (i, input) in plan.inputs.iter().enumerate() {
            let at = |e: Error| e.at(format_args!("input %{}", input.name)).next(BUG);
            v.in_range(input.buffer).map_err(at)?;
            let place = &plan.buffers[input.buffer.0 as usize].place;
            if *place != Place::Input(i as u32) {
                return Err(at(err!(Plan, "its buffer {} is not 'input {i}'", input.buffer)));
            }
        }
        for output in &plan.outputs {
            let at = |e: Error| e.at(format_args!("output %{}", output.name)).next(BUG);
            v.in_range(output.buffer).map_err(at)?;
            let lost = match plan.buffers[v.roots[output.buffer.0 as usize]].place {
                Place::Arena(_) => "lies in the arena, which the next call overwrites",
                Place::Block => "is a block, which is given back after its last step",
                _ => continue,
            };
            return Err(at(err!(Plan, "{} {lost}", output.buffer)));
        }
        for (i, b) in plan.buffers.iter().enumerate() {
            let first = |id: BufferId| id.0 as usize == i;
            let ok = match b.place {
                Place::Input(n) => plan.inputs.get(n as usize).is_some_and(|x| first(x.buffer)),
                Place::Output(n) => plan.outputs.iter().position(|o| first(o.buffer)) == Some(n as usize),
                _ => true,
            };
            if !ok {
                return Err(err!(Plan, "the parameter or result of this number is another buffer")
                    .at(format_args!("buffer b{i}"))
                    .next(BUG));
            }
        }
        Ok(v)
    }

    fn symbols(&self) -> Result<()> {
        for (i, s) in self.plan.symbols.iter().enumerate() {
            let at = |e: Error| e.at(format_args!("symbol s{i}")).next(BUG);
            match &s.binding {
                Binding::InputDim { input, dim } | Binding::InputStride { input, dim } => {
                    let buffer = self.plan.inputs.get(*input as usize).map(|x| x.buffer.0 as usize);
                    let rank = buffer.and_then(|b| self.plan.buffers.get(b)).map(|b| b.shape.len());
                    if rank.is_none_or(|r| *dim as usize >= r) {
                        return Err(at(err!(Plan, "there is no dimension {dim} of input {input}")));
                    }
                }
                Binding::Defined(e) => self.known(e, i).map_err(at)?,
                Binding::Scalar(_) => {}
            }
            if s.info.divisor < 1 || s.info.min > s.info.max {
                return Err(at(err!(Plan, "the range is empty or the divisor is not positive")));
            }
        }
        Ok(())
    }

    /// Every symbol of `e` is one of the first `count`.
    fn known(&self, e: &Expr, count: usize) -> Result<()> {
        match e.symbols().into_iter().find(|s| s.0 as usize >= count) {
            Some(s) => Err(err!(Plan, "s{} in {e} has no value here", s.0)),
            None => Ok(()),
        }
    }

    fn in_range(&self, b: BufferId) -> Result<()> {
        if b.0 as usize >= self.plan.buffers.len() {
            bail!(Plan, "there is no buffer {b}");
        }
        Ok(())
    }

    fn buffer(&self, b: &Buffer) -> Result<()> {
        let count = self.plan.symbols.len();
        for e in b.shape.iter().chain(b.strides.iter().flatten()) {
            self.known(e, count)?;
        }
        if b.strides.as_ref().is_some_and(|s| s.len() != b.shape.len()) {
            bail!(Plan, "as many strides as sizes are needed");
        }
        match &b.place {
            Place::Alias { of, offset } => {
                self.in_range(*of)?;
                self.known(offset, count)?;
            }
            Place::Arena(at) => {
                self.known(at, count)?;
                let infos: Vec<Symbol> = self.plan.symbols.iter().map(|s| s.info.clone()).collect();
                if at.known_divisor(&infos) % 256 != 0 {
                    bail!(Plan, "its place in the arena, {at}, is not known to be a multiple of 256");
                }
            }
            Place::Constant { offset } if offset % 64 != 0 => {
                bail!(Plan, "its place in the constants, {offset}, is not a multiple of 64");
            }
            _ => {}
        }
        Ok(())
    }

    /// The buffer that owns the memory.
    fn root(&self, buffer: usize) -> Result<usize> {
        let mut at = buffer;
        for _ in 0..=self.plan.buffers.len() {
            match &self.plan.buffers[at].place {
                Place::Alias { of, .. } => at = of.0 as usize,
                _ => return Ok(at),
            }
        }
        Err(err!(Plan, "it is an alias of itself").at(format_args!("buffer b{buffer}")).next(BUG))
    }

    fn place_of(&self, i: usize, step: &Step) -> String {
        match location(step) {
            "" => format!("step {i}: {step}"),
            l => format!("{l}, step {i}: {step}"),
        }
    }

    fn steps(&self) -> Result<()> {
        let given = |p: &Place| matches!(p, Place::Input(_) | Place::Constant { .. });
        let mut written: Vec<bool> = self.plan.buffers.iter().map(|b| given(&b.place)).collect();
        for (i, step) in self.plan.steps.iter().enumerate() {
            self.step(step, &mut written).map_err(|e| e.at(self.place_of(i, step)).next(BUG))?;
        }
        for o in &self.plan.outputs {
            if !written[self.roots[o.buffer.0 as usize]] {
                return Err(err!(Plan, "{} is never written", o.buffer)
                    .at(format_args!("output %{}", o.name))
                    .next(BUG));
            }
        }
        Ok(())
    }

    fn step(&self, step: &Step, written: &mut [bool]) -> Result<()> {
        let list = accesses(step);
        for (b, _) in &list {
            self.in_range(*b)?;
        }
        for e in exprs_of(step) {
            self.known(e, self.plan.symbols.len())?;
        }
        if let Step::Launch { kernel, grid, .. } = step {
            if *kernel as usize >= self.plan.kernels.len() {
                bail!(Plan, "there is no kernel k{kernel}");
            }
            if grid.is_empty() || grid.len() > 3 {
                bail!(Plan, "a grid has 1 to 3 dimensions");
            }
        }
        for (n, &(b, access)) in list.iter().enumerate() {
            let root = self.roots[b.0 as usize];
            if access == Access::Read {
                if !written[root] {
                    bail!(Plan, "{b} is read before it is written");
                }
                continue;
            }
            match self.plan.buffers[root].place {
                Place::Constant { .. } => bail!(Plan, "{b} is a constant and is written"),
                Place::Input(_) => bail!(Plan, "{b} is a parameter and is written"),
                _ => {}
            }
            let others = list[..n].iter().chain(&list[n + 1..]);
            // A launch may change a buffer in place: its kernel then reads nothing of it that it writes elsewhere.
            let changed =
                |x: BufferId, a: Access| x == b && a == Access::Read && matches!(step, Step::Launch { .. });
            let clash = |(x, a): &&(BufferId, Access)| self.roots[x.0 as usize] == root && !changed(*x, *a);
            if let Some((other, _)) = others.into_iter().find(clash) {
                bail!(Plan, "{b} is written and {other} is the same memory");
            }
        }
        for (b, access) in list {
            if access != Access::Read {
                written[self.roots[b.0 as usize]] = true;
            }
        }
        Ok(())
    }

    /// First and last step that touch the memory of each owner.
    fn lifetimes(&self) -> Vec<Option<(usize, usize)>> {
        let mut live = vec![None; self.plan.buffers.len()];
        for (i, step) in self.plan.steps.iter().enumerate() {
            for (b, _) in accesses(step) {
                let entry: &mut Option<(usize, usize)> = &mut live[self.roots[b.0 as usize]];
                *entry = Some((entry.map_or(i, |(first, _)| first), i));
            }
        }
        live
    }

    fn memory(&self) -> Result<()> {
        let live = self.lifetimes();
        for values in bindings(self.plan) {
            let Some(arena) = self.plan.arena.eval(&values) else { continue };
            // (start, end, buffer, lifetime) of each buffer in the arena that is used.
            let mut ranges = Vec::new();
            for (i, b) in self.plan.buffers.iter().enumerate() {
                let (Place::Arena(at), Some(life)) = (&b.place, live[i]) else { continue };
                let (Some(at), Some(bytes)) = (at.eval(&values), bytes(b, &values)) else { continue };
                if bytes > 0 {
                    if at < 0 || at.checked_add(bytes).is_none_or(|end| end > arena) {
                        return Err(err!(
                            Plan,
                            "it needs bytes {at}..{} of {arena} (symbols {values:?})",
                            at.saturating_add(bytes)
                        )
                        .at(format_args!("buffer b{i} in the arena"))
                        .next(BUG));
                    }
                    ranges.push((at, at + bytes, i, life));
                }
            }
            ranges.sort_unstable();
            for (n, &(_, end, a, live_a)) in ranges.iter().enumerate() {
                let neighbours = ranges[n + 1..].iter().take_while(|r| r.0 < end);
                for &(_, _, b, live_b) in neighbours {
                    if live_a.0 <= live_b.1 && live_b.0 <= live_a.1 {
                        let step = live_a.0.max(live_b.0);
                        return Err(err!(
                            Plan,
                            "b{a} and b{b} share arena memory while both are live (symbols {values:?})"
                        )
                        .at(self.place_of(step, &self.plan.steps[step]))
                        .next(BUG));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Bytes that a buffer reaches over; `None` where they are no number.
fn bytes(b: &Buffer, values: &[i64]) -> Option<i64> {
    let shape: Vec<i64> = b.shape.iter().map(|e| e.eval(values)).collect::<Option<_>>()?;
    let strides: Vec<i64> = match &b.strides {
        Some(s) => s.iter().map(|e| e.eval(values)).collect::<Option<_>>()?,
        None => crate::tensor::row_major_strides(&shape),
    };
    if shape.iter().any(|&n| n <= 0) {
        return Some(0);
    }
    let mut last = 0i64;
    for (n, s) in shape.iter().zip(&strides) {
        last = last.checked_add((n - 1).checked_mul(*s)?)?;
    }
    last.checked_add(1)?.checked_mul(b.dtype.size() as i64)
}

/// Values of a plan's symbols, of which `pick` chooses those that are not defined by others.
fn values(plan: &Plan, pick: &dyn Fn(&Symbol) -> i64) -> Option<Vec<i64>> {
    let mut values = Vec::new();
    for s in &plan.symbols {
        let v = match &s.binding {
            Binding::Defined(e) => e.eval(&values)?,
            _ => pick(&s.info),
        };
        values.push(v);
    }
    Some(values)
}

fn smallest(s: &Symbol) -> i64 {
    let d = s.divisor.max(1);
    s.min.checked_add((d - s.min.rem_euclid(d)) % d).unwrap_or(s.min)
}

fn typical(s: &Symbol) -> i64 {
    s.hint.unwrap_or_else(|| smallest(s).saturating_add(s.divisor.max(1)).min(s.max))
}

impl Plan {
    /// Values of the symbols as their hints say, for decisions about speed; `None` where they cannot be worked out.
    pub fn typical(&self) -> Option<Vec<i64>> {
        values(self, &typical)
    }
}

/// Values of the symbols to try: the hints, the smallest, the largest where there are any.
fn bindings(plan: &Plan) -> Vec<Vec<i64>> {
    let largest =
        |s: &Symbol| if s.max == i64::MAX { typical(s) } else { s.max - s.max.rem_euclid(s.divisor.max(1)) };
    let mut out: Vec<_> =
        [plan.typical(), values(plan, &smallest), values(plan, &largest)].into_iter().flatten().collect();
    out.dedup();
    out
}

#[cfg(test)]
#[path = "verify_tests.rs"]
mod tests;
