//! Running upstream passes from inside a step.

use crate::driver::pass::Failure;
use melior::Context;
use melior::ir::Location;
use melior::ir::operation::{OperationLike, OperationRef};
use melior::pass::PassManager;
use melior::utility::parse_pass_pipeline;
use std::cell::RefCell;
use std::rc::Rc;

/// Runs an upstream pipeline on `op`; `anchor` is the op's name, `passes` what stands between the parentheses.
pub fn run<'c>(
    context: &'c Context,
    op: OperationRef<'c, '_>,
    anchor: &str,
    passes: &str,
) -> Result<(), Failure> {
    let messages = Rc::new(RefCell::new(Vec::new()));
    let sink = messages.clone();
    let handler = context.attach_diagnostic_handler(move |d| {
        sink.borrow_mut().push(d.to_string());
        true
    });
    // SAFETY: the manager is anchored on the op's own name and dropped before the op.
    let ok = unsafe {
        let name = melior::StringRef::new(anchor);
        let manager = PassManager::from_raw(mlir_sys::mlirPassManagerCreateOnOperation(
            context.to_raw(),
            name.to_raw(),
        ));
        match parse_pass_pipeline(manager.as_operation_pass_manager(), &format!("{anchor}({passes})")) {
            Err(e) => Err(e.to_string()),
            Ok(()) if mlir_sys::mlirPassManagerRunOnOp(manager.to_raw(), op.to_raw()).value != 0 => Ok(()),
            Ok(()) => Err(messages.borrow().join("; ")),
        }
    };
    context.detach_diagnostic_handler(handler);
    ok.map_err(|e| {
        Failure::new(op.location(), format!("upstream passes failed on {}: {e}", crate::ir::symbol_name(&op)))
            .next("this is a defect of the lowering: please report it with the module")
    })
}

/// The location of a function, for messages without an op.
pub fn unknown(context: &Context) -> Location<'_> {
    Location::unknown(context)
}
