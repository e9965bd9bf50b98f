//! What the C++ op classes call: verification, folding and inference through the op table.

use crate::attr::{Attr, dense};
use crate::ops::lookup;
use crate::reference::{RefTensor, Rounding};
use crate::spec::Fold;
use crate::types::TensorType;
use crate::view::OpView;
use melior::ir::attribute::DictionaryAttribute;
use melior::ir::operation::{OperationLike, OperationRef};
use melior::ir::{Attribute, Type, TypeLike, Value, ValueLike};
use mlir_sys::{MlirAttribute, MlirContext, MlirLocation, MlirOperation, MlirStringRef, MlirType, MlirValue};
use std::ffi::{CString, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Folding constants larger than this would move work from the device to the compiler.
const FOLD_LIMIT: usize = 1 << 12;

fn emit(location: MlirLocation, message: &str) {
    let text = CString::new(message.replace('\0', "")).expect("no NUL is left");
    // SAFETY: the location is valid or null (then nothing is emitted).
    unsafe {
        if !location.ptr.is_null() {
            mlir_sys::mlirEmitError(location, text.as_ptr());
        }
    }
}

/// No panic may cross into C++: it becomes a diagnostic.
fn guarded<T>(location: MlirLocation, fallback: T, f: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|panic| {
        let what =
            panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        emit(location, &format!("internal error in the op table: {}", what.unwrap_or("unknown panic")));
        fallback
    })
}

#[unsafe(no_mangle)]
extern "C" fn strataTableVerify(op: MlirOperation) -> bool {
    // SAFETY: MLIR passes a live operation.
    let op = unsafe { OperationRef::from_raw(op) };
    // SAFETY: as above.
    let location = unsafe { mlir_sys::mlirOperationGetLocation(op.to_raw()) };
    guarded(location, false, || {
        let problem = match OpView::new(&op) {
            Err(m) => m,
            Ok(view) => match (view.spec.infer)(&view) {
                Err(v) => v.to_string(),
                Ok(types) if types.len() != view.results.len() => {
                    format!("should have {} results, has {} [type]", types.len(), view.results.len())
                }
                Ok(types) if types != view.results => {
                    let wrong =
                        types.iter().zip(&view.results).position(|(t, r)| t != r).expect("a difference");
                    let which =
                        if types.len() == 1 { "the result".into() } else { format!("result {wrong}") };
                    format!("{which} should be {}, but is {} [type]", types[wrong], view.results[wrong])
                }
                Ok(_) => return true,
            },
        };
        let name = op.name();
        emit(location, &format!("'{}' op {problem}", name.as_string_ref().as_str().unwrap_or("?")));
        false
    })
}

#[unsafe(no_mangle)]
extern "C" fn strataTableFold(
    op: MlirOperation,
    n: isize,
    known: *const MlirAttribute,
    attribute: *mut MlirAttribute,
    value: *mut MlirValue,
) -> i32 {
    // SAFETY: MLIR passes a live operation and `n` attributes, null where the operand is not a constant.
    let (op, known) = unsafe {
        (OperationRef::from_raw(op), if n == 0 { &[] } else { std::slice::from_raw_parts(known, n as usize) })
    };
    // SAFETY: as above.
    let location = unsafe { mlir_sys::mlirOperationGetLocation(op.to_raw()) };
    guarded(location, 0, || {
        let Ok(view) = OpView::new(&op) else { return 0 };
        if view.spec.name == "graph.constant" {
            let Some(Attr::Elements(e)) = view.attr("value") else { return 0 };
            // SAFETY: out pointers of the caller.
            unsafe { *attribute = e.attribute().to_raw_attribute() };
            return 1;
        }
        // What has no elements needs no computation.
        if let [ty] = view.results.as_slice()
            && ty.numel().as_const() == Some(0)
            && let Some(shape) = ty.static_shape()
        {
            let empty =
                RefTensor::generate(ty.dtype, &shape, Rounding::Exact, |_| unreachable!("no elements"));
            // SAFETY: the context outlives the op; out pointer of the caller.
            unsafe {
                let context = op.context();
                let context = context.to_ref();
                let Ok(mlir) = ty.to_mlir(context) else { return 0 };
                *attribute = dense(context, mlir, &empty).to_raw_attribute();
            }
            return 1;
        }
        let constants: Vec<_> = known
            .iter()
            .zip(&view.operands)
            .map(|(a, ty)| {
                let small = ty.numel().as_const().is_some_and(|n| n as usize <= FOLD_LIMIT);
                if a.ptr.is_null() || !small {
                    return None;
                }
                // SAFETY: a non-null attribute of the caller.
                match Attr::from_mlir(unsafe { Attribute::from_raw(*a) }) {
                    Some(Attr::Elements(e)) => e.tensor().ok(),
                    _ => None,
                }
            })
            .collect();
        let fold = view.spec.fold.and_then(|f| f(&view, &constants)).or_else(|| {
            let all: Option<Vec<_>> = constants.iter().cloned().collect();
            let operands = all.filter(|o| !o.is_empty())?;
            let small = view.results[0].numel().as_const().is_some_and(|n| n as usize <= FOLD_LIMIT);
            // A repeated constant is better left as a repetition.
            if !small || view.spec.name == "graph.broadcast" {
                return None;
            }
            Some(Fold::Constant(view.spec.evaluate(&view, &operands, Rounding::Exact)?.ok()?.remove(0)))
        });
        match fold {
            None => 0,
            // SAFETY: out pointers of the caller; the operand exists.
            Some(Fold::Operand(i)) => unsafe {
                *value = op.operand(i).expect("folds to one of its operands").to_raw();
                2
            },
            Some(Fold::Constant(t)) => {
                // SAFETY: the context outlives the op; out pointer of the caller.
                unsafe {
                    let context = op.context();
                    let context = context.to_ref();
                    let Ok(ty) = view.results[0].to_mlir(context) else { return 0 };
                    *attribute = dense(context, ty, &t).to_raw_attribute();
                }
                1
            }
        }
    })
}

/// `AttributeLike::to_raw` under a name that does not collide with `ValueLike` and `TypeLike` in this file.
trait ToRawAttribute {
    fn to_raw_attribute(&self) -> MlirAttribute;
}

impl ToRawAttribute for Attribute<'_> {
    fn to_raw_attribute(&self) -> MlirAttribute {
        melior::ir::AttributeLike::to_raw(self)
    }
}

#[unsafe(no_mangle)]
extern "C" fn strataTableInfer(
    context: MlirContext,
    location: MlirLocation,
    name: MlirStringRef,
    n: isize,
    operands: *const MlirValue,
    attributes: MlirAttribute,
    types: *mut c_void,
    push: unsafe extern "C" fn(*mut c_void, MlirType),
) -> bool {
    guarded(location, false, || {
        // SAFETY: MLIR passes valid handles; the context outlives the call.
        let (context, name, operands, attributes) = unsafe {
            (
                melior::ContextRef::from_raw(context),
                std::str::from_utf8_unchecked(std::slice::from_raw_parts(name.data.cast(), name.length)),
                if n == 0 { &[] } else { std::slice::from_raw_parts(operands, n as usize) },
                Attribute::from_raw(attributes),
            )
        };
        // SAFETY: as above.
        let context = unsafe { context.to_ref() };
        let infer = || -> Result<Vec<Type<'_>>, String> {
            let spec = lookup(name).ok_or_else(|| format!("'{name}' is not in the op table"))?;
            let operands = operands
                .iter()
                // SAFETY: live values.
                .map(|v| TensorType::from_mlir(unsafe { Value::from_raw(*v) }.r#type()))
                .collect::<Result<_, _>>()?;
            let mut attrs = Vec::new();
            if let Ok(dictionary) = DictionaryAttribute::try_from(attributes) {
                for i in 0..dictionary.len() {
                    let (id, a) = dictionary.element(i).map_err(|e| e.to_string())?;
                    if let Some(a) = Attr::from_mlir(a) {
                        attrs.push((id.as_string_ref().as_str().unwrap_or_default().to_owned(), a));
                    }
                }
            }
            let view = OpView { spec, operands, results: vec![], attrs };
            let types = (spec.infer)(&view).map_err(|v| format!("'{name}' op {v}"))?;
            types.iter().map(|t| t.to_mlir(context)).collect()
        };
        match infer() {
            Ok(list) => {
                for t in list {
                    // SAFETY: the caller's own list and function.
                    unsafe { push(types, t.to_raw()) };
                }
                true
            }
            Err(message) => {
                emit(location, &message);
                false
            }
        }
    })
}
