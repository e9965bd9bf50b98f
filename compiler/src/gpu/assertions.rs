//! Device-side assertions: `__assertfail`, which the driver prints a line for and ends the launch with, as with CUDA's own `assert`.

use super::loop_to_gpu::Gpu;
use crate::driver::pass::Failure;
use crate::kernel::walk::{Walk, set_attribute};
use crate::kernel::{Builder, check};
use melior::ir::attribute::{StringAttribute, TypeAttribute};
use melior::ir::operation::OperationRef;
use melior::ir::{Attribute, Region};
use std::collections::BTreeMap;
use strata_runtime::plan::Check;

/// The driver's function.
pub const ASSERTFAIL: &str = "__assertfail";

/// `loop.check_index`: behind it, the index is inside.
pub fn check_index<'c>(walk: &mut Walk<'c, Gpu<'c>>, op: OperationRef<'c, 'c>) -> Result<(), Failure> {
    let (b, operands) = (walk.b, walk.operands(op));
    let checked = check::compare(&b, op, operands[0], operands[1])?;
    check::when(&b, checked.any, |b| walk.target.assertions.fail(b, &check::text(op)));
    walk.set(op.result(0).expect("one result").into(), check::narrow(&b, checked.index, operands[0]));
    Ok(())
}

/// The texts of a kernel's assertions.
pub struct Assertions<'c> {
    /// Appends to the kernel's module.
    module: Builder<'c>,
    kernel: String,
    /// The globals that hold texts.
    texts: BTreeMap<String, String>,
}

impl<'c> Assertions<'c> {
    /// None, in the module of a kernel.
    pub fn new(module: Builder<'c>, kernel: &str) -> Self {
        Self { module, kernel: kernel.to_owned(), texts: BTreeMap::new() }
    }

    /// Ends the launch.
    pub fn fail(&mut self, b: &Builder<'c>, check: &Check) {
        if self.texts.is_empty() {
            self.declare();
        }
        // `file.py:12:3`; a column nobody asked for.
        let mut parts = check.location.rsplitn(3, ':');
        let (_, line, file) = (parts.next(), parts.next(), parts.next());
        let line = line.and_then(|l| l.parse().ok()).unwrap_or(0);
        let kernel = self.kernel.clone();
        let operands = [
            self.text(b, &check.message),
            self.text(b, file.unwrap_or("unknown")),
            b.int(line, b.ty("i32")),
            self.text(b, &kernel),
            // Bytes of a character.
            b.int(1, b.ty("i64")),
        ];
        b.op(
            "llvm.call",
            &operands,
            &[],
            &[
                ("callee", b.attr(&format!("@{ASSERTFAIL}"))),
                ("op_bundle_sizes", b.attr("array<i32>")),
                ("operandSegmentSizes", b.attr("array<i32: 5, 0>")),
            ],
            vec![],
        );
    }

    fn declare(&self) {
        let b = self.module;
        let ty = "!llvm.func<void (ptr, ptr, i32, ptr, i64)>";
        let function = b.op(
            "llvm.func",
            &[],
            &[],
            &[
                ("sym_name", StringAttribute::new(b.context, ASSERTFAIL).into()),
                ("function_type", TypeAttribute::new(b.ty(ty)).into()),
                ("linkage", b.attr("#llvm.linkage<external>")),
            ],
            vec![Region::new()],
        );
        // Code behind a check then knows that the index is inside.
        set_attribute(function.to_raw(), "passthrough", b.attr("[\"noreturn\", \"nounwind\", \"cold\"]"));
    }

    /// The address of a text.
    fn text(&mut self, b: &Builder<'c>, text: &str) -> crate::kernel::Val<'c> {
        let number = self.texts.len();
        let (module, kernel) = (self.module, &self.kernel);
        let global = self.texts.entry(text.to_owned()).or_insert_with(|| {
            let name = format!("{kernel}_text{number}");
            let terminated = format!("{text}\0");
            let ty = module.ty(&format!("!llvm.array<{} x i8>", terminated.len()));
            let value: Attribute<'c> = StringAttribute::new(module.context, &terminated).into();
            module.op(
                "llvm.mlir.global",
                &[],
                &[],
                &[
                    ("sym_name", StringAttribute::new(module.context, &name).into()),
                    ("global_type", TypeAttribute::new(ty).into()),
                    ("linkage", module.attr("#llvm.linkage<internal>")),
                    ("constant", module.unit()),
                    ("addr_space", module.i32_attr(1)),
                    ("value", value),
                ],
                vec![Region::new()],
            );
            name
        });
        let name = b.attr(&format!("@\"{global}\""));
        let at = b.value("llvm.mlir.addressof", &[], b.ty("!llvm.ptr<1>"), &[("global_name", name)]);
        b.value("llvm.addrspacecast", &[at], b.ty("!llvm.ptr"), &[])
    }
}
