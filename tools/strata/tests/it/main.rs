//! Tests of the binary as a whole.

mod fuzz;
