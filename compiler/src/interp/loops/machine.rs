//! Runs decoded loop code.

use super::super::scalar::{Cell, ScalarOp};
use super::code::{Access, Code, Instr, Number, Place, Rearrange, What};
use super::memory::{Buffer, Memory, Parallel, View, row_major};

/// Why a run ended, and where: the index of a location.
pub(super) struct Fault {
    pub location: usize,
    pub message: String,
}

/// Registers, memrefs and memory of a run.
pub(super) struct Machine {
    pub registers: Vec<Cell>,
    pub views: Vec<View>,
    pub memory: Memory,
    /// The buffer of every alloca, once it ran.
    pub sites: Vec<Option<usize>>,
    /// Scalar operations left.
    pub left: u64,
    pub row: Vec<Cell>,
}

type Done = Result<(), String>;

impl Machine {
    fn number(&self, n: Number) -> i64 {
        match n {
            Number::Static(v) => v,
            Number::Register(r) => self.registers[r].i(),
        }
    }

    fn numbers(&self, list: &[Number]) -> Vec<i64> {
        list.iter().map(|&n| self.number(n)).collect()
    }

    /// Runs instructions in order.
    pub fn run(&mut self, code: &Code) -> Result<(), Fault> {
        for instr in code {
            self.step(instr)?;
        }
        Ok(())
    }

    fn spend(&mut self, work: usize) -> Done {
        match self.left.checked_sub(work as u64) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => {
                self.left = 0;
                Err("the run needs more scalar operations than its budget".into())
            }
        }
    }

    /// Copies of several places at once, as a yield does.
    fn assign(&mut self, from: &[Place], to: &[Place]) {
        let mut values = std::mem::take(&mut self.row);
        values.clear();
        for p in from {
            values.extend_from_slice(&self.registers[p.at..p.at + p.lanes]);
        }
        let mut next = 0;
        for p in to {
            self.registers[p.at..p.at + p.lanes].copy_from_slice(&values[next..next + p.lanes]);
            next += p.lanes;
        }
        self.row = values;
    }

    fn step(&mut self, instr: &Instr) -> Result<(), Fault> {
        let fault = |message: String| Fault { location: instr.location, message };
        match &instr.what {
            What::For { lower, upper, step, induction, init, carried, body, yields, results } => {
                let (mut i, upper, step) =
                    (self.registers[*lower].i(), self.registers[*upper].i(), self.registers[*step].i());
                if step <= 0 {
                    return Err(fault(format!("a loop with step {step}")));
                }
                self.assign(init, carried);
                while i < upper {
                    self.spend(1).map_err(fault)?;
                    self.registers[*induction] = Cell::of_i(i);
                    self.run(body)?;
                    self.assign(yields, carried);
                    i += step;
                }
                self.assign(carried, results);
                Ok(())
            }
            What::Forall { lower, upper, step, inductions, body } => {
                let (lower, upper, step) = (self.numbers(lower), self.numbers(upper), self.numbers(step));
                if step.iter().any(|&s| s <= 0) {
                    return Err(fault(format!("a forall with steps {step:?}")));
                }
                if (0..lower.len()).any(|d| lower[d] >= upper[d]) {
                    return Ok(());
                }
                let first = self.memory.serial + 1;
                self.memory.parallel.push(Parallel { first, current: first, joined: vec![] });
                let mut at = lower.clone();
                loop {
                    self.spend(1).map_err(fault)?;
                    self.memory.serial += 1;
                    let current = self.memory.serial;
                    let frame = self.memory.parallel.last_mut().expect("pushed above");
                    frame.current = current;
                    frame.joined.clear();
                    for (&r, &v) in inductions.iter().zip(&at) {
                        self.registers[r] = Cell::of_i(v);
                    }
                    self.run(body)?;
                    let Some(d) = (0..at.len()).rev().find(|&d| at[d] + step[d] < upper[d]) else { break };
                    at[d] += step[d];
                    at[d + 1..].copy_from_slice(&lower[d + 1..]);
                }
                self.memory.parallel.pop();
                // What follows is after all iterations.
                self.memory.serial += 1;
                Ok(())
            }
            What::If { condition, then, then_yields, otherwise, otherwise_yields, results } => {
                let (code, yields) = if self.registers[*condition].i() != 0 {
                    (then, then_yields)
                } else {
                    (otherwise, otherwise_yields)
                };
                self.run(code)?;
                self.assign(yields, results);
                Ok(())
            }
            what => self.simple(what).map_err(fault),
        }
    }

    fn simple(&mut self, what: &What) -> Done {
        match what {
            What::Scalar { op, args, to } => self.scalar(op, args, *to),
            What::CheckIndex { check, from, size, to } => {
                self.spend(to.lanes)?;
                for i in 0..to.lanes {
                    self.registers[to.at + i] =
                        check.run(self.registers[from.at + i], self.registers[*size])?;
                }
                Ok(())
            }
            What::Pick { from, to } => {
                self.spend(to.lanes)?;
                let mut values = std::mem::take(&mut self.row);
                values.clear();
                values.extend(from.iter().map(|&r| self.registers[r]));
                self.registers[to.at..to.at + to.lanes].copy_from_slice(&values);
                self.row = values;
                Ok(())
            }
            What::Extract { from, index, to } => {
                self.registers[*to] = self.registers[self.lane(*from, *index)?];
                Ok(())
            }
            What::Insert { value, into, index, to } => {
                let (lane, value) = (self.lane(*to, *index)?, self.registers[*value]);
                self.registers.copy_within(into.at..into.at + into.lanes, to.at);
                self.registers[lane] = value;
                Ok(())
            }
            What::Reduce { op, from, acc, to } => {
                self.spend(from.lanes)?;
                let mut lanes = from.at..from.at + from.lanes;
                let first = acc.or_else(|| lanes.next()).ok_or("a reduction of nothing")?;
                let mut sum = self.registers[first];
                for r in lanes {
                    sum = op.eval(&[sum, self.registers[r]])?;
                }
                self.registers[*to] = sum;
                Ok(())
            }
            What::Step { to } => {
                (0..to.lanes).for_each(|i| self.registers[to.at + i] = Cell::of_i(i as i64));
                Ok(())
            }
            What::Mask { count, to } => {
                let n = self.registers[*count].i();
                (0..to.lanes).for_each(|i| self.registers[to.at + i] = Cell::of_i(i64::from((i as i64) < n)));
                Ok(())
            }
            What::Load { access, to } => self.load(access, *to),
            What::Store { access, from } => self.store(access, *from),
            What::Atomic { op, access, value, to } => {
                self.spend(1)?;
                let (buffer, at, _) = self.address(access, 1)?;
                // Atomics of different iterations may meet: only the order of their effects is not defined.
                let parallel = std::mem::take(&mut self.memory.parallel);
                let before = self.memory.read(buffer, at);
                let new = before.clone().and_then(|b| match op {
                    Some(op) => Ok(op.eval(&[b, self.registers[*value]])?),
                    None => Ok(self.registers[*value]),
                });
                let done = new.and_then(|n| self.memory.write(buffer, at, n));
                self.memory.parallel = parallel;
                done?;
                self.registers[*to] = before?;
                Ok(())
            }
            What::Copy { from, to } => {
                let (from, to) = (self.views[*from].clone(), self.views[*to].clone());
                if from.sizes != to.sizes {
                    return Err(format!("copies sizes {:?} to {:?}", from.sizes, to.sizes));
                }
                self.spend(from.len().max(0) as usize)?;
                for (a, b) in from.positions().into_iter().zip(to.positions()) {
                    let v = self.memory.read(from.buffer, a)?;
                    self.memory.write(to.buffer, b, v)?;
                }
                Ok(())
            }
            What::Alloca { site, sizes, to } => {
                let sizes = self.numbers(sizes);
                let n = sizes.iter().product::<i64>();
                let n = usize::try_from(n).map_err(|_| format!("an array of sizes {sizes:?}"))?;
                self.spend(n)?;
                let buffer = *self.sites[*site].get_or_insert_with(|| {
                    self.memory.buffers.push(Buffer::new(0));
                    self.memory.buffers.len() - 1
                });
                // Every execution gives an array without values.
                self.memory.buffers[buffer] = Buffer::new(n);
                self.views[*to] = View::contiguous(buffer, sizes);
                Ok(())
            }
            What::View { how, from, to } => {
                self.views[*to] = self.rearrange(how, &self.views[*from])?;
                Ok(())
            }
            What::Dim { memref, dim, to } => {
                let d = self.registers[*dim].i();
                let n = usize::try_from(d).ok().and_then(|d| self.views[*memref].sizes.get(d));
                self.registers[*to] =
                    Cell::of_i(*n.ok_or_else(|| format!("a memref without dimension {d}"))?);
                Ok(())
            }
            What::AllReduce { op, memref } => self.all_reduce(op, *memref),
            What::Arrive { tickets, at, count, to } => {
                let view = &self.views[*tickets];
                let position = view.offset + self.registers[*at].i() * view.strides[0];
                let last = self.memory.arrive(view.buffer, position, self.registers[*count].i())?;
                self.registers[*to] = Cell::of_i(i64::from(last));
                Ok(())
            }
            What::For { .. } | What::Forall { .. } | What::If { .. } => unreachable!("handled by step"),
        }
    }

    /// The register of a lane at a position held in a register.
    fn lane(&self, of: Place, index: usize) -> Result<usize, String> {
        let i = self.registers[index].i();
        match usize::try_from(i) {
            Ok(i) if i < of.lanes => Ok(of.at + i),
            _ => Err(format!("lane {i} of a vector of {}", of.lanes)),
        }
    }

    #[inline]
    fn scalar(&mut self, op: &ScalarOp, args: &[Place], to: Place) -> Done {
        self.spend(to.lanes)?;
        for lane in 0..to.lanes {
            let at = |p: &Place| if p.lanes == 1 { p.at } else { p.at + lane };
            let v = match args {
                [a] => op.eval(&[self.registers[at(a)]]),
                [a, b] => op.eval(&[self.registers[at(a)], self.registers[at(b)]]),
                [a, b, c] => op.eval(&[self.registers[at(a)], self.registers[at(b)], self.registers[at(c)]]),
                many => {
                    self.row.clear();
                    self.row.extend(many.iter().map(|p| self.registers[at(p)]));
                    op.eval(&self.row)
                }
            };
            self.registers[to.at + lane] = v?;
        }
        Ok(())
    }

    /// Buffer, position of the first lane, and position step between lanes. The first lane must be inside, unless lanes are clipped.
    #[inline]
    fn address(&self, access: &Access, lanes: usize) -> Result<(usize, i64, i64), String> {
        let view = &self.views[access.memref];
        let mut at = view.offset;
        for (d, &r) in access.at.iter().enumerate() {
            let (i, n) = (self.registers[r].i(), view.sizes[d]);
            let last =
                if d == access.lanes.dim && !access.lanes.broadcast { i + lanes as i64 - 1 } else { i };
            if (i < 0 || last >= n) && !access.lanes.clip && access.lanes.mask.is_none() {
                return Err(if last > i {
                    format!("accesses elements {i} to {last} of dimension {d} of size {n}")
                } else {
                    format!("accesses element {i} of dimension {d} of size {n}")
                });
            }
            at += i * view.strides[d];
        }
        if let Some(n) = access.lanes.aligned.filter(|&n| at % n != 0) {
            return Err(format!("accesses position {at} of a buffer, promised to be a multiple of {n}"));
        }
        let step =
            if access.lanes.broadcast { 0 } else { view.strides.get(access.lanes.dim).copied().unwrap_or(0) };
        Ok((view.buffer, at, step))
    }

    /// Whether a lane takes part; an error where it should but is outside of the memref.
    fn takes_part(&self, access: &Access, lane: usize) -> Result<bool, String> {
        if access.lanes.mask.is_some_and(|m| self.registers[m.at + lane].i() == 0) {
            return Ok(false);
        }
        if access.lanes.mask.is_none() && !access.lanes.clip {
            return Ok(true);
        }
        let view = &self.views[access.memref];
        for (d, &r) in access.at.iter().enumerate() {
            let along = d == access.lanes.dim && !access.lanes.broadcast;
            let i = self.registers[r].i() + if along { lane as i64 } else { 0 };
            if i < 0 || i >= view.sizes[d] {
                if access.lanes.clip && along {
                    return Ok(false);
                }
                return Err(format!(
                    "lane {lane} accesses element {i} of dimension {d} of size {}",
                    view.sizes[d]
                ));
            }
        }
        Ok(true)
    }

    fn load(&mut self, access: &Access, to: Place) -> Done {
        self.spend(to.lanes)?;
        let (buffer, at, step) = self.address(access, to.lanes)?;
        for lane in 0..to.lanes {
            let v = if self.takes_part(access, lane)? {
                self.memory.read(buffer, at + lane as i64 * step)?
            } else {
                let other = access.lanes.other.ok_or("a lane is left out, and there is no value for it")?;
                self.registers[if other.lanes == 1 { other.at } else { other.at + lane }]
            };
            self.registers[to.at + lane] = v;
        }
        Ok(())
    }

    fn store(&mut self, access: &Access, from: Place) -> Done {
        self.spend(from.lanes)?;
        let (buffer, at, step) = self.address(access, from.lanes)?;
        for lane in 0..from.lanes {
            if self.takes_part(access, lane)? {
                self.memory.write(buffer, at + lane as i64 * step, self.registers[from.at + lane])?;
            }
        }
        Ok(())
    }

    /// The butterfly: offsets 16 … 1 inside each group of 32 threads, then the groups in the same way.
    fn all_reduce(&mut self, op: &ScalarOp, memref: usize) -> Done {
        let view = self.views[memref].clone();
        let threads = view.sizes[0] as usize;
        let positions = view.positions();
        let inner = positions.len() / threads;
        self.spend(positions.len() * 10)?;
        let groups = [(1, threads.min(32)), (32, threads / 32)];
        for k in 0..inner {
            let mut r: Vec<Cell> = (0..threads)
                .map(|t| self.memory.read(view.buffer, positions[t * inner + k]))
                .collect::<Result<_, _>>()?;
            for (unit, width) in groups {
                let mut offset = width / 2;
                while offset > 0 {
                    r = (0..threads)
                        .map(|t| op.eval(&[r[t], r[t ^ (offset * unit)]]))
                        .collect::<Result<_, _>>()?;
                    offset /= 2;
                }
            }
            for (t, &v) in r.iter().enumerate() {
                self.memory.write(view.buffer, positions[t * inner + k], v)?;
            }
        }
        Ok(())
    }

    fn rearrange(&self, how: &Rearrange, from: &View) -> Result<View, String> {
        Ok(match how {
            Rearrange::Same => from.clone(),
            Rearrange::Reinterpret { offset, sizes, strides } => View {
                buffer: from.buffer,
                offset: self.number(*offset),
                sizes: self.numbers(sizes),
                strides: self.numbers(strides),
            },
            Rearrange::Part { offsets, sizes, strides, kept } => {
                let (offsets, sizes, strides) =
                    (self.numbers(offsets), self.numbers(sizes), self.numbers(strides));
                for d in 0..sizes.len() {
                    let last = offsets[d] + (sizes[d] - 1) * strides[d];
                    if sizes[d] > 0 && (offsets[d] < 0 || last < 0 || last >= from.sizes[d]) {
                        return Err(format!(
                            "a part from {} to {last} of dimension {d} of size {}",
                            offsets[d], from.sizes[d]
                        ));
                    }
                }
                View {
                    buffer: from.buffer,
                    offset: from.offset + offsets.iter().zip(&from.strides).map(|(o, s)| o * s).sum::<i64>(),
                    sizes: kept.iter().map(|&d| sizes[d]).collect(),
                    strides: kept.iter().map(|&d| strides[d] * from.strides[d]).collect(),
                }
            }
            Rearrange::Collapse(groups) => View {
                buffer: from.buffer,
                offset: from.offset,
                sizes: groups.iter().map(|g| g.iter().map(|&d| from.sizes[d]).product()).collect(),
                strides: groups.iter().map(|g| g.last().map_or(1, |&d| from.strides[d])).collect(),
            },
            Rearrange::Expand(groups, sizes) => {
                let sizes = self.numbers(sizes);
                let mut strides = vec![0; sizes.len()];
                for (g, &outer) in groups.iter().zip(&from.strides) {
                    let inner: Vec<i64> = g.iter().map(|&d| sizes[d]).collect();
                    for (&d, s) in g.iter().zip(row_major(&inner)) {
                        strides[d] = s * outer;
                    }
                }
                View { buffer: from.buffer, offset: from.offset, sizes, strides }
            }
        })
    }
}
