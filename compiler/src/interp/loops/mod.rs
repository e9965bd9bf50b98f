//! The loop level: scheduled loop nests on memrefs, run sequentially.
//!
//! A function is decoded once into flat code on numbered registers and run from there. What the sequential order would hide is checked:
//! reads of what was never written, accesses outside of a memref, and iterations of an `scf.forall` that depend on each other.

mod code;
mod decode;
mod decode_memory;
mod decode_vector;
mod machine;
mod memory;
mod run;

pub(super) use run::run;
