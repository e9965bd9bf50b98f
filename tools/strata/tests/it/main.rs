//! Tests of the binary as a whole.

mod determinism;
mod fuzz;
