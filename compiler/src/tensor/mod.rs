//! The tensor level: kernel functions as `linalg` on tensors.

mod emitter;
pub mod graph_to_linalg;
mod indexing;
mod pointwise;
mod products;
mod reductions;
mod reshape;
mod sizes;
mod views;
