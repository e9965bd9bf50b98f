//! Reading a tensor-level kernel function as a [`Group`].

use super::constants::{MOST_ELEMENTS, elements_of};
use super::group::{
    Generic, Group, Kind, Node, NodeId, V, argument_number, defined_in, definition, key, value,
};
use crate::driver::pass::Failure;
use crate::ir;
use melior::ir::attribute::{ArrayAttribute, DictionaryAttribute, IntegerAttribute, StringAttribute};
use melior::ir::operation::{OperationLike, OperationRef};
use melior::ir::{AffineExpr, AttributeLike, BlockLike, BlockRef, Type, TypeLike, ValueLike};
use strata_dialects::Attr;
use strata_dialects::affine::dims_of;
use strata_dialects::ops::indexing::ScatterKind;
use strata_dialects::ops::reductions::ReduceKind;
use strata_dialects::types::{DYNAMIC, dtype_of};
use strata_runtime::DType;
use strata_runtime::sym::{Expr, Symbol};

struct Reader<'c> {
    group: Group<'c>,
}

/// Reads a kernel function.
pub fn read<'c>(function: OperationRef<'c, 'c>) -> Result<Group<'c>, Failure> {
    let fail = |m: String| Failure::new(function.location(), m);
    let body = ir::body(&function).ok_or_else(|| fail("the kernel function has no body".into()))?;
    let mut r = Reader { group: Group::default() };
    let attributes = function.attribute("arg_attrs").ok().and_then(|a| ArrayAttribute::try_from(a).ok());
    for i in 0..body.argument_count() {
        let argument = value(body.argument(i).expect("in range"));
        let ty = argument.r#type();
        if ty.is_index() {
            let id = r.group.symbols.len() as u32;
            r.group.sizes.insert(key(argument), Expr::sym(id));
            r.group.symbols.push(symbol(function, id as usize));
            r.group.symbol_arguments.push(argument);
            continue;
        }
        let dims = attributes
            .and_then(|a| a.element(i).ok())
            .and_then(|d| DictionaryAttribute::try_from(d).ok())
            .and_then(|d| d.element_by_name("loop.dims"))
            .and_then(dims_of);
        let (dtype, sizes) = tensor_type(ty).map_err(fail)?;
        let shape =
            match dims {
                Some(dims) if dims.len() == sizes.len() => dims,
                _ => sizes.iter().map(|s| s.map(Expr::from)).collect::<Option<_>>().ok_or_else(|| {
                    fail(format!("operand {i} has dynamic sizes but no attribute loop.dims"))
                })?,
            };
        let kind = Kind::Input(r.group.inputs.len());
        let id = r.node(argument, Node { kind, dtype, shape, location: function.location() });
        r.group.inputs.push(id);
    }
    for op in ir::ops(body) {
        r.op(op)?;
    }
    Ok(r.group)
}

fn symbol(function: OperationRef<'_, '_>, i: usize) -> Symbol {
    let mut s = Symbol::named(format!("s{i}"));
    let entry = function
        .attribute("graph.symbols")
        .ok()
        .and_then(|a| ArrayAttribute::try_from(a).ok())
        .and_then(|a| a.element(i).ok())
        .and_then(|d| DictionaryAttribute::try_from(d).ok());
    let Some(entry) = entry else { return s };
    let int = |n: &str| {
        entry.element_by_name(n).and_then(|a| IntegerAttribute::try_from(a).ok()).map(|a| a.value())
    };
    if let Some(name) = entry.element_by_name("name").and_then(|a| StringAttribute::try_from(a).ok()) {
        s.name = name.value().to_owned();
    }
    s.min = int("min").unwrap_or(0);
    s.max = int("max").unwrap_or(i64::MAX);
    s.divisor = int("divisor").unwrap_or(1);
    s.hint = int("hint");
    s
}

/// Element type and sizes (`None`: dynamic) of a tensor type.
fn tensor_type(ty: Type<'_>) -> Result<(DType, Vec<Option<i64>>), String> {
    if !ty.is_ranked_tensor() {
        return Err(format!("expected a ranked tensor, got '{ty}'"));
    }
    // SAFETY: a ranked tensor type; indices below the rank.
    unsafe {
        let element = Type::from_raw(mlir_sys::mlirShapedTypeGetElementType(ty.to_raw()));
        let rank = mlir_sys::mlirShapedTypeGetRank(ty.to_raw()) as isize;
        let sizes = (0..rank)
            .map(|i| {
                let dynamic = mlir_sys::mlirShapedTypeIsDynamicDim(ty.to_raw(), i);
                (!dynamic).then(|| mlir_sys::mlirShapedTypeGetDimSize(ty.to_raw(), i))
            })
            .collect();
        Ok((dtype_of(element)?, sizes))
    }
}

impl<'c> Reader<'c> {
    fn node(&mut self, v: V<'c>, node: Node<'c>) -> NodeId {
        self.group.nodes.push(node);
        self.group.values.insert(key(v), self.group.nodes.len() - 1);
        self.group.nodes.len() - 1
    }

    fn op(&mut self, op: OperationRef<'c, 'c>) -> Result<(), Failure> {
        let name = ir::name(&op);
        let fail = |m: String| {
            Failure::new(op.location(), format!("{name}: {m}"))
                .next("the tensor level allows what ARCHITECTURE.md lists under 'tensor'")
        };
        let operand = |i: usize| value(op.operand(i).expect("operand"));
        if name == "func.return" {
            self.group.outputs =
                op.operands().map(|v| self.tensor(value(v))).collect::<Result<_, _>>().map_err(fail)?;
            return Ok(());
        }
        let result = value(op.result(0).map_err(|_| fail("has no result".into()))?);
        if !result.r#type().is_ranked_tensor() {
            // Scalars are cloned where they are used; indices are also known as expressions.
            if let Some(e) = self.scalar_expr(op).map_err(fail)? {
                self.group.sizes.insert(key(result), e);
            }
            return Ok(());
        }
        let (dtype, sizes) = tensor_type(result.r#type()).map_err(fail)?;
        let location = op.location();
        let fixed = |shape: Vec<Expr>| -> Vec<Expr> {
            shape.into_iter().zip(&sizes).map(|(e, s)| s.map_or(e, Expr::from)).collect()
        };
        let static_shape = || -> Result<Vec<Expr>, Failure> {
            sizes
                .iter()
                .map(|s| s.map(Expr::from))
                .collect::<Option<_>>()
                .ok_or_else(|| fail("has dynamic sizes".into()))
        };
        let (kind, shape) = match name {
            "arith.constant" => {
                let a = op.attribute("value").map_err(|_| fail("has no value".into()))?;
                let shape = static_shape()?;
                match elements_of(a) {
                    Some(list) if list.is_empty() => (Kind::Empty, shape),
                    Some(list) => (Kind::Constant(list), shape),
                    None => {
                        return Err(fail(format!(
                            "a constant with more than {MOST_ELEMENTS} different elements inside of a kernel"
                        ))
                        .next("keep it outside and pass it as an operand"));
                    }
                }
            }
            "tensor.empty" => {
                let mut dynamic = op.operands();
                let shape = sizes
                    .iter()
                    .map(|s| match s {
                        Some(s) => Ok(Expr::from(*s)),
                        None => self.size(value(dynamic.next().expect("one operand a dynamic size"))),
                    })
                    .collect::<Result<_, _>>()
                    .map_err(fail)?;
                (Kind::Empty, shape)
            }
            "linalg.fill" => {
                let out = self.tensor(operand(1)).map_err(fail)?;
                (Kind::Splat(operand(0)), self.group.nodes[out].shape.clone())
            }
            "linalg.generic" => return self.generic(op),
            "loop.sort" => {
                let source = self.tensor(operand(0)).map_err(fail)?;
                let dim = self.dim(op, source).map_err(fail)?;
                let descending = match op.attribute("descending").ok().and_then(Attr::from_mlir) {
                    Some(Attr::Bool(b)) => b,
                    _ => return Err(fail("has no direction".into())),
                };
                let shape = fixed(self.group.nodes[source].shape.clone());
                for (part, dtype) in [dtype, DType::I64].into_iter().enumerate() {
                    let unsigned = op.has_attribute("natural");
                    let kind = Kind::Sort { source, dim, descending, unsigned, part };
                    let result = value(op.result(part).expect("two results"));
                    self.node(result, Node { kind, dtype, shape: shape.clone(), location });
                }
                return Ok(());
            }
            "tensor.extract_slice" => {
                let source = self.tensor(operand(0)).map_err(fail)?;
                let mut next = 1;
                let mut list = |n: &str| self.mixed(op, n, &mut next);
                let offsets = list("static_offsets").map_err(fail)?;
                let shape = list("static_sizes").map_err(fail)?;
                let strides = list("static_strides").map_err(fail)?;
                if shape.len() != sizes.len() {
                    return Err(fail(
                        "rank-reducing slices are not supported; collapse the shape in an op of its own"
                            .into(),
                    ));
                }
                (Kind::Slice(source, offsets, strides), shape)
            }
            "tensor.pad" => {
                let source = self.tensor(operand(0)).map_err(fail)?;
                let mut next = 1;
                let low = self.mixed(op, "static_low", &mut next).map_err(fail)?;
                let high = self.mixed(op, "static_high", &mut next).map_err(fail)?;
                let shape = self.group.nodes[source].shape.clone();
                let shape = shape
                    .into_iter()
                    .zip(low.iter().zip(high))
                    .map(|(s, (l, h))| s + l.clone() + h)
                    .collect();
                let body = ir::body(&op).ok_or_else(|| fail("has no body".into()))?;
                let padding = body.terminator().and_then(|t| t.operand(0).ok()).map(value);
                let padding = padding.filter(|&v| !is_argument_of(v, body) && !defined_in(v, body));
                let padding = match padding {
                    Some(v) => v,
                    None => constant_padding(body).ok_or_else(|| {
                        fail("the padding is not one scalar from outside of the region".into())
                    })?,
                };
                (Kind::Pad(source, low, padding), fixed(shape))
            }
            "tensor.concat" => {
                let parts: Vec<_> =
                    op.operands().map(|v| self.tensor(value(v))).collect::<Result<_, _>>().map_err(fail)?;
                let dim = op.attribute("dim").ok().and_then(|a| IntegerAttribute::try_from(a).ok());
                let dim = dim.ok_or_else(|| fail("has no attribute dim".into()))?.value() as usize;
                let mut shape = self.group.nodes[parts[0]].shape.clone();
                shape[dim] = parts.iter().map(|&p| self.group.nodes[p].shape[dim].clone()).sum();
                (Kind::Concat(parts, dim), fixed(shape))
            }
            "tensor.expand_shape" => {
                let source = self.tensor(operand(0)).map_err(fail)?;
                let mut next = 1;
                let shape = self.mixed(op, "static_output_shape", &mut next).map_err(fail)?;
                (Kind::Reshape(source), shape)
            }
            "tensor.collapse_shape" => {
                let source = self.tensor(operand(0)).map_err(fail)?;
                let groups =
                    op.attribute("reassociation").ok().and_then(|a| ArrayAttribute::try_from(a).ok());
                let groups = groups.ok_or_else(|| fail("has no reassociation".into()))?;
                let mut shape = Vec::new();
                for i in 0..groups.len() {
                    let group = groups.element(i).ok().and_then(|a| ArrayAttribute::try_from(a).ok());
                    let group = group.ok_or_else(|| fail("has a malformed reassociation".into()))?;
                    let mut size = Expr::from(1);
                    for k in 0..group.len() {
                        let d = group.element(k).ok().and_then(|a| IntegerAttribute::try_from(a).ok());
                        let d =
                            d.ok_or_else(|| fail("has a malformed reassociation".into()))?.value() as usize;
                        size = size * self.group.nodes[source].shape[d].clone();
                    }
                    shape.push(size);
                }
                (Kind::Reshape(source), fixed(shape))
            }
            "loop.scatter" => {
                let [updates, dest, indices] = [0, 1, 2].map(|i| self.tensor(operand(i)).map_err(fail));
                let (updates, dest, indices) = (updates?, dest?, indices?);
                let kind = ScatterKind::from_case(integer(op, "kind").map_err(fail)? as i32);
                let kind = kind.ok_or_else(|| fail("has a kind that is not known".into()))?;
                let dim = self.dim(op, dest).map_err(fail)?;
                let shape = self.group.nodes[dest].shape.clone();
                let in_bounds = op.has_attribute("in_bounds");
                (Kind::Scatter { kind, dest, indices, updates, dim, in_bounds }, fixed(shape))
            }
            "loop.scan" => {
                let source = self.tensor(operand(0)).map_err(fail)?;
                let kinds = [ReduceKind::Sum, ReduceKind::Prod, ReduceKind::Max, ReduceKind::Min];
                let kind = kinds.get(integer(op, "kind").map_err(fail)? as usize);
                let kind = *kind.ok_or_else(|| fail("combines in a way that scans do not have".into()))?;
                let dim = self.dim(op, source).map_err(fail)?;
                let shape = self.group.nodes[source].shape.clone();
                (Kind::Scan { source, kind, dim }, fixed(shape))
            }
            _ => return Err(fail("is not an op of the tensor level".into())),
        };
        self.node(result, Node { kind, dtype, shape, location });
        Ok(())
    }

    fn generic(&mut self, op: OperationRef<'c, 'c>) -> Result<(), Failure> {
        let fail = |m: &str| Failure::new(op.location(), format!("linalg.generic: {m}"));
        let array = |n: &str| op.attribute(n).ok().and_then(|a| ArrayAttribute::try_from(a).ok());
        let maps = array("indexing_maps").ok_or_else(|| fail("has no indexing maps"))?;
        let iterators = array("iterator_types").ok_or_else(|| fail("has no iterator types"))?;
        let reduction: Vec<bool> = (0..iterators.len())
            .map(|i| iterators.element(i).is_ok_and(|a| a.to_string().contains("reduction")))
            .collect();
        let mut parsed = Vec::new();
        for i in 0..maps.len() {
            let map = maps.element(i).expect("in range");
            // SAFETY: an affine map attribute, by the op's verifier.
            let map =
                unsafe { melior::ir::AffineMap::from_raw(mlir_sys::mlirAffineMapAttrGetValue(map.to_raw())) };
            let results = (0..map.result_count())
                .map(|r| map_expr(map.result(r).ok()?))
                .collect::<Option<Vec<_>>>()
                .ok_or_else(|| fail("an indexing map has symbols"))?;
            parsed.push(results);
        }
        let operands = op
            .operands()
            .map(|v| self.tensor(value(v)))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|m| fail(&m))?;
        let inputs = operands.len() - op.result_count();
        let mut sizes = vec![None; reduction.len()];
        for (&node, map) in operands.iter().zip(&parsed) {
            for (r, e) in map.iter().enumerate() {
                if let Some(d) = e.as_sym() {
                    sizes[d.0 as usize].get_or_insert_with(|| self.group.nodes[node].shape[r].clone());
                }
            }
        }
        let sizes = sizes
            .into_iter()
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| fail("the size of a loop does not follow from an operand; add an operand with it as a plain dimension"))?;
        let body = ir::body(&op).ok_or_else(|| fail("has no body"))?;
        // SAFETY: the module outlives emission.
        let body = unsafe { BlockRef::from_raw(body.to_raw()) };
        let combine =
            (op.result_count() == 1 && reduction.contains(&true)).then(|| combine(body, inputs)).flatten();
        let id = self.group.generics.len();
        for r in 0..op.result_count() {
            let result = value(op.result(r).expect("in range"));
            let (dtype, _) = tensor_type(result.r#type()).map_err(|m| fail(&m))?;
            let shape = self.group.nodes[operands[inputs + r]].shape.clone();
            self.node(result, Node { kind: Kind::Generic(id, r), dtype, shape, location: op.location() });
        }
        self.group.generics.push(Generic { sizes, reduction, operands, maps: parsed, inputs, body, combine });
        Ok(())
    }

    /// The attribute `dim`, as a dimension of a node.
    fn dim(&self, op: OperationRef<'c, 'c>, of: NodeId) -> Result<usize, String> {
        let d = integer(op, "dim")?;
        let rank = self.group.nodes[of].shape.len();
        usize::try_from(d).ok().filter(|&d| d < rank).ok_or_else(|| format!("dimension {d} of {rank}"))
    }

    fn tensor(&self, v: V<'c>) -> Result<NodeId, String> {
        self.group.values.get(&key(v)).copied().ok_or_else(|| format!("'{v}' is not a tensor of this kernel"))
    }

    fn size(&self, v: V<'c>) -> Result<Expr, String> {
        self.group
            .sizes
            .get(&key(v))
            .cloned()
            .ok_or_else(|| format!("the size '{v}' is not an expression of the kernel's symbols"))
    }

    /// A list of static and dynamic sizes; `next` is the first operand of its dynamic part.
    fn mixed(&self, op: OperationRef<'c, 'c>, name: &str, next: &mut usize) -> Result<Vec<Expr>, String> {
        let list = op.attribute(name).map_err(|_| format!("has no attribute {name}"))?;
        // SAFETY: a dense array of i64, by the op's definition.
        let values: Vec<i64> = unsafe {
            (0..mlir_sys::mlirDenseArrayGetNumElements(list.to_raw()))
                .map(|i| mlir_sys::mlirDenseI64ArrayGetElement(list.to_raw(), i))
                .collect()
        };
        values
            .into_iter()
            .map(|v| {
                if v as u64 != DYNAMIC {
                    return Ok(Expr::from(v));
                }
                *next += 1;
                self.size(value(op.operand(*next - 1).map_err(|e| e.to_string())?))
            })
            .collect()
    }

    /// The value of a scalar op as an expression of the symbols, where it is an index that has one.
    fn scalar_expr(&self, op: OperationRef<'c, 'c>) -> Result<Option<Expr>, String> {
        let operand =
            |i: usize| op.operand(i).ok().and_then(|v| self.group.sizes.get(&key(value(v))).cloned());
        let two = || operand(0).zip(operand(1));
        Ok(match ir::name(&op) {
            "arith.constant" => {
                let is_index = op.result(0).is_ok_and(|r| r.r#type().is_index());
                let a = op.attribute("value").ok().and_then(|a| IntegerAttribute::try_from(a).ok());
                a.filter(|_| is_index).map(|a| a.value().into())
            }
            "arith.addi" => two().map(|(a, b)| a + b),
            "arith.subi" => two().map(|(a, b)| a - b),
            "arith.muli" => two().map(|(a, b)| a * b),
            "arith.divui" | "arith.divsi" | "arith.floordivsi" => two().map(|(a, b)| a.floor_div(&b)),
            "arith.ceildivui" | "arith.ceildivsi" => two().map(|(a, b)| a.ceil_div(&b)),
            "arith.remui" | "arith.remsi" => two().map(|(a, b)| a.modulo(&b)),
            "arith.minsi" | "arith.minui" => two().map(|(a, b)| a.minimum(&b)),
            "arith.maxsi" | "arith.maxui" => two().map(|(a, b)| a.maximum(&b)),
            "tensor.dim" => {
                let node = self.tensor(value(op.operand(0).expect("operand")))?;
                operand(1)
                    .and_then(|d| d.as_const())
                    .and_then(|d| self.group.nodes[node].shape.get(d as usize).cloned())
            }
            "affine.apply" => {
                let map = op.attribute("map").map_err(|_| "has no map".to_owned())?;
                // SAFETY: an affine map attribute, by the op's definition.
                let map = unsafe {
                    melior::ir::AffineMap::from_raw(mlir_sys::mlirAffineMapAttrGetValue(map.to_raw()))
                };
                let arguments: Option<Vec<Expr>> = (0..op.operand_count()).map(operand).collect();
                let (Some(arguments), Ok(e)) = (arguments, map.result(0)) else { return Ok(None) };
                affine_expr(e, map.dim_count()).map(|e| e.substitute(&|s| arguments[s.0 as usize].clone()))
            }
            _ => None,
        })
    }
}

fn integer(op: OperationRef<'_, '_>, name: &str) -> Result<i64, String> {
    let a = op.attribute(name).ok().and_then(|a| IntegerAttribute::try_from(a).ok());
    a.map(|a| a.value()).ok_or_else(|| format!("has no number {name}"))
}

/// A result of an indexing map; symbol `d` stands for loop `d`.
fn map_expr(e: AffineExpr<'_>) -> Option<Expr> {
    affine_expr(e, usize::MAX)
}

/// An affine expression; dimensions come first, symbols after `dims` of them.
fn affine_expr(e: AffineExpr<'_>, dims: usize) -> Option<Expr> {
    if e.is_constant() {
        return Some(e.constant_value().into());
    }
    if e.is_dim() {
        return Some(Expr::sym(e.dim_position() as u32));
    }
    if e.is_symbol() {
        return dims.checked_add(e.symbol_position()).map(|s| Expr::sym(s as u32));
    }
    let (a, b) = (affine_expr(e.lhs(), dims)?, affine_expr(e.rhs(), dims)?);
    Some(match () {
        () if e.is_add() => a + b,
        () if e.is_mul() => a * b,
        () if e.is_floor_div() => a.floor_div(&b),
        () if e.is_ceil_div() => a.ceil_div(&b),
        () => a.modulo(&b),
    })
}

fn is_argument_of(v: V<'_>, block: BlockRef<'_, '_>) -> bool {
    argument_number(v, block).is_some()
}

/// The constant that a padding region yields, when it is defined inside.
fn constant_padding<'c>(body: BlockRef<'c, '_>) -> Option<V<'c>> {
    let v = value(body.terminator()?.operand(0).ok()?);
    let op = definition(v)?;
    (ir::name(&op) == "arith.constant").then_some(v)
}

/// Ops that combine two elements, in any order.
const COMBINERS: &[&str] = &[
    "arith.addf",
    "arith.addi",
    "arith.mulf",
    "arith.muli",
    "arith.maximumf",
    "arith.minimumf",
    "arith.maxsi",
    "arith.minsi",
    "arith.andi",
    "arith.ori",
];

fn combine<'c>(body: BlockRef<'c, 'c>, inputs: usize) -> Option<(OperationRef<'c, 'c>, V<'c>)> {
    let accumulator = value(body.argument(inputs).ok()?);
    let op = definition(value(body.terminator()?.operand(0).ok()?))?;
    if !COMBINERS.contains(&ir::name(&op)) {
        return None;
    }
    let (a, b) = (value(op.operand(0).ok()?), value(op.operand(1).ok()?));
    let other = if a == accumulator { b } else { a };
    if (a == accumulator) == (b == accumulator) {
        return None;
    }
    // SAFETY: a live value.
    let uses = unsafe {
        let first = mlir_sys::mlirValueGetFirstUse(accumulator.to_raw());
        (first, mlir_sys::mlirOpOperandGetNextUse(first))
    };
    uses.1.ptr.is_null().then_some((op, other))
}
