//! Writes the function as graph-dialect IR.

use super::diagnostic::{Diagnostic, Result};
use super::emit::{self, Emit};
use super::tensor::Tensor;
use super::{Model, importer};
use melior::Context;
use melior::ir::attribute::{StringAttribute, TypeAttribute};
use melior::ir::operation::{OperationLike, OperationRef};
use melior::ir::r#type::FunctionType;
use melior::ir::{
    Attribute, AttributeLike, Block, BlockLike, BlockRef, Location, Module, Region, RegionLike, Type, Value,
    ValueLike,
};
use std::collections::BTreeMap;
use std::fmt::Write;
use strata_dialects::attr::dense_from_bytes;
use strata_dialects::{Attr, Builder, TensorType};
use strata_runtime::sym::{Atom, Expr, Symbol};

/// Reads a model into a module with one public function, named after the graph.
pub fn to_module<'c>(context: &'c Context, model: &Model) -> Result<Module<'c>> {
    let module = Module::new(Location::unknown(context));
    importer::import(model, &mut GraphWriter::new(context, &module))?;
    Ok(module)
}

/// A function under construction at the end of a module.
struct GraphWriter<'c, 'a> {
    context: &'c Context,
    module: BlockRef<'c, 'a>,
    open: Option<(OperationRef<'c, 'a>, BlockRef<'c, 'a>)>,
    values: Vec<Value<'c, 'a>>,
    sizes: Sizes,
}

/// Sizes as the dialect holds them: affine, with a symbol of its own for what is not.
#[derive(Default)]
struct Sizes {
    symbols: Vec<Symbol>,
    /// Products, minima and maxima that have a symbol.
    defined: BTreeMap<Vec<Atom>, u32>,
    definitions: Vec<String>,
}

impl Sizes {
    fn affine(&mut self, e: &Expr) -> Expr {
        e.terms().map(|(atoms, c)| Expr::from(c) * self.affine_term(atoms)).sum()
    }

    fn affine_term(&mut self, atoms: &[Atom]) -> Expr {
        match atoms {
            [] => return Expr::from(1),
            [Atom::Sym(s)] => return (*s).into(),
            [Atom::FloorDiv(a, b)] if b.as_const().is_some() => return self.affine(a).floor_div(b),
            [Atom::Mod(a, b)] if b.as_const().is_some() => return self.affine(a).modulo(b),
            _ => {}
        }
        let next = (self.symbols.len() + self.definitions.len()) as u32;
        Expr::sym(*self.defined.entry(atoms.to_vec()).or_insert_with(|| {
            let factors: Vec<String> = atoms
                .iter()
                .map(|a| match a {
                    Atom::FloorDiv(..) | Atom::Mod(..) if atoms.len() > 1 => format!("({a})"),
                    _ => a.to_string(),
                })
                .collect();
            self.definitions.push(factors.join(" * "));
            next
        }))
    }

    fn ty(&mut self, ty: &TensorType) -> TensorType {
        TensorType { dtype: ty.dtype, shape: ty.shape.iter().map(|e| self.affine(e)).collect() }
    }

    /// The text of the function's attribute `graph.symbols`.
    fn attribute(&self) -> String {
        let mut rows = Vec::new();
        for s in &self.symbols {
            let mut row = format!("name = {}", quoted(&s.name));
            if s.min != 0 {
                let _ = write!(row, ", min = {}", s.min);
            }
            if s.max != i64::MAX {
                let _ = write!(row, ", max = {}", s.max);
            }
            rows.push(format!("{{{row}}}"));
        }
        for (i, definition) in self.definitions.iter().enumerate() {
            let mut name = format!("s{}", self.symbols.len() + i);
            while self.symbols.iter().any(|s| s.name == name) {
                name.push('_');
            }
            rows.push(format!("{{name = {}, def = {}}}", quoted(&name), quoted(definition)));
        }
        format!("[{}]", rows.join(", "))
    }
}

/// A string literal of MLIR.
fn quoted(s: &str) -> String {
    let mut out = String::from("\"");
    for b in s.bytes() {
        if (b.is_ascii_graphic() || b == b' ') && b != b'"' && b != b'\\' {
            out.push(b.into());
        } else {
            let _ = write!(out, "\\{b:02X}");
        }
    }
    out.push('"');
    out
}

/// The number of an enumeration's case.
pub(super) fn case(op: &str, keyword: &str) -> Option<i32> {
    let cases: &[&str] = match op {
        "compare" => &["eq", "ne", "lt", "le", "gt", "ge"],
        "reduce" | "reduce_window" => &["sum", "max", "min", "prod", "any", "all"],
        "arg_reduce" => &["max", "min"],
        _ => &[],
    };
    cases.iter().position(|&c| c == keyword).map(|i| i as i32)
}

impl<'c, 'a> GraphWriter<'c, 'a> {
    fn new(context: &'c Context, module: &'a Module<'c>) -> Self {
        Self { context, module: module.body(), open: None, values: Vec::new(), sizes: Sizes::default() }
    }

    fn builder(&self, at: &str) -> Result<Builder<'c, 'a>> {
        let (_, block) = self.open.ok_or_else(|| Diagnostic::new("the function was not begun"))?;
        let location = Location::name(self.context, at, Location::unknown(self.context));
        Ok(Builder::at_end(self.context, block, location))
    }

    fn mlir_type(&mut self, ty: &TensorType) -> Result<Type<'c>> {
        self.sizes.ty(ty).to_mlir(self.context).map_err(Diagnostic::new)
    }

    fn push(&mut self, value: Value<'c, 'a>) -> emit::Value {
        self.values.push(value);
        emit::Value(self.values.len() as u32 - 1)
    }

    fn names(&self, names: impl Iterator<Item = String>) -> Result<Attribute<'c>> {
        let rows: Vec<String> = names.map(|n| format!("{{graph.name = {}}}", quoted(&n))).collect();
        self.parse(&format!("[{}]", rows.join(", ")))
    }

    fn parse(&self, text: &str) -> Result<Attribute<'c>> {
        Attribute::parse(self.context, text)
            .ok_or_else(|| Diagnostic::new(format!("cannot write the attribute {text}")))
    }
}

impl Emit for GraphWriter<'_, '_> {
    fn begin(
        &mut self,
        name: &str,
        symbols: &[Symbol],
        arguments: &[(String, TensorType)],
    ) -> Result<Vec<emit::Value>> {
        self.sizes.symbols = symbols.to_vec();
        let location = Location::unknown(self.context);
        let types = arguments.iter().map(|(_, ty)| self.mlir_type(ty)).collect::<Result<Vec<_>>>()?;
        let entry: Vec<_> = types.iter().map(|&t| (t, location)).collect();
        let region = Region::new();
        region.append_block(Block::new(&entry));
        let attributes = [
            ("sym_name", StringAttribute::new(self.context, name).into()),
            ("function_type", TypeAttribute::new(FunctionType::new(self.context, &types, &[]).into()).into()),
            ("arg_attrs", self.names(arguments.iter().map(|(n, _)| n.clone()))?),
        ];
        let module = Builder::at_end(self.context, self.module, location);
        let function = module.op("func.func", &[], &[], &attributes, vec![region]);
        // SAFETY: the op has the region and block that it was just built with, and the module keeps it.
        let block: BlockRef<'_, '_> = unsafe {
            BlockRef::from_raw(mlir_sys::mlirRegionGetFirstBlock(mlir_sys::mlirOperationGetRegion(
                function.to_raw(),
                0,
            )))
        };
        self.open = Some((function, block));
        let mut out = Vec::new();
        for i in 0..arguments.len() {
            let argument = block.argument(i).map_err(|e| Diagnostic::new(e.to_string()))?;
            out.push(self.push(argument.into()));
        }
        Ok(out)
    }

    fn constant(&mut self, tensor: &Tensor, at: &str) -> Result<emit::Value> {
        let ty = self.mlir_type(&TensorType::new(tensor.dtype, tensor.shape.iter().copied()))?;
        let elements = dense_from_bytes(self.context, ty, tensor.dtype, &tensor.bytes);
        let value = self.builder(at)?.value("graph.constant", &[], ty, &[("value", elements)]);
        Ok(self.push(value))
    }

    fn op(
        &mut self,
        name: &'static str,
        operands: &[emit::Value],
        attributes: &[(&'static str, emit::Attr)],
        result: &TensorType,
        at: &str,
    ) -> Result<emit::Value> {
        let mut converted = Vec::new();
        for (key, attribute) in attributes {
            let attribute = match attribute {
                emit::Attr::Int(i) => Attr::Int(*i),
                emit::Attr::Ints(v) => Attr::Ints(v.clone()),
                emit::Attr::Float(x) => Attr::Float(*x),
                emit::Attr::Bool(b) => Attr::Bool(*b),
                emit::Attr::Text(t) => Attr::Str((*t).to_owned()),
                emit::Attr::Keyword(k) => Attr::Enum(
                    case(name, k)
                        .ok_or_else(|| Diagnostic::new(format!("graph.{name} has no {key} '{k}'")))?,
                ),
                emit::Attr::Dims(v) => Attr::Dims(v.iter().map(|e| self.sizes.affine(e)).collect()),
            };
            converted.push((*key, attribute));
        }
        let operands: Vec<Value<'_, '_>> = operands.iter().map(|v| self.values[v.0 as usize]).collect();
        let stated = self.sizes.ty(result);
        let inferred = self
            .builder(at)?
            .graph_as(name, &operands, &converted, std::slice::from_ref(&stated))
            .map_err(|v| Diagnostic::new(format!("graph.{name}: {} ({})", v.message, v.constraint)))?;
        let [value] = inferred[..] else {
            return Err(Diagnostic::new(format!("graph.{name} has several results")));
        };
        let found = TensorType::from_mlir(value.r#type()).map_err(Diagnostic::new)?;
        if found != stated {
            // The two inferences disagree: a bug, better met here than in a kernel.
            return Err(Diagnostic::new(format!(
                "graph.{name} gives {found}, the importer expected {stated}"
            ))
            .help("please report this model's node"));
        }
        Ok(self.push(value))
    }

    fn finish(&mut self, symbols: &[Symbol], results: &[(String, emit::Value)]) -> Result<()> {
        self.sizes.symbols = symbols.to_vec();
        let (function, block) = self.open.ok_or_else(|| Diagnostic::new("the function was not begun"))?;
        let values: Vec<Value<'_, '_>> = results.iter().map(|(_, v)| self.values[v.0 as usize]).collect();
        self.builder("return")?.op("func.return", &values, &[], &[], vec![]);
        let arguments: Vec<Type<'_>> =
            (0..block.argument_count()).filter_map(|i| Some(block.argument(i).ok()?.r#type())).collect();
        let types: Vec<Type<'_>> = values.iter().map(|v| v.r#type()).collect();
        let ty = FunctionType::new(self.context, &arguments, &types);
        let mut attributes = vec![
            ("function_type", TypeAttribute::new(ty.into()).into()),
            ("res_attrs", self.names(results.iter().map(|(n, _)| n.clone()))?),
        ];
        if !self.sizes.symbols.is_empty() || !self.sizes.definitions.is_empty() {
            attributes.push(("graph.symbols", self.parse(&self.sizes.attribute())?));
        }
        for (name, attribute) in attributes {
            let attribute: Attribute<'_> = attribute;
            // SAFETY: the function lives in the module; the name is copied.
            unsafe {
                let name = melior::StringRef::new(name);
                mlir_sys::mlirOperationSetAttributeByName(
                    function.to_raw(),
                    name.to_raw(),
                    attribute.to_raw(),
                );
            }
        }
        if !function.verify() {
            return Err(
                Diagnostic::new("the imported function does not verify").help("please report this model")
            );
        }
        Ok(())
    }
}
