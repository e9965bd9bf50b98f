//! Small helpers over melior that every level shares.

use melior::ir::operation::{OperationLike, OperationRef};
use melior::ir::{BlockLike, BlockRef, Module, RegionLike, ValueLike};
use mlir_sys::MlirOperation;

/// The name of an op: `graph.add`.
pub fn name<'c: 'a, 'a>(op: &impl OperationLike<'c, 'a>) -> &'c str {
    // SAFETY: identifiers live as long as the context.
    unsafe {
        let id = mlir_sys::mlirIdentifierStr(mlir_sys::mlirOperationGetName(op.to_raw()));
        std::str::from_utf8_unchecked(std::slice::from_raw_parts(id.data.cast(), id.length))
    }
}

/// The ops of a block, in order. The list is made first, so that the block may change while it is walked.
pub fn ops<'c, 'a>(block: BlockRef<'c, 'a>) -> Vec<OperationRef<'c, 'a>> {
    let mut out = Vec::new();
    // SAFETY: the chain of a live block; lifetimes are those of the block.
    unsafe {
        let mut op = mlir_sys::mlirBlockGetFirstOperation(block.to_raw());
        while !op.ptr.is_null() {
            out.push(OperationRef::from_raw(op));
            op = mlir_sys::mlirOperationGetNextInBlock(op);
        }
    }
    out
}

/// The first block of an op's first region: a function's body, a module's body.
pub fn body<'c: 'a, 'a>(op: &impl OperationLike<'c, 'a>) -> Option<BlockRef<'c, 'a>> {
    // An index out of range is an error of melior's that holds the op's text, for which the whole module is numbered.
    if op.region_count() == 0 {
        return None;
    }
    let region = op.region(0).ok()?;
    // SAFETY: the region belongs to the op; null is checked.
    unsafe {
        let block = mlir_sys::mlirRegionGetFirstBlock(region.to_raw());
        (!block.ptr.is_null()).then(|| BlockRef::from_raw(block))
    }
}

/// The functions (`func.func`) of a module, in order.
pub fn functions<'c, 'm>(module: &'m Module<'c>) -> Vec<OperationRef<'c, 'm>> {
    // SAFETY: the body lives as long as the module, which the caller keeps.
    let body = unsafe { BlockRef::from_raw(module.body().to_raw()) };
    ops(body).into_iter().filter(|op| name(op) == "func.func").collect()
}

/// The symbol name of a function or module.
pub fn symbol_name<'c: 'a, 'a>(op: &impl OperationLike<'c, 'a>) -> String {
    op.attribute("sym_name")
        .ok()
        .and_then(|a| melior::ir::attribute::StringAttribute::try_from(a).ok())
        .map(|s| s.value().to_owned())
        .unwrap_or_default()
}

/// Replaces every use of the op's results by `values` and erases the op.
pub fn replace<'c: 'a, 'a>(op: OperationRef<'c, 'a>, values: &[melior::ir::Value<'c, 'a>]) {
    assert_eq!(op.result_count(), values.len(), "one value a result");
    // SAFETY: live handles; the op is not used afterwards.
    unsafe {
        for (i, v) in values.iter().enumerate() {
            mlir_sys::mlirValueReplaceAllUsesOfWith(
                mlir_sys::mlirOperationGetResult(op.to_raw(), i as isize),
                v.to_raw(),
            );
        }
    }
    erase(op.to_raw());
}

/// Erases an op without uses.
pub fn erase(op: MlirOperation) {
    // SAFETY: the caller's op has no uses; the handle is not used afterwards.
    unsafe {
        mlir_sys::mlirOperationRemoveFromParent(op);
        mlir_sys::mlirOperationDestroy(op);
    }
}

/// Whether no result of the op is used.
pub fn unused<'c: 'a, 'a>(op: &impl OperationLike<'c, 'a>) -> bool {
    // SAFETY: queries on a live op.
    unsafe {
        (0..op.result_count() as isize).all(|i| {
            mlir_sys::mlirValueGetFirstUse(mlir_sys::mlirOperationGetResult(op.to_raw(), i)).ptr.is_null()
        })
    }
}

/// `file.py:12:3` behind a location, or `unknown`: the innermost file location of names, call sites and fusions.
pub fn location_text(location: melior::ir::Location<'_>) -> String {
    if location.is_file_line_col_range() {
        let file = location.file_line_col_range_filename();
        let file = file.as_string_ref().as_str().unwrap_or("?");
        return format!(
            "{file}:{}:{}",
            location.file_line_col_range_start_line(),
            location.file_line_col_range_start_column()
        );
    }
    if location.is_name() {
        let inner = location_text(location.name_child_location());
        let name = location.name_value();
        return if inner == "unknown" {
            name.as_string_ref().as_str().unwrap_or("?").to_owned()
        } else {
            inner
        };
    }
    if location.is_call_site() {
        return location_text(location.call_site_callee());
    }
    if location.is_fused() {
        for i in 0..location.fused_num_locations() {
            let text = location_text(location.fused_location(i));
            if text != "unknown" {
                return text;
            }
        }
    }
    "unknown".into()
}

/// Calls `f` with every op of the module, itself first.
pub fn walk<'c>(module: &Module<'c>, mut f: impl FnMut(OperationRef<'c, '_>)) {
    unsafe extern "C" fn visit<'c, F: FnMut(OperationRef<'c, '_>)>(
        op: MlirOperation,
        f: *mut std::ffi::c_void,
    ) -> mlir_sys::MlirWalkResult {
        // SAFETY: MLIR passes live ops, and back the pointer below.
        unsafe { (*f.cast::<F>())(OperationRef::from_raw(op)) };
        mlir_sys::MlirWalkResult_MlirWalkResultAdvance
    }
    fn go<'c, F: FnMut(OperationRef<'c, '_>)>(module: &Module<'c>, f: &mut F) {
        // SAFETY: `f` outlives the walk, which is over when this returns.
        unsafe {
            let order = mlir_sys::MlirWalkOrder_MlirWalkPreOrder;
            mlir_sys::mlirOperationWalk(
                module.as_operation().to_raw(),
                Some(visit::<F>),
                (&raw mut *f).cast(),
                order,
            );
        }
    }
    go(module, &mut f);
}
