//! Decoded loop code.

use super::super::body::Check;
use super::super::scalar::{Cell, ScalarOp};

/// Consecutive registers: one a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub at: usize,
    pub lanes: usize,
}

/// A number, or the register of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    Static(i64),
    Register(usize),
}

/// A straight line of instructions, regions nested.
pub(super) type Code = Vec<Instr>;

/// An instruction and the index of its location.
#[derive(Debug)]
pub(super) struct Instr {
    pub what: What,
    pub location: usize,
}

/// Which elements of a vector access take part.
#[derive(Clone, Debug, Default)]
pub(super) struct Lanes {
    /// A vector of i1; all lanes where it is absent.
    pub mask: Option<Place>,
    /// Lanes outside of the memref are left out (`vector.transfer_*` without `in_bounds`).
    pub clip: bool,
    /// What lanes that do not take part give; a vector, or a scalar for all lanes.
    pub other: Option<Place>,
    /// The dimension of the memref along which the lanes lie.
    pub dim: usize,
    /// Every lane reads the same element.
    pub broadcast: bool,
    /// The promise that the first lane's position is a multiple of so many elements; buffers themselves are aligned to anything here.
    pub aligned: Option<i64>,
}

/// An access to a memref.
#[derive(Clone, Debug)]
pub(super) struct Access {
    pub memref: usize,
    pub at: Vec<usize>,
    pub lanes: Lanes,
}

/// How a view is made from another.
#[derive(Debug)]
pub(super) enum Rearrange {
    /// The same view under another type.
    Same,
    /// New offset, sizes and strides from the base of the buffer.
    Reinterpret { offset: Number, sizes: Vec<Number>, strides: Vec<Number> },
    /// A part; `kept` are the dimensions that stay.
    Part { offsets: Vec<Number>, sizes: Vec<Number>, strides: Vec<Number>, kept: Vec<usize> },
    /// Groups of dimensions joined.
    Collapse(Vec<Vec<usize>>),
    /// Dimensions split to these sizes.
    Expand(Vec<Vec<usize>>, Vec<Number>),
}

/// What an instruction does.
#[derive(Debug)]
pub(super) enum What {
    /// A scalar op on every lane; operands of one lane are repeated.
    Scalar {
        op: ScalarOp,
        args: Vec<Place>,
        to: Place,
    },
    /// Indices, or an error where one is outside.
    CheckIndex {
        check: Check,
        from: Place,
        size: usize,
        to: Place,
    },
    /// Register `to.at + i` becomes register `from[i]`.
    Pick {
        from: Vec<usize>,
        to: Place,
    },
    /// The lane at a position.
    Extract {
        from: Place,
        index: usize,
        to: usize,
    },
    /// A vector with the lane at a position replaced.
    Insert {
        value: usize,
        into: Place,
        index: usize,
        to: Place,
    },
    /// Lanes combined one after another, the accumulator first.
    Reduce {
        op: ScalarOp,
        from: Place,
        acc: Option<usize>,
        to: usize,
    },
    /// 0, 1, 2, ….
    Step {
        to: Place,
    },
    /// 1 in the first lanes, as many as the number says.
    Mask {
        count: usize,
        to: Place,
    },
    Load {
        access: Access,
        to: Place,
    },
    Store {
        access: Access,
        from: Place,
    },
    Atomic {
        op: Option<ScalarOp>,
        access: Access,
        value: usize,
        to: usize,
    },
    Copy {
        from: usize,
        to: usize,
    },
    Alloca {
        site: usize,
        sizes: Vec<Number>,
        to: usize,
    },
    View {
        how: Rearrange,
        from: usize,
        to: usize,
    },
    Dim {
        memref: usize,
        dim: usize,
        to: usize,
    },
    AllReduce {
        op: ScalarOp,
        memref: usize,
    },
    Arrive {
        tickets: usize,
        at: usize,
        count: usize,
        to: usize,
    },
    For {
        lower: usize,
        upper: usize,
        step: usize,
        induction: usize,
        init: Vec<Place>,
        carried: Vec<Place>,
        body: Code,
        yields: Vec<Place>,
        results: Vec<Place>,
    },
    Forall {
        lower: Vec<Number>,
        upper: Vec<Number>,
        step: Vec<Number>,
        inductions: Vec<usize>,
        body: Code,
    },
    If {
        condition: usize,
        then: Code,
        then_yields: Vec<Place>,
        otherwise: Code,
        otherwise_yields: Vec<Place>,
        results: Vec<Place>,
    },
}

/// What the code of a function needs to run.
pub(super) struct Program {
    /// Registers with the constants already in them.
    pub registers: Vec<Cell>,
    pub memrefs: usize,
    /// Number of `memref.alloca`s.
    pub sites: usize,
    /// Location of every instruction's index.
    pub locations: Vec<String>,
}
