//! A node as the translations see it: attributes by name and type.

use super::diagnostic::{Diagnostic, Result, fail};
use super::proto::attribute_proto::AttributeType;
use super::proto::{AttributeProto, NodeProto, TensorProto};

/// A node of the graph, with its operator set's version.
pub struct Node<'a> {
    /// As it is in the file.
    pub proto: &'a NodeProto,
    /// The version of the default operator set.
    pub opset: i64,
    /// The node's name, or its operator and place in the file.
    pub name: String,
}

impl<'a> Node<'a> {
    /// The `index`-th node of a graph.
    pub fn new(proto: &'a NodeProto, index: usize, opset: i64) -> Self {
        let name = match proto.name() {
            "" => format!("{}#{index}", proto.op_type()),
            name => name.to_owned(),
        };
        Self { proto, opset, name }
    }

    /// The operator's name.
    pub fn op(&self) -> &'a str {
        self.proto.op_type()
    }

    /// What a diagnostic calls the node.
    pub fn place(&self) -> String {
        format!("node '{}' ({}, opset {})", self.name, self.op(), self.opset)
    }

    /// Whether the `i`-th input is given.
    pub fn has_input(&self, i: usize) -> bool {
        self.proto.input.get(i).is_some_and(|n| !n.is_empty())
    }

    /// Whether anything may use the `i`-th output.
    pub fn has_output(&self, i: usize) -> bool {
        self.proto.output.get(i).is_some_and(|n| !n.is_empty())
    }

    fn attribute(&self, name: &str, kind: AttributeType) -> Result<Option<&'a AttributeProto>> {
        let Some(attribute) = self.proto.attribute.iter().find(|a| a.name() == name) else { return Ok(None) };
        if !attribute.ref_attr_name().is_empty() {
            fail!("attribute '{name}' refers to an attribute of a function");
        }
        // Files of the first format version may leave the type out.
        if attribute.r#type() != kind && attribute.r#type() != AttributeType::Undefined {
            fail!("attribute '{name}' is {}, not {}", attribute.r#type().as_str_name(), kind.as_str_name());
        }
        Ok(Some(attribute))
    }

    /// Whether the attribute is there, of whatever type.
    pub fn has(&self, name: &str) -> bool {
        self.proto.attribute.iter().any(|a| a.name() == name)
    }

    /// An integer attribute.
    pub fn int(&self, name: &str) -> Result<Option<i64>> {
        Ok(self.attribute(name, AttributeType::Int)?.map(|a| a.i()))
    }

    /// An integer attribute with its default.
    pub fn int_or(&self, name: &str, default: i64) -> Result<i64> {
        Ok(self.int(name)?.unwrap_or(default))
    }

    /// A 0/1 attribute with its default.
    pub fn flag(&self, name: &str, default: bool) -> Result<bool> {
        Ok(self.int(name)?.map_or(default, |i| i != 0))
    }

    /// A float attribute with its default.
    pub fn float_or(&self, name: &str, default: f32) -> Result<f64> {
        Ok(self.attribute(name, AttributeType::Float)?.map_or(default, |a| a.f()).into())
    }

    /// A float attribute.
    pub fn float(&self, name: &str) -> Result<Option<f64>> {
        Ok(self.attribute(name, AttributeType::Float)?.map(|a| a.f().into()))
    }

    /// A list of integers.
    pub fn ints(&self, name: &str) -> Result<Option<&'a [i64]>> {
        Ok(self.attribute(name, AttributeType::Ints)?.map(|a| a.ints.as_slice()))
    }

    /// A list of floats.
    pub fn floats(&self, name: &str) -> Result<Option<&'a [f32]>> {
        Ok(self.attribute(name, AttributeType::Floats)?.map(|a| a.floats.as_slice()))
    }

    /// A string with its default.
    pub fn string_or(&self, name: &str, default: &'static str) -> Result<&'a str> {
        match self.attribute(name, AttributeType::String)? {
            None => Ok(default),
            Some(a) => std::str::from_utf8(a.s())
                .map_err(|_| Diagnostic::new(format!("attribute '{name}' is not UTF-8 text"))),
        }
    }

    /// A tensor.
    pub fn tensor(&self, name: &str) -> Result<Option<&'a TensorProto>> {
        match self.attribute(name, AttributeType::Tensor)? {
            None => Ok(None),
            Some(a) => match &a.t {
                Some(t) => Ok(Some(t)),
                None => fail!("attribute '{name}' holds no tensor"),
            },
        }
    }
}
