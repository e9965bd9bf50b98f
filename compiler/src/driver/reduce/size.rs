//! How large a program is.

use crate::driver::reduce::edit::{free_functions, inner_ops, operands};
use crate::driver::reduce::moves::{sizes, symbols};
use crate::ir;
use melior::ir::Module;
use melior::ir::operation::OperationLike;
use serde::Serialize;

/// The size of a program. Sizes are compared field by field, the first difference decides; every step of a reduction makes it smaller, so
/// that reductions end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Size {
    /// Functions, and symbols of functions.
    pub functions_and_symbols: usize,
    /// Ops at any depth, but for functions, and what ends a block.
    pub ops: usize,
    /// Operands, arguments, returned values.
    pub values: usize,
    /// The sum of all sizes in the text.
    pub extent: u64,
    /// Element types that could be simpler.
    pub dtypes: usize,
    /// Attributes of ops and functions.
    pub attributes: usize,
    /// Length of the text.
    pub text: usize,
}

impl Size {
    /// Of a module and its text.
    pub fn of(module: &Module<'_>, text: &str) -> Self {
        let ops = inner_ops(module);
        let functions = ir::functions(module);
        let free = free_functions(module);
        let signature: usize =
            free.iter().map(|f| f.arguments().len() + f.terminator().map_or(0, |t| operands(t).len())).sum();
        let symbols: usize = free.iter().map(|f| symbols::count(*f)).sum();
        Self {
            ops: ops.len(),
            values: signature + ops.iter().map(|op| op.operand_count()).sum::<usize>(),
            functions_and_symbols: functions.len() + symbols,
            extent: sizes::numbers(text).iter().fold(0, |sum, n| sum.saturating_add(n.value)),
            dtypes: sizes::odd_dtypes(text),
            attributes: ops.iter().chain(&functions).map(|op| op.attributes().count()).sum(),
            text: text.len(),
        }
    }
}
