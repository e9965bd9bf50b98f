//! NVIDIA GPUs, through the CUDA driver.
//!
//! Everything is loaded at run time: the crate builds and runs on machines without a GPU, where opening the device is an
//! error with a next step.

pub mod conv;
pub mod conv_layout;
pub mod copy;
pub mod copy_plan;
pub mod device;
pub mod driver;
mod error;
pub mod graph;
pub mod library;
pub mod link;
pub mod link_log;
pub mod memory;
pub mod module;
pub mod product;
pub mod product_layout;
#[doc(hidden)]
pub mod selftest;
pub mod workspace;

pub use device::{CudaDevice, CudaModule, probe};
#[doc(hidden)]
pub use selftest::selftest;
