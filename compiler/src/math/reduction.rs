//! `vector.reduction` as scalar ops in a stated order: the accumulator first, then the elements from the first to the last; as a
//! balanced tree where the op may reassociate. Left to LLVM, the order of a target would decide.

use super::Emit;
use crate::kernel::Val;
use melior::ir::operation::{OperationLike, OperationRef};
use melior::ir::{Type, ValueLike};
use strata_dialects::build::{element_type, lanes};

/// The reduced value; `None` for kinds that only LLVM knows.
pub fn reduction<'c>(e: &Emit<'c>, op: OperationRef<'c, 'c>) -> Option<Val<'c>> {
    let kind = op.attribute("kind").ok()?.to_string();
    let kind = kind.trim_start_matches("#vector.kind<").trim_end_matches('>').to_owned();
    let source = op.operand(0).ok()?;
    let element: Type<'c> = element_type(source.r#type());
    let float = element.to_string().starts_with(['f', 'b']);
    let combine = match (kind.as_str(), float) {
        ("add", true) => "arith.addf",
        ("mul", true) => "arith.mulf",
        ("add", false) => "arith.addi",
        ("mul", false) => "arith.muli",
        ("and", _) => "arith.andi",
        ("or", _) => "arith.ori",
        ("xor", _) => "arith.xori",
        ("maximumf", _) => "arith.maximumf",
        ("minimumf", _) => "arith.minimumf",
        ("maxnumf", _) => "arith.maxnumf",
        ("minnumf", _) => "arith.minnumf",
        ("maxsi", _) => "arith.maxsi",
        ("minsi", _) => "arith.minsi",
        ("maxui", _) => "arith.maxui",
        ("minui", _) => "arith.minui",
        _ => return None,
    };
    let fastmath = op.attribute("fastmath").ok().filter(|_| float);
    let tree = !float
        || fastmath.is_some_and(|f| f.to_string().contains("reassoc") || f.to_string().contains("fast>"));
    let attributes: Vec<_> = fastmath.map(|f| ("fastmath", f)).into_iter().collect();
    let join = |a: Val<'c>, b: Val<'c>| e.b.value(combine, &[a, b], element, &attributes);
    let mut parts: Vec<Val<'c>> = (0..lanes(source.r#type()))
        .map(|i| {
            let position = e.b.attr(&format!("array<i64: {i}>"));
            e.b.value("vector.extract", &[source], element, &[("static_position", position)])
        })
        .collect();
    if let Ok(accumulator) = op.operand(1) {
        if !tree {
            parts.insert(0, accumulator);
            return parts.into_iter().reduce(join);
        }
        let all = balanced(parts, &join)?;
        return Some(join(accumulator, all));
    }
    if tree { balanced(parts, &join) } else { parts.into_iter().reduce(join) }
}

fn balanced<'c>(mut parts: Vec<Val<'c>>, join: &impl Fn(Val<'c>, Val<'c>) -> Val<'c>) -> Option<Val<'c>> {
    while parts.len() > 1 {
        parts = parts.chunks(2).map(|pair| if let [a, b] = *pair { join(a, b) } else { pair[0] }).collect();
    }
    parts.pop()
}
