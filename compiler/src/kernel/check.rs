//! `loop.check_index` on the way to LLVM: what both back ends make of it, and where the checks of a kernel are listed.

use crate::driver::pass::Failure;
use crate::kernel::{Builder, Val, kept};
use melior::ir::attribute::{ArrayAttribute, StringAttribute};
use melior::ir::operation::{OperationLike, OperationRef};
use melior::ir::{Attribute, Block, Region, RegionLike, ValueLike};
use strata_dialects::Attr;
use strata_dialects::build::{element_type, is_vector, with_element};
use strata_dialects::scalar::cmpi;
use strata_runtime::plan::Check;

/// The attribute that lists a kernel's checks: message and location, one after the other.
pub const CHECKS: &str = "loop.checks";

/// An index under check.
pub struct Checked<'c> {
    /// The index, counted from the front; 64 bits.
    pub index: Val<'c>,
    /// Whether it is outside, lane by lane.
    pub outside: Val<'c>,
    /// Whether any lane is.
    pub any: Val<'c>,
}

/// Compares an index with its bounds, in 64 bits whatever it has: none may come in by being cut.
pub fn compare<'c>(
    b: &Builder<'c>,
    op: OperationRef<'c, '_>,
    index: Val<'c>,
    size: Val<'c>,
) -> Result<Checked<'c>, Failure> {
    let Some(Attr::Bool(wrap)) = op.attribute("wrap").ok().and_then(Attr::from_mlir) else {
        return Err(Failure::new(op.location(), "loop.check_index without 'wrap'"));
    };
    let long = with_element(index.r#type(), b.ty("i64"));
    let mut index = match element_type(index.r#type()) {
        t if t == b.ty("i64") => index,
        t if t == b.ty("index") => b.value("arith.index_cast", &[index], long, &[]),
        _ => b.value("arith.extsi", &[index], long, &[]),
    };
    let mut size = b.value("arith.index_cast", &[size], b.ty("i64"), &[]);
    if is_vector(long) {
        size = b.value("vector.broadcast", &[size], long, &[]);
    }
    if wrap {
        let negative = b.compare("arith.cmpi", cmpi::SLT, index, b.int(0, long));
        let counted = b.value("arith.addi", &[index, size], long, &[]);
        index = b.select(negative, counted, index);
    }
    // Without a sign what is negative is large.
    let outside = b.compare("arith.cmpi", UGE, index, size);
    let any = if is_vector(long) {
        b.value("vector.reduction", &[outside], b.ty("i1"), &[("kind", b.attr("#vector.kind<or>"))])
    } else {
        outside
    };
    Ok(Checked { index, outside, any })
}

/// MLIR's number of the unsigned `>=`.
const UGE: i64 = 9;

/// A checked index in the type that it had.
pub fn narrow<'c>(b: &Builder<'c>, index: Val<'c>, like: Val<'c>) -> Val<'c> {
    let ty = like.r#type();
    match element_type(ty) {
        t if t == b.ty("i64") => index,
        t if t == b.ty("index") => b.value("arith.index_cast", &[index], ty, &[]),
        _ => b.value("arith.trunci", &[index], ty, &[]),
    }
}

/// `scf.if` around what happens where a check fails.
pub fn when<'c>(b: &Builder<'c>, condition: Val<'c>, fill: impl FnOnce(&Builder<'c>)) {
    let region = Region::new();
    let block = kept(region.append_block(Block::new(&[])));
    b.op("scf.if", &[condition], &[], &[], vec![region, Region::new()]);
    let inside = Builder::at_end(b.context, block, b.location);
    fill(&inside);
    inside.op("scf.yield", &[], &[], &[], vec![]);
}

/// What an op checks, for people.
pub fn text(op: OperationRef<'_, '_>) -> Check {
    let message = match op.attribute("message").ok().and_then(Attr::from_mlir) {
        Some(Attr::Str(m)) => m,
        _ => String::new(),
    };
    let location = match crate::ir::location_text(op.location()) {
        l if l == "unknown" => String::new(),
        l => l,
    };
    Check { message, location }
}

/// The attribute [`CHECKS`].
pub fn to_attribute<'c>(b: &Builder<'c>, checks: &[Check]) -> Attribute<'c> {
    let texts = checks.iter().flat_map(|c| [&c.message, &c.location]);
    let list: Vec<Attribute<'c>> = texts.map(|t| StringAttribute::new(b.context, t).into()).collect();
    ArrayAttribute::new(b.context, &list).into()
}

/// The checks that a kernel lists.
pub fn of(kernel: OperationRef<'_, '_>) -> Vec<Check> {
    let Some(list) = kernel.attribute(CHECKS).ok().and_then(|a| ArrayAttribute::try_from(a).ok()) else {
        return vec![];
    };
    let text = |i: usize| match list.element(i).ok().and_then(Attr::from_mlir) {
        Some(Attr::Str(s)) => s,
        _ => String::new(),
    };
    (0..list.len() / 2).map(|i| Check { message: text(2 * i), location: text(2 * i + 1) }).collect()
}
