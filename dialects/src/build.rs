//! Building IR: one builder for every level, and what bodies of pointwise ops add to it.

mod arith;
mod body;
mod values;

use crate::attr::Attr;
use crate::spec::Violation;
use crate::types::TensorType;
use crate::view::OpView;
pub use body::BodyBuilder;
use melior::Context;
use melior::ir::operation::{Operation, OperationBuilder, OperationLike, OperationRef};
use melior::ir::{Attribute, BlockLike, BlockRef, Identifier, Location, Region, Type, Value, ValueLike};
pub use values::{const_of, definition, element_type, is_vector, lanes, result_of, vector_of, with_element};

/// Appends ops to a block, or inserts them before an op.
#[derive(Clone, Copy)]
pub struct Builder<'c, 'a> {
    /// The context of everything built.
    pub context: &'c Context,
    /// Where ops go.
    pub block: BlockRef<'c, 'a>,
    /// Ops are inserted before this one; at the end of the block where it is `None`.
    pub before: Option<OperationRef<'c, 'a>>,
    /// The location that new ops get.
    pub location: Location<'c>,
}

impl<'c, 'a> Builder<'c, 'a> {
    /// A builder that appends to `block`.
    pub fn at_end(context: &'c Context, block: BlockRef<'c, 'a>, location: Location<'c>) -> Self {
        Self { context, block, before: None, location }
    }

    /// A builder that inserts before `op`, with its location.
    pub fn before(context: &'c Context, op: OperationRef<'c, 'a>) -> Self {
        let block = op.block().expect("an op to insert before is in a block");
        Self { context, block, before: Some(op), location: op.location() }
    }

    /// The same builder with another location.
    pub fn at(self, location: Location<'c>) -> Self {
        Self { location, ..self }
    }

    /// Puts an op that has no place yet there.
    pub fn insert(&self, op: Operation<'c>) -> OperationRef<'c, 'a> {
        match self.before {
            None => self.block.append_operation(op),
            Some(before) => self.block.insert_operation_before(before, op),
        }
    }

    /// Builds an op of any dialect with stated result types. Panics where MLIR refuses to build it, which only a bug of the
    /// caller can cause.
    pub fn op(
        &self,
        name: &str,
        operands: &[Value<'c, 'a>],
        results: &[Type<'c>],
        attributes: &[(&str, Attribute<'c>)],
        regions: Vec<Region<'c>>,
    ) -> OperationRef<'c, 'a> {
        let attributes: Vec<_> =
            attributes.iter().map(|(n, a)| (Identifier::new(self.context, n), *a)).collect();
        let op = OperationBuilder::new(name, self.location)
            .add_operands(operands)
            .add_results(results)
            .add_attributes(&attributes)
            .add_regions_vec(regions)
            .build()
            .unwrap_or_else(|e| panic!("cannot build '{name}': {e}"));
        self.insert(op)
    }

    /// Builds an op with one result and no region.
    pub fn value(
        &self,
        name: &str,
        operands: &[Value<'c, 'a>],
        result: Type<'c>,
        attributes: &[(&str, Attribute<'c>)],
    ) -> Value<'c, 'a> {
        result_of(self.op(name, operands, &[result], attributes, vec![]), 0)
    }

    /// Builds a graph op (name without the dialect) whose result types follow from its operands.
    pub fn graph(
        &self,
        mnemonic: &str,
        operands: &[Value<'c, 'a>],
        attrs: &[(&str, Attr)],
    ) -> Result<Vec<Value<'c, 'a>>, Violation> {
        self.graph_as(mnemonic, operands, attrs, &[])
    }

    /// Builds a graph op with one result.
    pub fn graph1(
        &self,
        mnemonic: &str,
        operands: &[Value<'c, 'a>],
        attrs: &[(&str, Attr)],
    ) -> Result<Value<'c, 'a>, Violation> {
        Ok(self.graph(mnemonic, operands, attrs)?[0])
    }

    /// Builds a graph op that states its result types (`cast`, `broadcast`, `reshape`, `iota`, `call`, …). Every constraint is checked
    /// before anything is built.
    pub fn graph_as(
        &self,
        mnemonic: &str,
        operands: &[Value<'c, 'a>],
        attrs: &[(&str, Attr)],
        results: &[TensorType],
    ) -> Result<Vec<Value<'c, 'a>>, Violation> {
        let name = format!("graph.{mnemonic}");
        let spec = crate::ops::lookup(&name).unwrap_or_else(|| panic!("'{name}' is not in the op table"));
        let bad = |m: String| Violation { constraint: "type", message: m };
        let mut sorted: Vec<_> = attrs.iter().map(|(n, a)| ((*n).to_owned(), a.clone())).collect();
        sorted.sort_by(|a, b| a.0.cmp(&b.0));
        let view = OpView {
            spec,
            operands: operands
                .iter()
                .map(|v| TensorType::from_mlir(v.r#type()))
                .collect::<Result<_, _>>()
                .map_err(bad)?,
            results: results.to_vec(),
            attrs: sorted,
        };
        let inferred = (spec.infer)(&view)?;
        let types =
            inferred.iter().map(|t| t.to_mlir(self.context)).collect::<Result<Vec<_>, _>>().map_err(bad)?;
        let attributes = attrs
            .iter()
            .map(|(n, a)| Some((*n, a.to_mlir(self.context)?)))
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| bad(format!("{name}: an attribute's expression is not affine")))?;
        let op = self.op(&name, operands, &types, &attributes, vec![]);
        Ok(op.results().map(Into::into).collect())
    }

    /// The type of a value as plain data; panics on anything but a graph tensor.
    pub fn tensor_type(&self, v: Value<'c, 'a>) -> TensorType {
        TensorType::from_mlir(v.r#type()).unwrap_or_else(|e| panic!("{e}"))
    }
}
