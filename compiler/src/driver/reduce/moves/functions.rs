//! Moves on functions, their arguments and their results.

use super::Places;
use crate::driver::reduce::edit::{Function, free_functions, is_unused, operands, remove_attribute};
use crate::{graph, ir};
use melior::Context;
use melior::ir::Module;

pub(super) fn isolate<'c>(_: &'c Context, module: &Module<'c>, places: &mut Places) {
    let functions = ir::functions(module);
    if functions.len() < 2 {
        return;
    }
    let chosen: Vec<bool> = functions.iter().map(|_| places.take()).collect();
    let Some(kept) = chosen.iter().position(|c| *c) else { return };
    for (i, function) in functions.iter().enumerate() {
        if i == kept {
            remove_attribute(*function, "sym_visibility");
            remove_attribute(*function, graph::KERNEL);
        } else {
            ir::erase(function.to_raw());
        }
    }
}

pub(super) fn drop<'c>(_: &'c Context, module: &Module<'c>, places: &mut Places) {
    let functions = ir::functions(module);
    if functions.len() < 2 {
        return;
    }
    for function in functions {
        // A call of what is gone does not verify.
        if places.take() {
            ir::erase(function.to_raw());
        }
    }
}

pub(super) fn drop_results<'c>(context: &'c Context, module: &Module<'c>, places: &mut Places) {
    for function in free_functions(module) {
        let Some(end) = function.terminator() else { continue };
        let returned = operands(end).into_iter().enumerate();
        let kept: Vec<_> = returned.filter(|_| !places.take()).map(|(i, v)| (v, Some(i))).collect();
        function.set_returned(context, &kept);
    }
}

pub(super) fn drop_arguments<'c>(context: &'c Context, module: &Module<'c>, places: &mut Places) {
    for function in free_functions(module) {
        let unread = function.arguments().into_iter().enumerate().filter(|(_, a)| is_unused(*a));
        let chosen: Vec<usize> = unread.filter(|_| places.take()).map(|(i, _)| i).collect();
        erase_arguments(context, function, &chosen);
    }
}

fn erase_arguments<'c: 'm, 'm>(context: &'c Context, function: Function<'c, 'm>, list: &[usize]) {
    for i in list.iter().rev() {
        function.erase_argument(context, *i);
    }
}
