//! `strata reduce`: makes a program that shows a fault as small as it can be.
//!
//! A [`Move`](moves::Move) proposes smaller programs, the [`Oracle`](oracle::Oracle) says which of them still show the fault, and
//! [`search`] keeps those. Whatever a program does to the compiler, it does in a child process ([`worker`]).

mod edit;
pub mod ending;
pub mod judge;
pub mod moves;
pub mod oracle;
pub mod report;
pub mod search;
pub mod size;
pub mod worker;

pub use judge::Judge;
pub use oracle::Oracle;
pub use search::{Limits, Progress, Reduced, reduce};
pub use size::Size;
