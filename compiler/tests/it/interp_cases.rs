//! Random functions of one graph op each, for every op of the table: what the levels are compared on.

use melior::Context;
use melior::ir::attribute::{ArrayAttribute, StringAttribute, TypeAttribute};
use melior::ir::operation::OperationLike;
use melior::ir::r#type::FunctionType;
use melior::ir::{Attribute, Block, BlockLike, BlockRef, Location, Module, Region, RegionLike, Type, Value};
use strata_dialects::build::Builder;
use strata_dialects::reference::{RefTensor, Rounding, Scalar};
use strata_dialects::spec::Violation;
use strata_dialects::{Attr, TensorType};
use strata_runtime::DType;
use strata_runtime::sym::Expr;
use strata_runtime::tensor::SplitMix64;

/// Random choices.
pub struct Gen(SplitMix64);

impl Gen {
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    /// A number in `0..n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.0.next_u64() >> 20) as usize % n.max(1)
    }

    pub fn chance(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }

    /// A size: a small number, now and then 0, or one of the symbols s0 and s1.
    fn size(&mut self) -> Expr {
        match self.below(10) {
            0 => Expr::from(if self.chance(3) { 0 } else { 1 }),
            1 | 2 => Expr::sym(0),
            3 => Expr::sym(1),
            4 => Expr::sym(0) + Expr::from(1),
            n => Expr::from(n as i64 - 4),
        }
    }

    /// A size that is a number above 0.
    pub fn number(&mut self) -> Expr {
        Expr::from(1 + self.below(4))
    }

    fn shape(&mut self, max_rank: usize) -> Vec<Expr> {
        (0..self.below(max_rank + 1)).map(|_| self.size()).collect()
    }

    /// A shape with at least one dimension.
    fn some_shape(&mut self, max_rank: usize) -> Vec<Expr> {
        let mut s = self.shape(max_rank - 1);
        s.push(self.size());
        s
    }
}

/// An op on operands of these types.
pub struct Case {
    pub op: &'static str,
    pub operands: Vec<TensorType>,
    pub attrs: Vec<(&'static str, Attr)>,
    /// For ops that state their result.
    pub result: Option<TensorType>,
}

fn ints(v: impl IntoIterator<Item = usize>) -> Attr {
    Attr::Ints(v.into_iter().map(|x| x as i64).collect())
}

fn t(dtype: DType, shape: &[Expr]) -> TensorType {
    TensorType { dtype, shape: shape.to_vec() }
}

/// A random case of an op, or `None` where the op has none on this element type (or is covered elsewhere: calls).
pub fn case(op: &'static str, dtype: DType, g: &mut Gen) -> Option<Case> {
    let case = |operands, attrs, result| Some(Case { op, operands, attrs, result });
    let float = dtype.is_float();
    match op {
        "graph.call" | "graph.custom_call" | "graph.constant" => None,
        "graph.iota" if !dtype.is_number() => None,
        "graph.iota" => {
            let s = g.some_shape(3);
            case(vec![], vec![("dim", Attr::Int(g.below(s.len()) as i64))], Some(t(dtype, &s)))
        }
        "graph.dim" if !matches!(dtype, DType::I64 | DType::I32) => None,
        "graph.dim" => {
            let e = Expr::sym(0) * Expr::from(2) + Expr::sym(1).floor_div(&Expr::from(2));
            case(vec![], vec![("expr", Attr::Dims(vec![e]))], Some(t(dtype, &[])))
        }
        "graph.cast" => {
            let s = g.shape(3);
            let to = DType::ALL[g.below(DType::ALL.len())];
            case(vec![t(dtype, &s)], vec![], Some(t(to, &s)))
        }
        "graph.bitcast" => {
            let fits =
                |d: &DType| *d == dtype || *d != DType::I1 && dtype != DType::I1 && d.size() == dtype.size();
            let same: Vec<DType> = DType::ALL.into_iter().filter(fits).collect();
            let to = same[g.below(same.len())];
            let s = g.shape(3);
            case(vec![t(dtype, &s)], vec![], Some(t(to, &s)))
        }
        "graph.polynomial" => {
            let c = (0..1 + g.below(5)).map(|_| g.below(9) as f64 / 4.0 - 1.0).collect();
            case(vec![t(dtype, &g.shape(3))], vec![("coefficients", Attr::Floats(c))], None)
        }
        "graph.compare" => {
            let s = g.shape(3);
            case(vec![t(dtype, &s); 2], vec![("direction", Attr::Enum(g.below(6) as i32))], None)
        }
        "graph.select" => {
            let s = g.shape(3);
            case(vec![t(DType::I1, &s), t(dtype, &s), t(dtype, &s)], vec![], None)
        }
        "graph.broadcast" => {
            let s = g.shape(4);
            let dims: Vec<usize> = (0..s.len()).filter(|_| !g.chance(3)).collect();
            let from: Vec<Expr> =
                dims.iter().map(|&d| if g.chance(3) { Expr::from(1) } else { s[d].clone() }).collect();
            case(vec![t(dtype, &from)], vec![("dims", ints(dims))], Some(t(dtype, &s)))
        }
        "graph.reshape" => {
            let (from, to) = reshape(g);
            case(vec![t(dtype, &from)], vec![], Some(t(dtype, &to)))
        }
        "graph.transpose" => {
            let s = g.shape(4);
            let mut p: Vec<usize> = (0..s.len()).collect();
            for i in (1..p.len()).rev() {
                p.swap(i, g.below(i + 1));
            }
            case(vec![t(dtype, &s)], vec![("permutation", ints(p))], None)
        }
        "graph.slice" => {
            let s: Vec<Expr> = (0..g.below(4)).map(|_| g.size() + Expr::from(2)).collect();
            let starts: Vec<Expr> = s.iter().map(|_| Expr::from(g.below(2))).collect();
            let limits: Vec<Expr> =
                s.iter().map(|n| if g.chance(3) { Expr::from(2) } else { n.clone() }).collect();
            let strides = ints(s.iter().map(|_| 1 + g.below(3)));
            let attrs =
                vec![("starts", Attr::Dims(starts)), ("limits", Attr::Dims(limits)), ("strides", strides)];
            case(vec![t(dtype, &s)], attrs, None)
        }
        "graph.pad" => {
            let s: Vec<Expr> = (0..g.below(4)).map(|_| g.size() + Expr::from(3)).collect();
            let number = |n: i64| Expr::from(n);
            let (low, high): (Vec<Expr>, Vec<Expr>) = s
                .iter()
                .map(|n| match g.below(7) {
                    0 => (number(-1), number(-1)),
                    1 => (Expr::sym(0), number(-1)),
                    2 => (number(1), number(2) - n.clone()),
                    3 => (number(2) - n.clone(), number(1)),
                    4 => (number(-1), Expr::sym(0)),
                    k => (number(k as i64 - 5), number(1)),
                })
                .unzip();
            case(
                vec![t(dtype, &s), t(dtype, &[])],
                vec![("low", Attr::Dims(low)), ("high", Attr::Dims(high))],
                None,
            )
        }
        "graph.concat" => {
            let s = g.some_shape(3);
            let dim = g.below(s.len());
            let operands = (0..1 + g.below(3))
                .map(|_| {
                    let mut s = s.clone();
                    s[dim] = g.size();
                    t(dtype, &s)
                })
                .collect();
            case(operands, vec![("dim", Attr::Int(dim as i64))], None)
        }
        "graph.reduce" | "graph.reduce_window" => {
            let kinds: &[i32] = match dtype {
                DType::I1 => &[4, 5],
                d if d.is_float() => &[0, 1, 2, 3],
                _ => &[0, 1, 2, 3, 4, 5],
            };
            let kind = ("kind", Attr::Enum(kinds[g.below(kinds.len())]));
            if op == "graph.reduce" {
                let s = g.shape(4);
                let dims = (0..s.len()).filter(|_| g.chance(2)).collect::<Vec<_>>();
                return case(vec![t(dtype, &s)], vec![kind, ("dims", ints(dims))], None);
            }
            let s: Vec<Expr> = (0..1 + g.below(3)).map(|_| g.size() + Expr::from(3)).collect();
            let mut list = |low: usize, n: usize| ints(s.iter().map(|_| low + g.below(n)));
            let attrs = vec![
                kind,
                ("window", list(1, 2)),
                ("strides", list(1, 3)),
                ("low", list(0, 2)),
                ("high", list(0, 3)),
                ("dilation", list(1, 2)),
            ];
            case(vec![t(dtype, &s)], attrs, None)
        }
        "graph.arg_reduce" => {
            let mut s = g.shape(3);
            let dim = g.below(s.len() + 1);
            s.insert(dim, Expr::sym(0) + g.number());
            let attrs = vec![("kind", Attr::Enum(g.below(2) as i32)), ("dim", Attr::Int(dim as i64))];
            case(vec![t(dtype, &s)], attrs, None)
        }
        "graph.dot_general" if dtype == DType::I1 => None,
        "graph.linear" if !float => None,
        "graph.dot_general" | "graph.linear" => {
            let (b, c) = (g.shape(2), g.shape(2));
            let (l, mut r) = (g.shape(1), g.shape(1));
            if op == "graph.linear" && r.is_empty() {
                r.push(g.size());
            }
            // Batch in front; contracting dimensions last in lhs, before the free ones in rhs.
            let lhs = [b.as_slice(), &l, &c].concat();
            let rhs = [b.as_slice(), &c, &r].concat();
            let attrs = vec![
                ("lhs_batch", ints(0..b.len())),
                ("rhs_batch", ints(0..b.len())),
                ("lhs_contracting", ints(b.len() + l.len()..lhs.len())),
                ("rhs_contracting", ints(b.len()..b.len() + c.len())),
            ];
            let mut operands = vec![t(dtype, &lhs), t(dtype, &rhs)];
            if op == "graph.linear" {
                operands.push(t(dtype, &r));
            }
            case(operands, attrs, None)
        }
        "graph.convolution" if !float => None,
        "graph.convolution" => {
            let spatial = 1 + g.below(2);
            let groups = 1 + g.below(2);
            let (per, out) = (1 + g.below(2), 1 + g.below(2));
            let mut x = vec![g.size(), Expr::from(groups * per)];
            let mut w = vec![Expr::from(groups * out), Expr::from(per)];
            for _ in 0..spatial {
                x.push(g.size() + Expr::from(3));
                w.push(Expr::from(1 + g.below(2)));
            }
            let mut list = |low: usize, n: usize| ints((0..spatial).map(|_| low + g.below(n)));
            let attrs = vec![
                ("strides", list(1, 2)),
                ("low", list(0, 2)),
                ("high", list(0, 2)),
                ("dilation", list(1, 2)),
                ("groups", Attr::Int(groups as i64)),
            ];
            case(vec![t(dtype, &x), t(dtype, &w)], attrs, None)
        }
        "graph.gather" => {
            let mut s = g.shape(2);
            let dim = g.below(s.len() + 1);
            s.insert(dim, Expr::sym(0) + g.number());
            let indices = t(if g.chance(2) { DType::I32 } else { DType::I64 }, &g.shape(2));
            case(vec![t(dtype, &s), indices], vec![("dim", Attr::Int(dim as i64))], None)
        }
        "graph.scatter" => {
            let mut s = g.shape(2);
            let dim = g.below(s.len() + 1);
            s.insert(dim, Expr::sym(0) + g.number());
            let picked = g.shape(2);
            let updates = [&s[..dim], &picked, &s[dim + 1..]].concat();
            let indices = t(if g.chance(2) { DType::I32 } else { DType::I64 }, &picked);
            let kind = if !dtype.is_number() { 0 } else { g.below(5) as i32 };
            let attrs = vec![("kind", Attr::Enum(kind)), ("dim", Attr::Int(dim as i64))];
            case(vec![t(dtype, &s), indices, t(dtype, &updates)], attrs, None)
        }
        "graph.check_index" if !matches!(dtype, DType::I64 | DType::I32) => None,
        "graph.check_index" => {
            let s = g.shape(3);
            // Random integers are -9 to 9: inside, counted from the end.
            let size = Expr::sym(0) + Expr::from(9 + g.below(3));
            let attrs = vec![
                ("size", Attr::Dims(vec![size])),
                ("wrap", Attr::Bool(true)),
                ("message", Attr::Str("an index is out of range".into())),
            ];
            case(vec![t(dtype, &s)], attrs, None)
        }
        "graph.scan" if !dtype.is_number() => None,
        "graph.scan" => {
            let s = g.some_shape(3);
            let dim = g.below(s.len());
            let attrs = vec![("kind", Attr::Enum(g.below(4) as i32)), ("dim", Attr::Int(dim as i64))];
            case(vec![t(dtype, &s)], attrs, None)
        }
        "graph.sort" if dtype.is_float8() => None,
        "graph.sort" => {
            let s = g.some_shape(3);
            let dim = g.below(s.len());
            let attrs = vec![("dim", Attr::Int(dim as i64)), ("descending", Attr::Bool(g.chance(2)))];
            case(vec![t(dtype, &s)], attrs, None)
        }
        "graph.softmax" | "graph.layer_norm" | "graph.attention" if !float => None,
        "graph.softmax" => {
            let s = g.some_shape(3);
            case(vec![t(dtype, &s)], vec![("dim", Attr::Int(g.below(s.len()) as i64))], None)
        }
        "graph.layer_norm" => {
            let mut s = g.shape(2);
            s.extend([g.number(), Expr::sym(0) + g.number()]);
            let n = 1 + g.below(2);
            let affine = t(dtype, &s[s.len() - n..]);
            let mut operands = vec![t(dtype, &s)];
            operands.extend(vec![affine; g.below(3)]);
            case(operands, vec![("dims", Attr::Int(n as i64)), ("epsilon", Attr::Float(1e-5))], None)
        }
        "graph.attention" => {
            let b = g.shape(2);
            let (q, k, w, v) = (g.number(), Expr::sym(0) + g.number(), g.number(), g.number());
            let with = |a: &Expr, c: &Expr| t(dtype, &[b.as_slice(), &[a.clone(), c.clone()]].concat());
            let mut operands = vec![with(&q, &w), with(&k, &w), with(&k, &v)];
            if g.chance(2) {
                operands.push(with(&q, &k));
            }
            case(operands, vec![("scale", Attr::Float(0.5)), ("causal", Attr::Bool(g.chance(2)))], None)
        }
        // What is left is pointwise with operands of one type.
        _ => {
            let s = g.shape(3);
            let binary = [
                "add",
                "and",
                "atan2",
                "copysign",
                "div",
                "max",
                "min",
                "mul",
                "or",
                "pow",
                "rem",
                "shift_left",
                "shift_right",
                "sub",
                "xor",
            ]
            .contains(&&op[6..]);
            case(vec![t(dtype, &s); if binary { 2 } else { 1 }], vec![], None)
        }
    }
}

/// Two shapes with equally many elements.
fn reshape(g: &mut Gen) -> (Vec<Expr>, Vec<Expr>) {
    let factors = g.shape(4);
    let split = |g: &mut Gen| {
        let mut out: Vec<Expr> = vec![];
        for f in &factors {
            // Only numbers join: a product of symbols needs a symbol of its own.
            match out.last_mut() {
                Some(last) if g.chance(2) && (f.as_const().is_some() || last.as_const().is_some()) => {
                    *last = last.clone() * f.clone();
                }
                _ => out.push(f.clone()),
            }
            if g.chance(4) {
                out.push(Expr::from(1));
            }
        }
        out
    };
    (split(g), split(g))
}

/// A module with one function `@f` that applies `build` to arguments of these types. Symbols: s0 in 1..=6, s1 a multiple of 2.
pub fn module<'c>(
    context: &'c Context,
    arguments: &[TensorType],
    build: impl for<'a> FnOnce(&Builder<'c, 'a>, &[Value<'c, 'a>]) -> Result<Vec<Value<'c, 'a>>, Violation>,
) -> Result<Module<'c>, Violation> {
    let location = Location::new(context, "case.py", 7, 3);
    let bad = |message: String| Violation { constraint: "type", message };
    let types: Vec<Type<'c>> =
        arguments.iter().map(|a| a.to_mlir(context)).collect::<Result<_, _>>().map_err(bad)?;
    let region = Region::new();
    let block = region.append_block(Block::new(&types.iter().map(|t| (*t, location)).collect::<Vec<_>>()));
    let results: Vec<Type<'c>> = {
        // SAFETY: the block lives in the region until the function takes both.
        let block: BlockRef<'c, '_> = unsafe { BlockRef::from_raw(block.to_raw()) };
        let b = Builder::at_end(context, block, location);
        let values: Vec<Value<'c, '_>> =
            (0..types.len()).map(|i| block.argument(i).expect("in range").into()).collect();
        let out = build(&b, &values)?;
        b.op("func.return", &out, &[], &[], vec![]);
        use melior::ir::ValueLike;
        out.iter().map(|v| v.r#type()).collect()
    };
    let entry = |name: &str, rest: &str| -> Attribute<'c> {
        Attribute::parse(context, &format!("{{name = \"{name}\"{rest}}}")).expect("valid attribute")
    };
    let symbols = [entry("batch", ", min = 1, max = 6"), entry("length", ", min = 0, max = 8, divisor = 2")];
    let module = Module::new(location);
    Builder::at_end(context, module.body(), location).op(
        "func.func",
        &[],
        &[],
        &[
            ("sym_name", StringAttribute::new(context, "f").into()),
            ("function_type", TypeAttribute::new(FunctionType::new(context, &types, &results).into()).into()),
            ("graph.symbols", ArrayAttribute::new(context, &symbols).into()),
        ],
        vec![region],
    );
    assert!(module.as_operation().verify(), "the case does not verify:\n{}", module.as_operation());
    Ok(module)
}

/// The module of a case.
pub fn module_of<'c>(context: &'c Context, case: &Case) -> Result<Module<'c>, Violation> {
    module(context, &case.operands, |b, x| {
        let results: Vec<TensorType> = case.result.iter().cloned().collect();
        b.graph_as(&case.op[6..], x, &case.attrs, &results)
    })
}

/// A random tensor of the type for these values of the symbols, with some special values among floats.
pub fn special(ty: &TensorType, symbols: &[i64], seed: u64) -> RefTensor {
    let shape: Vec<usize> = ty.shape.iter().map(|e| e.eval(symbols).expect("bound") as usize).collect();
    let base = strata_compiler::interp::inputs::random_tensor(ty.dtype, &shape, seed);
    if !ty.dtype.is_float() {
        return base;
    }
    let mut g = Gen::new(seed ^ 77);
    RefTensor::generate(ty.dtype, &shape, Rounding::Exact, |i| match g.below(24) {
        0 => Scalar::F(f64::NAN),
        1 => Scalar::F(f64::INFINITY),
        2 => Scalar::F(f64::NEG_INFINITY),
        3 => Scalar::F(-0.0),
        4 => Scalar::F(3e4),
        _ => base.get(i),
    })
}
