//! What each op of the entry function is to fusion.

use crate::driver::pass::Failure;
use crate::graph::users;
use crate::ir;
use melior::ir::operation::{OperationLike, OperationRef};
use melior::ir::{BlockRef, ValueLike};
use std::collections::BTreeMap;
use strata_dialects::OpView;
use strata_dialects::build::definition;
use strata_runtime::device::Libraries;
use strata_runtime::sym::Expr;

/// Elements of a constant that a kernel may hold; larger ones are buffers of the plan.
const SMALL_CONSTANT: i64 = 1;

/// Ops of arithmetic on numbers that every kernel knows (positions, sizes, constants) which are cheaper than reading their result.
const FREE_ARITHMETIC: usize = 8;

/// What an op is to fusion.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Class {
    /// Costs nothing to repeat: small constants, iota, sizes, broadcasts, little arithmetic on these (a causal mask), and checks of indices.
    Free,
    /// Computed where it is used: pointwise ops and views.
    Inline,
    /// A reshape, which is no work at all where it can stay out of kernels.
    Reshape,
    /// A reduction over `dims` of `shape`.
    Reduce { shape: Vec<Expr>, dims: Vec<usize>, joins: bool },
    /// Reads its operands several times.
    Rereads,
    /// Computes its operands where it uses them, but is the only result of its kernel; the first operand comes from a buffer.
    Scatter,
    /// Computes its operand once, where it uses it, but has its kernel's results for itself.
    Sort,
    /// Stays in the entry function.
    Plan,
}

fn classify(view: &OpView, libraries: Libraries) -> Class {
    match view.spec.mnemonic() {
        "constant" if view.results[0].numel().as_const().is_some_and(|n| n <= SMALL_CONSTANT) => Class::Free,
        "iota" | "dim" | "broadcast" | "check_index" => Class::Free,
        "constant" | "call" | "custom_call" => Class::Plan,
        "reshape" => Class::Reshape,
        "reduce" => {
            Class::Reduce { shape: view.operands[0].shape.clone(), dims: view.indices("dims"), joins: true }
        }
        "arg_reduce" => Class::Reduce {
            shape: view.operands[0].shape.clone(),
            dims: vec![view.int("dim") as usize],
            joins: false,
        },
        "reduce_window" | "scan" => Class::Rereads,
        "scatter" => Class::Scatter,
        "sort" => Class::Sort,
        "dot_general" if libraries.products && view.operands[0].dtype.is_float() => Class::Plan,
        "linear" => Class::Plan,
        "convolution" if libraries.convolutions => Class::Plan,
        "dot_general" | "convolution" => Class::Rereads,
        _ => Class::Inline,
    }
}

/// The classes of a block's ops, in order.
pub(super) fn classify_all(
    ops: &[OperationRef<'_, '_>],
    views: &[Option<OpView>],
    libraries: Libraries,
) -> Vec<Class> {
    // Ops behind a value that is free; none for one that is not.
    let mut free: BTreeMap<usize, usize> = BTreeMap::new();
    let mut classes = Vec::with_capacity(ops.len());
    for (op, view) in ops.iter().zip(views) {
        let Some(view) = view else {
            classes.push(Class::Plan);
            continue;
        };
        let mut class = classify(view, libraries);
        let behind = op.operands().map(|v| free.get(&(definition(v)?.to_raw().ptr as usize)).copied());
        let behind: Option<usize> = behind.sum();
        let cheap = matches!(
            view.spec.mnemonic(),
            "add"
                | "sub"
                | "mul"
                | "neg"
                | "min"
                | "max"
                | "compare"
                | "and"
                | "or"
                | "not"
                | "select"
                | "cast"
        );
        match (&class, behind) {
            (Class::Inline, Some(n)) if cheap && n < FREE_ARITHMETIC => {
                class = Class::Free;
                free.insert(op.to_raw().ptr as usize, n + 1);
            }
            // A broadcast is as free as what it repeats, to those that ask for more than the broadcast itself.
            (Class::Free, Some(n)) => {
                free.insert(op.to_raw().ptr as usize, n);
            }
            _ => {}
        }
        classes.push(class);
    }
    classes
}

/// Gives every user of an op that costs nothing a copy of its own directly before it, so that it can go into each user's kernel, and
/// equal kernels are written alike.
pub(super) fn repeat_free_ops(body: BlockRef<'_, '_>) -> Result<(), Failure> {
    let ops = ir::ops(body);
    let views: Vec<Option<OpView>> = ops.iter().map(|op| OpView::new(op).ok()).collect();
    let classes = classify_all(&ops, &views, Libraries::ALL);
    for (op, _) in ops.into_iter().zip(classes).rev().filter(|(_, c)| *c == Class::Free) {
        let result = op.result(0).expect("free ops have one result");
        let mut list = Vec::new();
        for user in users(result.into()) {
            if !list.iter().any(|seen: &mlir_sys::MlirOperation| seen.ptr == user.ptr) {
                list.push(user);
            }
        }
        for (k, user) in list.iter().enumerate() {
            // SAFETY: live handles of one block; what the op reads dominates it, and so its users.
            unsafe {
                if k + 1 == list.len() {
                    mlir_sys::mlirOperationMoveBefore(op.to_raw(), *user);
                    break;
                }
                let copy = mlir_sys::mlirOperationClone(op.to_raw());
                let block = mlir_sys::mlirOperationGetBlock(*user);
                mlir_sys::mlirBlockInsertOwnedOperationBefore(block, *user, copy);
                for i in 0..mlir_sys::mlirOperationGetNumOperands(*user) {
                    if mlir_sys::mlirValueEqual(mlir_sys::mlirOperationGetOperand(*user, i), result.to_raw())
                    {
                        mlir_sys::mlirOperationSetOperand(
                            *user,
                            i,
                            mlir_sys::mlirOperationGetResult(copy, 0),
                        );
                    }
                }
            }
        }
    }
    Ok(())
}
