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
    match strata_runtime::device::cuda::selftest(args.gpu as _) {
        Ok(report) => {
            print!("{report}");
            if report.ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(e) => super::fail(&[e.to_string()]),
    }
}
