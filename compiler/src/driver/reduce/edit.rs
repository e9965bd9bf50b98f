//! Changes of a module that moves share. All of them leave a module that the verifier can be asked about.

use crate::graph::users;
use crate::ir;
use melior::Context;
use melior::ir::attribute::{ArrayAttribute, TypeAttribute};
use melior::ir::operation::{OperationLike, OperationRef};
use melior::ir::r#type::FunctionType;
use melior::ir::{Attribute, AttributeLike, BlockLike, BlockRef, Module, Type, TypeLike, Value, ValueLike};
use std::collections::BTreeSet;

/// The ops of a module's functions at any depth, in order, without the functions and what ends a block.
pub fn inner_ops<'c, 'm>(module: &'m Module<'c>) -> Vec<OperationRef<'c, 'm>> {
    let mut out = Vec::new();
    ir::walk(module, |op| {
        let name = ir::name(&op);
        if !matches!(name, "builtin.module" | "func.func") && !is_terminator(op) {
            // SAFETY: the op lives as long as its module.
            out.push(unsafe { OperationRef::from_raw(op.to_raw()) });
        }
    });
    out
}

/// Whether the op ends its block: only moves that take the whole block may erase it.
pub fn is_terminator(op: OperationRef<'_, '_>) -> bool {
    matches!(
        ir::name(&op),
        "func.return"
            | "scf.yield"
            | "scf.forall.in_parallel"
            | "scf.reduce"
            | "linalg.yield"
            | "tensor.yield"
            | "gpu.return"
            | "gpu.terminator"
            | "llvm.return"
    )
}

/// Where a handle lives: handles of the same op or value are equal in this.
pub fn address(op: OperationRef<'_, '_>) -> usize {
    op.to_raw().ptr as usize
}

/// Replaces every use of a value.
pub fn replace_uses(old: Value<'_, '_>, new: Value<'_, '_>) {
    // SAFETY: live values; the verifier refuses what does not dominate its uses.
    unsafe { mlir_sys::mlirValueReplaceAllUsesOfWith(old.to_raw(), new.to_raw()) }
}

/// Whether nothing uses a value.
pub fn is_unused(value: Value<'_, '_>) -> bool {
    // SAFETY: a query on a live value.
    unsafe { mlir_sys::mlirValueGetFirstUse(value.to_raw()).ptr.is_null() }
}

/// Whether a value is a tensor: only those can be made arguments and results of functions of every level.
pub fn is_tensor(value: Value<'_, '_>) -> bool {
    // SAFETY: a query on a valid type.
    unsafe { mlir_sys::mlirTypeIsARankedTensor(value.r#type().to_raw()) }
}

/// The results of an op.
pub fn results<'c, 'm>(op: OperationRef<'c, 'm>) -> Vec<Value<'c, 'm>> {
    // SAFETY: indices below the count; a result lives as long as its op.
    (0..op.result_count())
        .map(|i| unsafe { Value::from_raw(mlir_sys::mlirOperationGetResult(op.to_raw(), i as isize)) })
        .collect()
}

/// The operands of an op.
pub fn operands<'c, 'm>(op: OperationRef<'c, 'm>) -> Vec<Value<'c, 'm>> {
    // SAFETY: indices below the count; an operand lives as long as the module.
    (0..op.operand_count())
        .map(|i| unsafe { Value::from_raw(mlir_sys::mlirOperationGetOperand(op.to_raw(), i as isize)) })
        .collect()
}

/// Sets one operand.
pub fn set_operand(op: OperationRef<'_, '_>, i: usize, value: Value<'_, '_>) {
    // SAFETY: live handles, an index below the count.
    unsafe { mlir_sys::mlirOperationSetOperand(op.to_raw(), i as isize, value.to_raw()) }
}

/// Sets all operands.
pub fn set_operands(op: OperationRef<'_, '_>, values: &[Value<'_, '_>]) {
    let raw: Vec<_> = values.iter().map(ValueLike::to_raw).collect();
    // SAFETY: live handles.
    unsafe { mlir_sys::mlirOperationSetOperands(op.to_raw(), raw.len() as isize, raw.as_ptr()) }
}

/// Sets an attribute.
pub fn set_attribute(op: OperationRef<'_, '_>, name: &str, attribute: Attribute<'_>) {
    // SAFETY: live handles; the verifier refuses what does not fit.
    unsafe {
        mlir_sys::mlirOperationSetAttributeByName(
            op.to_raw(),
            melior::StringRef::new(name).to_raw(),
            attribute.to_raw(),
        );
    }
}

/// Removes an attribute; whether it was there.
pub fn remove_attribute(op: OperationRef<'_, '_>, name: &str) -> bool {
    // SAFETY: a live handle; the verifier refuses an op without an attribute that it needs.
    unsafe {
        mlir_sys::mlirOperationRemoveAttributeByName(op.to_raw(), melior::StringRef::new(name).to_raw())
    }
}

/// A function with a body that no other function calls, so that its signature may change.
#[derive(Clone, Copy)]
pub struct Function<'c, 'm> {
    /// The op.
    pub op: OperationRef<'c, 'm>,
    /// Its only block.
    pub body: BlockRef<'c, 'm>,
}

/// The functions that nobody calls.
pub fn free_functions<'c, 'm>(module: &'m Module<'c>) -> Vec<Function<'c, 'm>> {
    let mut called = BTreeSet::new();
    ir::walk(module, |op| {
        if let Ok(callee) = op.attribute("callee") {
            called.insert(callee.to_string());
        }
    });
    let free = |f: &OperationRef<'c, 'm>| !called.contains(&format!("@{}", ir::symbol_name(f)));
    let with_body = |op: OperationRef<'c, 'm>| Some(Function { op, body: ir::body(&op)? });
    ir::functions(module).into_iter().filter(free).filter_map(with_body).collect()
}

impl<'c: 'm, 'm> Function<'c, 'm> {
    /// The ops of its block but the last, which returns.
    pub fn ops(self) -> Vec<OperationRef<'c, 'm>> {
        let mut list = ir::ops(self.body);
        list.pop();
        list
    }

    /// The op that returns.
    pub fn terminator(self) -> Option<OperationRef<'c, 'm>> {
        ir::ops(self.body).pop()
    }

    /// The arguments.
    pub fn arguments(self) -> Vec<Value<'c, 'm>> {
        let n = self.body.argument_count() as isize;
        // SAFETY: indices below the count; an argument lives as long as its block.
        (0..n)
            .map(|i| unsafe { Value::from_raw(mlir_sys::mlirBlockGetArgument(self.body.to_raw(), i)) })
            .collect()
    }

    /// Adds an argument.
    pub fn add_argument(self, context: &'c Context, ty: Type<'c>) -> Value<'c, 'm> {
        let mut attributes = self.list_of("arg_attrs");
        if let Some(list) = &mut attributes {
            list.push(empty(context));
        }
        self.set_list(context, "arg_attrs", attributes);
        // SAFETY: live handles; the signature is brought up to date by `refresh`.
        unsafe {
            let location = self.op.location();
            Value::from_raw(mlir_sys::mlirBlockAddArgument(
                self.body.to_raw(),
                ty.to_raw(),
                location.to_raw(),
            ))
        }
    }

    /// Erases an argument without uses.
    pub fn erase_argument(self, context: &'c Context, i: usize) {
        let mut attributes = self.list_of("arg_attrs");
        if let Some(list) = attributes.as_mut().filter(|l| i < l.len()) {
            list.remove(i);
        }
        self.set_list(context, "arg_attrs", attributes);
        // SAFETY: a live block; the argument has no uses.
        unsafe { mlir_sys::mlirBlockEraseArgument(self.body.to_raw(), i as u32) }
    }

    /// Returns other values: each with the number of the result that it was, if it was one.
    pub fn set_returned(self, context: &'c Context, values: &[(Value<'c, 'm>, Option<usize>)]) {
        let Some(end) = self.terminator() else { return };
        set_operands(end, &values.iter().map(|v| v.0).collect::<Vec<_>>());
        if let Some(old) = self.list_of("res_attrs") {
            let kept =
                |i: Option<usize>| i.and_then(|i| old.get(i).copied()).unwrap_or_else(|| empty(context));
            self.set_list(context, "res_attrs", Some(values.iter().map(|v| kept(v.1)).collect()));
        }
    }

    /// Makes the stated signature that of the block.
    pub fn refresh(self, context: &'c Context) {
        let Some(end) = self.terminator() else { return };
        let inputs: Vec<Type<'c>> = self.arguments().iter().map(|v| v.r#type()).collect();
        let outputs: Vec<Type<'c>> = operands(end).iter().map(|v| v.r#type()).collect();
        let ty = FunctionType::new(context, &inputs, &outputs);
        set_attribute(self.op, "function_type", TypeAttribute::new(ty.into()).into());
    }

    fn list_of(self, name: &str) -> Option<Vec<Attribute<'c>>> {
        let list = ArrayAttribute::try_from(self.op.attribute(name).ok()?).ok()?;
        (0..list.len()).map(|i| list.element(i).ok()).collect()
    }

    fn set_list(self, context: &'c Context, name: &str, list: Option<Vec<Attribute<'c>>>) {
        let Some(list) = list else { return };
        let text = empty(context);
        if list.iter().all(|a| *a == text) {
            remove_attribute(self.op, name);
        } else {
            set_attribute(self.op, name, ArrayAttribute::new(context, &list).into());
        }
    }
}

fn empty(context: &Context) -> Attribute<'_> {
    Attribute::parse(context, "{}").expect("the empty dictionary")
}

/// What was without use before a move: it is the fault's, perhaps, and stays.
pub struct Idle {
    ops: BTreeSet<usize>,
    arguments: BTreeSet<usize>,
}

impl Idle {
    /// What is without use now.
    pub fn of(module: &Module<'_>) -> Self {
        let unused = |op: &OperationRef<'_, '_>| op.result_count() > 0 && ir::unused(op);
        let arguments = free_functions(module).into_iter().flat_map(Function::arguments);
        Self {
            ops: inner_ops(module).into_iter().filter(unused).map(address).collect(),
            arguments: arguments.filter(|a| is_unused(*a)).map(|a| a.to_raw().ptr as usize).collect(),
        }
    }

    /// Erases what a move has left without use, ops and arguments, and brings signatures up to date.
    pub fn sweep<'c>(&self, context: &'c Context, module: &Module<'c>) {
        // Backwards, so that what becomes unused is met after its users.
        for op in inner_ops(module).into_iter().rev() {
            if op.result_count() > 0 && ir::unused(&op) && !self.ops.contains(&address(op)) && is_pure(op) {
                ir::erase(op.to_raw());
            }
        }
        for function in free_functions(module) {
            for (i, argument) in function.arguments().into_iter().enumerate().rev() {
                if is_unused(argument) && !self.arguments.contains(&(argument.to_raw().ptr as usize)) {
                    function.erase_argument(context, i);
                }
            }
            function.refresh(context);
        }
    }
}

/// Whether an op without uses may go: it writes nothing. Loops with results are taken apart by their own move.
fn is_pure(op: OperationRef<'_, '_>) -> bool {
    let name = ir::name(&op);
    let dialect = name.split('.').next().unwrap_or_default();
    let reads = matches!(name, "memref.load" | "memref.alloca" | "vector.load" | "vector.transfer_read");
    let writes = matches!(name, "vector.store" | "vector.transfer_write" | "graph.print" | "graph.assert");
    reads
        || !writes
            && matches!(dialect, "graph" | "arith" | "math" | "tensor" | "linalg" | "vector" | "affine")
}

/// Whether a user of the value is the op itself or stands in one of its regions.
pub fn used_outside(value: Value<'_, '_>, chosen: &BTreeSet<usize>) -> bool {
    users(value).into_iter().any(|user| {
        let parent = |op: &mlir_sys::MlirOperation| {
            // SAFETY: the parent of a live op, or null.
            let parent = unsafe { mlir_sys::mlirOperationGetParentOperation(*op) };
            (!parent.ptr.is_null()).then_some(parent)
        };
        !std::iter::successors(Some(user), parent).any(|op| chosen.contains(&(op.ptr as usize)))
    })
}
