//! The moves: each proposes programs that are smaller in one way. A new one is a function, in the file of its theme, and a row in [`MOVES`].
//!
//! A move goes over the *places* where it could do something, always in the same order, and asks [`Places::take`] at each whether it is
//! to be done there. So one function counts places and changes the program at some of them. A move need not know whether the result is
//! valid or still shows the fault: the verifier and the oracle say so.

mod attributes;
mod functions;
mod loops;
mod ops;
pub(crate) mod sizes;
pub(crate) mod symbols;
mod values;

use melior::Context;
use melior::ir::Module;
use std::ops::Range;

/// A way to make programs smaller.
pub struct Move {
    /// Name in reports.
    pub name: &'static str,
    /// What it does, for the documentation.
    pub summary: &'static str,
    /// In which groups places are tried.
    pub order: Order,
    /// The change.
    pub edit: Edit,
}

/// In which groups the places of a move are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// All places, halves, quarters, …, single places: for changes that do not exclude each other.
    Halves,
    /// One place after the other.
    Single,
}

/// The change that a move makes.
pub enum Edit {
    /// Of a copy of the module.
    Module(for<'c> fn(&'c Context, &Module<'c>, &mut Places)),
    /// Of the printed program; nothing where no place was chosen.
    Text(fn(&str, &mut Places) -> Option<String>),
}

/// The places of a move, and which of them are chosen.
pub struct Places {
    chosen: Range<usize>,
    met: usize,
}

impl Places {
    /// With these places chosen.
    pub fn new(chosen: Range<usize>) -> Self {
        Self { chosen, met: 0 }
    }

    /// Goes to the next place: whether it is chosen.
    pub fn take(&mut self) -> bool {
        self.met += 1;
        self.chosen.contains(&(self.met - 1))
    }

    /// How many places were met.
    pub fn met(&self) -> usize {
        self.met
    }
}

/// Every move, in the order in which they are tried: first what takes away most.
pub static MOVES: &[Move] = &[
    Move {
        name: "isolate-function",
        summary: "keep one function only, and make it public",
        order: Order::Single,
        edit: Edit::Module(functions::isolate),
    },
    Move {
        name: "drop-functions",
        summary: "erase functions",
        order: Order::Halves,
        edit: Edit::Module(functions::drop),
    },
    Move {
        name: "cut-ops",
        summary: "take ops out of a function: what the others read of them becomes arguments, what they read of the others becomes results",
        order: Order::Halves,
        edit: Edit::Module(ops::cut),
    },
    Move {
        name: "drop-results",
        summary: "return less",
        order: Order::Halves,
        edit: Edit::Module(functions::drop_results),
    },
    Move {
        name: "erase-ops",
        summary: "erase ops whose results nobody reads: stores, whole loops",
        order: Order::Halves,
        edit: Edit::Module(ops::erase_unread),
    },
    Move {
        name: "unwrap-loops",
        summary: "put the body of a loop or a branch in its place, once",
        order: Order::Single,
        edit: Edit::Module(loops::unwrap),
    },
    Move {
        name: "bypass-ops",
        summary: "read an operand in place of the op's result of the same type",
        order: Order::Single,
        edit: Edit::Module(ops::bypass),
    },
    Move {
        name: "zero-values",
        summary: "put constants in place of numbers and vectors",
        order: Order::Halves,
        edit: Edit::Module(values::zero),
    },
    Move {
        name: "merge-values",
        summary: "read an earlier value of the same type",
        order: Order::Single,
        edit: Edit::Module(values::merge),
    },
    Move {
        name: "drop-operands",
        summary: "leave optional operands away",
        order: Order::Single,
        edit: Edit::Module(values::drop_operands),
    },
    Move {
        name: "drop-arguments",
        summary: "erase arguments that nobody reads",
        order: Order::Halves,
        edit: Edit::Module(functions::drop_arguments),
    },
    Move {
        name: "bind-symbols",
        summary: "give a symbolic size a value: 2, 1, 4, 8",
        order: Order::Single,
        edit: Edit::Module(symbols::bind),
    },
    Move {
        name: "shrink-sizes",
        summary: "make one size, or all multiples of one, smaller: to 1, 2, 4, a half",
        order: Order::Single,
        edit: Edit::Text(sizes::shrink),
    },
    Move {
        name: "simplify-dtypes",
        summary: "f64, f16, bf16 to f32; i64, i8 to i32",
        order: Order::Single,
        edit: Edit::Text(sizes::simplify_dtypes),
    },
    Move {
        name: "flatten-constants",
        summary: "make all elements of a constant equal",
        order: Order::Halves,
        edit: Edit::Module(attributes::flatten_constants),
    },
    Move {
        name: "drop-attributes",
        summary: "remove attributes",
        order: Order::Halves,
        edit: Edit::Module(attributes::drop),
    },
    Move {
        name: "simplify-attributes",
        summary: "numbers to 0 or 1, false, empty texts",
        order: Order::Single,
        edit: Edit::Module(attributes::simplify),
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_lists_every_move() {
        let page = include_str!("../../../../../docs/strata-reduce.md");
        let rows: String = MOVES.iter().map(|m| format!("| `{}` | {} |\n", m.name, m.summary)).collect();
        assert!(page.contains(&rows), "docs/strata-reduce.md should hold:\n{rows}");
    }

    #[test]
    fn places_are_counted_and_chosen() {
        let mut places = Places::new(1..3);
        let chosen: Vec<bool> = (0..4).map(|_| places.take()).collect();
        assert_eq!((chosen, places.met()), (vec![false, true, true, false], 4));
    }
}
