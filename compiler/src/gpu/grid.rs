//! The launch dimensions of a kernel.

use crate::driver::pass::Failure;
use crate::kernel::signature::Signature;
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
