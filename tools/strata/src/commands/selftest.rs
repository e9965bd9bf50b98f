//! `strata selftest --device cuda`: checks the device code of the runtime on this machine.

use std::process::ExitCode;

/// Check copies, kernels, products and convolutions of the GPU device against loops on the host
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Number of the GPU.
    #[arg(long, default_value_t = 0)]
    pub gpu: usize,
}

/// Runs the command.
pub fn main(args: &Args) -> ExitCode {
    // The driver's own cache of compiled PTX gives back other bytes than a compilation does (the same code), and one test compares bytes.
    // SAFETY: no other thread has been started.
    unsafe { std::env::set_var("CUDA_CACHE_DISABLE", "1") };
    match strata_runtime::device::cuda::selftest(args.gpu as _) {
        Ok(report) => {
            print!("{report}");
            if report.ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(e) => super::fail(&[e.to_string()]),
    }
}
