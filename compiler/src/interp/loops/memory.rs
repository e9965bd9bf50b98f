//! Buffers and views of them.

use super::super::scalar::Cell;
use std::collections::BTreeMap;

/// Who wrote an element: 0 nobody, else the serial number of a parallel iteration. Numbers grow in the order of execution.
pub(super) type Serial = u32;

/// Memory of a memref argument or an alloca.
#[derive(Clone, Debug)]
pub(super) struct Buffer {
    pub cells: Vec<Cell>,
    pub writers: Vec<Serial>,
    /// Who read an element: of several readers, one that another iteration must not meet.
    pub readers: Vec<Serial>,
}

impl Buffer {
    /// Memory without values.
    pub fn new(n: usize) -> Self {
        Self { cells: vec![Cell::default(); n], writers: vec![0; n], readers: vec![0; n] }
    }
}

/// A memref: a part of a buffer under a shape.
#[derive(Clone, Debug, Default)]
pub(super) struct View {
    pub buffer: usize,
    pub offset: i64,
    pub sizes: Vec<i64>,
    pub strides: Vec<i64>,
}

impl View {
    /// A contiguous view of a whole buffer.
    pub fn contiguous(buffer: usize, sizes: Vec<i64>) -> Self {
        let strides = row_major(&sizes);
        Self { buffer, offset: 0, sizes, strides }
    }

    /// Number of elements.
    pub fn len(&self) -> i64 {
        self.sizes.iter().product()
    }

    /// The buffer positions of all elements, in row-major order.
    pub fn positions(&self) -> Vec<i64> {
        let mut out = vec![self.offset];
        for (&n, &s) in self.sizes.iter().zip(&self.strides) {
            out = out.iter().flat_map(|&o| (0..n).map(move |i| o + i * s)).collect();
        }
        out
    }
}

/// Strides of a contiguous row-major array.
pub(super) fn row_major(sizes: &[i64]) -> Vec<i64> {
    let mut strides = vec![1; sizes.len()];
    for d in (1..sizes.len()).rev() {
        strides[d - 1] = strides[d] * sizes[d].max(1);
    }
    strides
}

/// A running `scf.forall`: the serial number of its first iteration, and of the one that runs.
#[derive(Clone, Debug)]
pub(super) struct Parallel {
    pub first: Serial,
    pub current: Serial,
    /// Iterations, by their first and last serial numbers, that the running one knows to be done with what they wrote: those that arrived
    /// at a ticket before it.
    pub joined: Vec<[Serial; 2]>,
}

/// All memory of a run.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pub buffers: Vec<Buffer>,
    /// The running foralls, outermost first.
    pub parallel: Vec<Parallel>,
    pub serial: Serial,
    /// The iterations that arrived at a ticket, by its buffer and position.
    pub arrivals: BTreeMap<(usize, i64), Vec<[Serial; 2]>>,
}

impl Memory {
    /// Whether this was another iteration of a forall that still runs.
    fn foreign(&self, iteration: Serial) -> bool {
        self.parallel.iter().any(|p| {
            iteration >= p.first
                && iteration < p.current
                && !p.joined.iter().any(|[from, to]| (*from..=*to).contains(&iteration))
        })
    }

    /// Arrives at a ticket that `count` iterations of the outermost forall come to: whether this is the last.
    pub fn arrive(&mut self, buffer: usize, at: i64, count: i64) -> Result<bool, String> {
        let outer = self.parallel.first().ok_or("loop.arrive outside of the blocks")?;
        let list = self.arrivals.entry((buffer, at)).or_default();
        if list.iter().any(|[from, _]| *from == outer.current) {
            return Err("a block arrives twice at one ticket".into());
        }
        list.push([outer.current, self.serial]);
        let cells = &mut self.buffers[buffer].cells;
        let cell = usize::try_from(at).ok().and_then(|i| cells.get_mut(i));
        let cell = cell.ok_or_else(|| format!("there is no ticket {at}"))?;
        let arrived = cell.i() + 1;
        let last = arrived == count;
        *cell = Cell::of_i(if last { 0 } else { arrived });
        if last {
            self.parallel[0].joined = self.arrivals.remove(&(buffer, at)).unwrap_or_default();
        }
        Ok(last)
    }

    /// Reads an element.
    #[inline]
    pub fn read(&mut self, buffer: usize, at: i64) -> Result<Cell, String> {
        let b = &self.buffers[buffer];
        let i = usize::try_from(at).ok().filter(|&i| i < b.cells.len());
        let i = i.ok_or_else(|| format!("reads position {at} of a buffer of {} elements", b.cells.len()))?;
        match b.writers[i] {
            0 => Err(format!("reads position {at} of a buffer, which was never written")),
            w if self.foreign(w) => Err(format!(
                "reads position {at} of a buffer, which another iteration of a running forall wrote: without a barrier between \
                 them, the order is not defined"
            )),
            _ => {
                let value = b.cells[i];
                if !self.foreign(b.readers[i]) {
                    self.buffers[buffer].readers[i] = self.serial.max(1);
                }
                Ok(value)
            }
        }
    }

    /// Writes an element.
    #[inline]
    pub fn write(&mut self, buffer: usize, at: i64, value: Cell) -> Result<(), String> {
        let n = self.buffers[buffer].cells.len();
        let i = usize::try_from(at).ok().filter(|&i| i < n);
        let i = i.ok_or_else(|| format!("writes position {at} of a buffer of {n} elements"))?;
        let writer = self.buffers[buffer].writers[i];
        let serial = self.serial.max(1);
        let before = self.buffers[buffer].cells[i];
        // The same value written twice is harmless.
        if writer != 0 && before != value && self.foreign(writer) {
            return Err(format!(
                "writes position {at} of a buffer, where another iteration of a running forall wrote another value"
            ));
        }
        let reader = self.buffers[buffer].readers[i];
        if reader != 0 && before != value && self.foreign(reader) {
            return Err(format!(
                "writes position {at} of a buffer, which another iteration of a running forall read: without a barrier between them, \
                 the order is not defined"
            ));
        }
        self.buffers[buffer].cells[i] = value;
        self.buffers[buffer].writers[i] = serial;
        Ok(())
    }
}
