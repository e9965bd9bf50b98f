//! NVIDIA GPUs, through the CUDA driver.
//!
//! Everything is loaded at run time: the crate builds and runs on machines without a GPU, where opening the device is an
//! error with a next step.

pub mod conv;
mod conv_desc;
pub mod conv_layout;
pub mod copy;
pub mod copy_plan;
mod cudnn_api;
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
mod product_desc;
pub mod product_layout;
#[doc(hidden)]
pub mod selftest;
pub mod stream;
pub mod workspace;

pub use device::{CudaDevice, CudaModule, probe};
#[doc(hidden)]
pub use selftest::selftest;
