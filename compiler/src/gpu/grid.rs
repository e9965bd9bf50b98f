//! The launch dimensions of a kernel.

use crate::driver::pass::Failure;
use crate::kernel::signature::Signature;
use melior::ir::AttributeLike;
use melior::ir::operation::{OperationLike, OperationRef};
use strata_runtime::sym::Expr;

/// Launch dimensions x, y, z.
pub fn grid(
    signature: &Signature<'_>,
    order: &[usize],
    func: OperationRef<'_, '_>,
) -> Result<Vec<Expr>, Failure> {
    let fail = |m: String| Failure::new(func.location(), format!("kernel {}: {m}", signature.name));
    // Empty results leave no loop behind: nothing is launched.
    if order.is_empty() {
        return Ok(vec![Expr::from(0)]);
    }
    if order.len() != signature.grid.len() {
        return Err(fail(format!(
            "loop.grid has {} entries, the block forall {} dimensions",
            signature.grid.len(),
            order.len()
        )));
    }
    let mut grid = vec![Expr::from(1); order.iter().max().map_or(1, |m| m + 1)];
    for (e, &d) in signature.grid.iter().zip(order) {
        grid[d] = e.clone();
    }
    for (d, e) in grid.iter().enumerate() {
        let limit = if d == 0 { i64::from(i32::MAX) } else { 65535 };
        if e.as_const().is_some_and(|n| n > limit) {
            return Err(fail(format!("{e} blocks in launch dimension {d}, which ends at {limit}"))
                .next("map the largest dimension to #gpu.block<x>"));
        }
    }
    Ok(grid)
}

/// Trip counts of a normalised forall; `None` for a dynamic one.
pub fn trip_counts(op: OperationRef<'_, '_>) -> Result<Vec<Option<i64>>, String> {
    let numbers = |name: &str| {
        let raw = op.attribute(name).ok()?;
        // SAFETY: the op's static bounds are dense arrays of i64.
        unsafe {
            let n = mlir_sys::mlirDenseArrayGetNumElements(raw.to_raw());
            Some((0..n).map(|i| mlir_sys::mlirDenseI64ArrayGetElement(raw.to_raw(), i)).collect::<Vec<_>>())
        }
    };
    let low = numbers("staticLowerBound").unwrap_or_default();
    let step = numbers("staticStep").unwrap_or_default();
    if low.iter().any(|l| *l != 0) || step.iter().any(|s| *s != 1) || op.result_count() != 0 {
        return Err("a forall that does not count from 0 in steps of 1, or has results".into());
    }
    Ok(numbers("staticUpperBound")
        .unwrap_or_default()
        .into_iter()
        .map(|n| (n != i64::MIN).then_some(n))
        .collect())
}
