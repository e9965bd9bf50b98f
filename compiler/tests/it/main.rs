//! Integration tests of the compiler, in one binary.

mod gpu_kernels;
