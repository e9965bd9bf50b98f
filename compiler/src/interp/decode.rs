//! From MLIR ops to [`ScalarOp`]s: names, predicates, constants, types.

use super::affine::Affine;
use super::scalar::{Cell, Function, ScalarOp, Sign, maximum, minimum, signed, unsigned, width};
use crate::ir::name;
use melior::ir::attribute::{FloatAttribute, IntegerAttribute};
use melior::ir::operation::{OperationLike, OperationRef};
use melior::ir::{Attribute, AttributeLike, Type, TypeLike, ValueLike};
use strata_dialects::Attr;
use strata_dialects::reference::{RefTensor, Rounding};
use strata_dialects::types::dtype_of;
use strata_runtime::DType;

/// The element type of a scalar, a vector, a tensor or a memref (of scalars or vectors); `index` counts as `i64`.
pub(super) fn element_of(ty: Type<'_>) -> Result<DType, String> {
    // SAFETY: queries on a valid type.
    let scalar = unsafe {
        let mut raw = ty.to_raw();
        while mlir_sys::mlirTypeIsAShaped(raw) {
            raw = mlir_sys::mlirShapedTypeGetElementType(raw);
        }
        Type::from_raw(raw)
    };
    if scalar.is_index() { Ok(DType::I64) } else { dtype_of(scalar) }
}

/// Elements of a vector; 1 for a scalar. An error names a type that is neither.
pub(super) fn lanes_of(ty: Type<'_>) -> Result<usize, String> {
    if !ty.is_vector() {
        return if ty.is_index() || dtype_of(ty).is_ok() {
            Ok(1)
        } else {
            Err(format!("a value of type '{ty}'"))
        };
    }
    // SAFETY: a vector type; its rank bounds the indices.
    unsafe {
        let raw = ty.to_raw();
        match mlir_sys::mlirShapedTypeGetRank(raw) {
            0 => Ok(1),
            1 if !mlir_sys::mlirVectorTypeIsScalable(raw) => {
                Ok(mlir_sys::mlirShapedTypeGetDimSize(raw, 0) as usize)
            }
            _ => Err(format!("a vector of type '{ty}'; vectors have one dimension here")),
        }
    }
}

/// The lanes of an `arith.constant` (or `index.constant`) of scalar or vector type.
pub(super) fn constant(attribute: Attribute<'_>) -> Result<Vec<Cell>, String> {
    if let Ok(f) = FloatAttribute::try_from(attribute) {
        return Ok(vec![Cell::of_f(f.value())]);
    }
    if let Ok(i) = IntegerAttribute::try_from(attribute) {
        let dtype = element_of(attribute.r#type())?;
        return Ok(vec![Cell::of_i(dtype.wrap(i.value()))]);
    }
    let Some(Attr::Elements(e)) = Attr::from_mlir(attribute) else {
        return Err(format!("a constant '{attribute}'"));
    };
    let ty = attribute.r#type();
    let (dtype, n) = (element_of(ty)?, lanes_of(ty)?);
    let (bytes, splat) = e.bytes().ok_or("a constant whose elements cannot be read")?;
    let t = RefTensor::from_bytes(dtype, &[n], &bytes, splat)?;
    Ok((0..n).map(|i| Cell::of(t.get(i))).collect())
}

/// The results of an op's affine map attribute.
pub(super) fn affine_attribute(op: &OperationRef<'_, '_>, key: &str) -> Result<Vec<Affine>, String> {
    let a = op.attribute(key).map_err(|_| format!("an op without its map '{key}'"))?;
    // SAFETY: the kind is asked first.
    unsafe {
        if !mlir_sys::mlirAttributeIsAAffineMap(a.to_raw()) {
            return Err(format!("'{key}' is not an affine map"));
        }
        Ok(Affine::of_map(mlir_sys::mlirAffineMapAttrGetValue(a.to_raw())))
    }
}

fn predicate(op: &OperationRef<'_, '_>) -> Result<u8, String> {
    let a = op.attribute("predicate").map_err(|e| e.to_string())?;
    IntegerAttribute::try_from(a).map(|i| i.value() as u8).map_err(|e| e.to_string())
}

/// `index.cmp predicate(slt)`: the same numbers as `arith.cmpi`.
fn index_predicate(op: &OperationRef<'_, '_>) -> Result<u8, String> {
    let text = op.attribute("pred").map_err(|e| e.to_string())?.to_string();
    let names = ["eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"];
    names
        .iter()
        .position(|n| text.contains(&format!("({n})")) || text.contains(&format!(" {n}>")))
        .map(|i| i as u8)
        .ok_or_else(|| format!("a predicate '{text}'"))
}

fn divide(a: i64, b: i64, d: DType, f: fn(i64, i64) -> Option<i64>) -> Option<i64> {
    let (a, b) = (signed(a, d), signed(b, d));
    // The most negative number by -1 leaves the type.
    if b == -1 && a == i64::MIN >> (64 - width(d)) {
        return None;
    }
    f(a, b)
}

fn shift(b: i64, d: DType) -> Option<u32> {
    // A shift by the width or more gives poison: any value will do, as long as it is always the same.
    (0..width(d)).contains(&b).then_some(b as u32)
}

/// Decodes an op of `arith`, `math`, `index`, or `affine`. `None`: not such an op (or a constant). An error names what is not supported.
pub(super) fn decode(op: &OperationRef<'_, '_>, rounding: Rounding) -> Result<Option<ScalarOp>, String> {
    let full = name(op);
    let Some((dialect, mnemonic)) = full.split_once('.') else { return Ok(None) };
    let function = match dialect {
        "arith" => match arith(op, mnemonic)? {
            Some(f) => f,
            None => return Ok(None),
        },
        "math" => math(mnemonic).ok_or_else(|| format!("'{full}'"))?,
        "index" => match mnemonic {
            "constant" | "bool.constant" => return Ok(None),
            "cmp" => Function::CompareInt(index_predicate(op)?),
            _ => index(mnemonic).ok_or_else(|| format!("'{full}'"))?,
        },
        "affine" => match mnemonic {
            "apply" => Function::Apply(affine_attribute(op, "map")?, false),
            "min" => Function::Apply(affine_attribute(op, "map")?, false),
            "max" => Function::Apply(affine_attribute(op, "map")?, true),
            _ => return Ok(None),
        },
        _ => return Ok(None),
    };
    let operand = |i: usize| op.operand(i).map(|v| v.r#type()).map_err(|e| e.to_string());
    let to = element_of(op.result(0).map_err(|e| e.to_string())?.r#type())?;
    let from = match (&function, op.operand_count()) {
        (_, 0) => to,
        (Function::Select, _) => element_of(operand(1)?)?,
        _ => element_of(operand(0)?)?,
    };
    Ok(Some(ScalarOp { function, from, to, round: rounding == Rounding::Exact && to.is_float() }))
}

fn arith(op: &OperationRef<'_, '_>, mnemonic: &str) -> Result<Option<Function>, String> {
    use Function::*;
    Ok(Some(match mnemonic {
        "constant" => return Ok(None),
        "addf" => Float2(|a, b| a + b),
        "subf" => Float2(|a, b| a - b),
        "mulf" => Float2(|a, b| a * b),
        "divf" => Float2(|a, b| a / b),
        "remf" => Float2(|a, b| a % b),
        "negf" => Float1(|a| -a),
        "maximumf" => Float2(maximum),
        "minimumf" => Float2(minimum),
        "maxnumf" => Float2(f64::max),
        "minnumf" => Float2(f64::min),
        "cmpf" => CompareFloat(predicate(op)?),
        "cmpi" => CompareInt(predicate(op)?),
        "select" => Select,
        "extf" | "truncf" => Round,
        "extsi" => Extend(Sign::Signed),
        "extui" => Extend(Sign::Unsigned),
        "trunci" => Wrap,
        "index_cast" => Extend(Sign::Signed),
        "index_castui" => Extend(Sign::Unsigned),
        "sitofp" => IntToFloat(Sign::Signed),
        "uitofp" => IntToFloat(Sign::Unsigned),
        "fptosi" => FloatToInt(Sign::Signed),
        "fptoui" => FloatToInt(Sign::Unsigned),
        "bitcast" => Bitcast,
        other => Int2(integer(other).ok_or_else(|| format!("'arith.{other}'"))?),
    }))
}

type Integer = fn(i64, i64, DType) -> Option<i64>;

/// Integer ops with two operands by their name in `arith`.
fn integer(mnemonic: &str) -> Option<Integer> {
    Some(match mnemonic {
        "addi" => |a, b, _| Some(a.wrapping_add(b)),
        "subi" => |a, b, _| Some(a.wrapping_sub(b)),
        "muli" => |a, b, _| Some(a.wrapping_mul(b)),
        "divsi" => |a, b, d| divide(a, b, d, i64::checked_div),
        "remsi" => |a, b, d| divide(a, b, d, i64::checked_rem),
        "floordivsi" => |a, b, d| {
            divide(a, b, d, |a, b| {
                let q = a.checked_div(b)?;
                Some(if a % b != 0 && (a < 0) != (b < 0) { q - 1 } else { q })
            })
        },
        "ceildivsi" => |a, b, d| {
            divide(a, b, d, |a, b| {
                let q = a.checked_div(b)?;
                Some(if a % b != 0 && (a < 0) == (b < 0) { q + 1 } else { q })
            })
        },
        "divui" => |a, b, d| unsigned(a, d).checked_div(unsigned(b, d)).map(|q| q as i64),
        "remui" => |a, b, d| unsigned(a, d).checked_rem(unsigned(b, d)).map(|q| q as i64),
        "ceildivui" => |a, b, d| {
            let b = unsigned(b, d);
            (b != 0).then(|| unsigned(a, d).div_ceil(b) as i64)
        },
        "andi" => |a, b, _| Some(a & b),
        "ori" => |a, b, _| Some(a | b),
        "xori" => |a, b, _| Some(a ^ b),
        "maxsi" => |a, b, d| Some(if signed(a, d) >= signed(b, d) { a } else { b }),
        "minsi" => |a, b, d| Some(if signed(a, d) <= signed(b, d) { a } else { b }),
        "maxui" => |a, b, d| Some(if unsigned(a, d) >= unsigned(b, d) { a } else { b }),
        "minui" => |a, b, d| Some(if unsigned(a, d) <= unsigned(b, d) { a } else { b }),
        "shli" => |a, b, d| Some(shift(b, d).map_or(0, |s| a.wrapping_shl(s))),
        "shrsi" => |a, b, d| Some(shift(b, d).map_or(0, |s| signed(a, d) >> s)),
        "shrui" => |a, b, d| Some(shift(b, d).map_or(0, |s| (unsigned(a, d) >> s) as i64)),
        _ => return None,
    })
}

fn index(mnemonic: &str) -> Option<Function> {
    let arith = match mnemonic {
        "add" => "addi",
        "sub" => "subi",
        "mul" => "muli",
        "divs" => "divsi",
        "divu" => "divui",
        "rems" => "remsi",
        "remu" => "remui",
        "floordivs" => "floordivsi",
        "ceildivs" => "ceildivsi",
        "ceildivu" => "ceildivui",
        "maxs" => "maxsi",
        "mins" => "minsi",
        "maxu" => "maxui",
        "minu" => "minui",
        "and" => "andi",
        "or" => "ori",
        "xor" => "xori",
        "shl" => "shli",
        "shrs" => "shrsi",
        "shru" => "shrui",
        "casts" => return Some(Function::Extend(Sign::Signed)),
        "castu" => return Some(Function::Extend(Sign::Unsigned)),
        _ => return None,
    };
    integer(arith).map(Function::Int2)
}

/// Errors of these functions against the true value are far below an ulp of f32; in f64 they are those of the host's library.
fn math(mnemonic: &str) -> Option<Function> {
    use Function::*;
    Some(match mnemonic {
        "absf" => Float1(f64::abs),
        "ceil" => Float1(f64::ceil),
        "floor" => Float1(f64::floor),
        "trunc" => Float1(f64::trunc),
        "round" => Float1(f64::round),
        "roundeven" => Float1(f64::round_ties_even),
        "cos" => Float1(f64::cos),
        "sin" => Float1(f64::sin),
        "tan" => Float1(f64::tan),
        "acos" => Float1(f64::acos),
        "asin" => Float1(f64::asin),
        "atan" => Float1(f64::atan),
        "atan2" => Float2(f64::atan2),
        "cosh" => Float1(f64::cosh),
        "sinh" => Float1(f64::sinh),
        "tanh" => Float1(f64::tanh),
        "cbrt" => Float1(f64::cbrt),
        "copysign" => Float2(f64::copysign),
        "erf" => Float1(strata_dialects::scalar::erf),
        "exp" => Float1(f64::exp),
        "exp2" => Float1(f64::exp2),
        "expm1" => Float1(f64::exp_m1),
        "log" => Float1(f64::ln),
        "log2" => Float1(f64::log2),
        "log10" => Float1(f64::log10),
        "log1p" => Float1(f64::ln_1p),
        "rsqrt" => Float1(|x| 1.0 / x.sqrt()),
        "sqrt" => Float1(f64::sqrt),
        "powf" => Float2(f64::powf),
        "fpowi" => FloatInt(|x, n| x.powi(n.clamp(i32::MIN.into(), i32::MAX.into()) as i32)),
        "fma" => Fma,
        "absi" => Int1(|a, d| signed(a, d).wrapping_abs()),
        "ctpop" => Int1(|a, d| i64::from(unsigned(a, d).count_ones())),
        "ctlz" => Int1(|a, d| i64::from(unsigned(a, d).leading_zeros()) - (64 - width(d))),
        "cttz" => Int1(|a, d| i64::from(unsigned(a, d).trailing_zeros()).min(width(d))),
        "ipowi" => Int2(|a, b, d| Some(strata_dialects::scalar::int_pow(signed(a, d), signed(b, d)))),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divisions() {
        let f = |n: &str, a, b, d| integer(n).expect("known")(a, b, d);
        assert_eq!(f("floordivsi", -7, 2, DType::I32), Some(-4));
        assert_eq!(f("ceildivsi", 7, 2, DType::I32), Some(4));
        assert_eq!(f("ceildivsi", -7, 2, DType::I32), Some(-3));
        assert_eq!(f("divsi", 1, 0, DType::I64), None);
        assert_eq!(f("divsi", i64::from(i32::MIN), -1, DType::I32), None);
        assert_eq!(f("divsi", -128, -1, DType::I8), None);
        assert_eq!(f("divsi", i64::MIN, -1, DType::I64), None);
        assert_eq!(f("divui", -1, 2, DType::I8), Some(127));
        assert_eq!(f("shrui", -1, 4, DType::I8), Some(15));
        assert_eq!(f("shli", 1, 40, DType::I32), Some(0));
    }
}
