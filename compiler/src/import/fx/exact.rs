//! Strict numerics: which functions have last bits of their own in PyTorch.

use super::model::Node;

/// Functions that PyTorch computes by its own libraries of vector functions, whose roundings no other code repeats (its square root of
/// contiguous memory is off by a unit now and then), or with products that its compiler joins to sums.
const FUNCTIONS: &[&str] = &[
    "aten.acos",
    "aten.acosh",
    "aten.addcdiv",
    "aten.addcmul",
    "aten.asin",
    "aten.asinh",
    "aten.atan",
    "aten.atan2",
    "aten.atanh",
    "aten.cos",
    "aten.cosh",
    "aten.digamma",
    "aten.elu",
    "aten.erf",
    "aten.erfc",
    "aten.erfinv",
    "aten.exp",
    "aten.exp2",
    "aten.expm1",
    "aten.gelu",
    "aten.hardsigmoid",
    "aten.hardswish",
    "aten.hypot",
    "aten.i0",
    "aten.ldexp",
    "aten.lerp",
    "aten.lgamma",
    "aten.log",
    "aten.log10",
    "aten.log1p",
    "aten.log2",
    "aten.mish",
    "aten.polygamma",
    "aten.sigmoid",
    "aten.silu",
    "aten.sin",
    "aten.sinh",
    "aten.softplus",
    "aten.sqrt",
    "aten.tan",
    "aten.tanh",
];

/// Why a node is left to PyTorch in strict numerics, if it is.
pub fn left_to_pytorch(n: &Node) -> Option<&'static str> {
    // Powers that are products, roots or quotients are rounded as PyTorch's are.
    const ROUNDED: [f64; 8] = [0.0, 0.5, 1.0, 2.0, 3.0, -0.5, -1.0, -2.0];
    let power = || !n.float("exponent").is_ok_and(|e| ROUNDED.contains(&e));
    let float = n.out.iter().flatten().any(|m| m.dtype.is_float());
    let own = match n.base() {
        "aten.pow" => float && power(),
        // The product and the sum are rounded together.
        "aten.add" | "aten.sub" | "aten.rsub" => {
            float && n.has("alpha") && !n.float("alpha").is_ok_and(|a| a == 1.0)
        }
        base => FUNCTIONS.binary_search(&base).is_ok() || base.starts_with("aten.special_"),
    };
    own.then_some("strict numerics keeps the last bits of PyTorch's function")
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_list_is_sorted() {
        assert!(super::FUNCTIONS.is_sorted());
    }
}
