//! What may stand in a CPU kernel before LLVM: ops that become instructions, not library calls.

use crate::driver::pass::Failure;
use crate::ir::{name, ops};
use melior::ir::operation::{OperationLike, OperationRef};
use melior::ir::{BlockLike, RegionLike, ValueLike};

/// Intrinsics that would be calls of a mathematical library.
const CALLS: &[&str] = &[
    "llvm.intr.exp",
    "llvm.intr.exp2",
    "llvm.intr.log",
    "llvm.intr.log2",
    "llvm.intr.log10",
    "llvm.intr.pow",
    "llvm.intr.powi",
    "llvm.intr.sin",
    "llvm.intr.cos",
    "llvm.intr.tanh",
    "llvm.frem",
];

/// Checks every op of a lowered module.
pub fn check(op: OperationRef<'_, '_>) -> Result<(), Failure> {
    for r in 0..op.region_count() {
        let mut block = op.region(r).expect("in range").first_block();
        while let Some(b) = block {
            for inner in ops(b) {
                let full = name(&inner);
                if !full.starts_with("llvm.") || CALLS.contains(&full) {
                    let types: Vec<String> = inner.operands().map(|v| v.r#type().to_string()).collect();
                    return Err(Failure::new(
                        inner.location(),
                        format!("no CPU code for {full} ({})", types.join(", ")),
                    )
                    .next("run loop-to-cpu and expand-math before code generation"));
                }
                check(inner)?;
            }
            block = b.next_in_region();
        }
    }
    Ok(())
}
