//! Emission of scheduled loops from linalg: pass `linalg-to-loops`.

pub mod access;
pub mod arith;
pub mod body;
pub mod choose;
pub mod cleanup;
pub mod combine;
pub mod constants;
pub mod cpu;
pub mod domain;
pub mod emitter;
pub mod group;
pub mod held;
pub mod index;
pub mod linalg_to_loops;
pub mod online;
mod pointwise;
pub mod read;
pub mod rows;
pub mod rows_plan;
pub mod runs;
pub mod scan;
pub mod scatter;
pub mod schedule;
pub mod sort;
pub mod sort_merge;
pub mod sort_network;
mod split;
mod tile_tasks;
mod tiles;
pub mod value;

#[cfg(test)]
mod tests;
