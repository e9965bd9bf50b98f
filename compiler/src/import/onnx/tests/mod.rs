mod diagnostics;
mod digits;
mod evaluate;
mod fuzz;
mod listing;
mod node_suite;
mod shapes;

use super::model::Model;
use super::proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto, TensorShapeProto,
    TypeProto, ValueInfoProto, attribute_proto::AttributeType, tensor_proto::DataType, tensor_shape_proto,
    type_proto,
};
use prost::Message;
use std::path::{Path, PathBuf};

/// The demo's files.
fn demo() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tools/demo")
}

/// A size of an input.
#[derive(Clone, Copy)]
enum D {
    N(i64),
    S(&'static str),
}

/// A graph input or output.
fn value(name: &str, dtype: DataType, sizes: &[D]) -> ValueInfoProto {
    let dim = |d: &D| {
        use tensor_shape_proto::{Dimension, dimension::Value};
        let value = match d {
            D::N(n) => Value::DimValue(*n),
            D::S(s) => Value::DimParam((*s).to_owned()),
        };
        Dimension { value: Some(value), ..Default::default() }
    };
    let shape = Some(TensorShapeProto { dim: sizes.iter().map(dim).collect() });
    let tensor = type_proto::Tensor { elem_type: Some(dtype as i32), shape };
    let ty = TypeProto { value: Some(type_proto::Value::TensorType(tensor)), ..Default::default() };
    ValueInfoProto { name: Some(name.to_owned()), r#type: Some(ty), ..Default::default() }
}

/// A graph output of whatever type.
fn untyped(name: &str) -> ValueInfoProto {
    ValueInfoProto { name: Some(name.to_owned()), ..Default::default() }
}

/// A node named after its first output.
fn node(op: &str, inputs: &[&str], outputs: &[&str], attribute: Vec<AttributeProto>) -> NodeProto {
    NodeProto {
        input: inputs.iter().map(|s| (*s).to_owned()).collect(),
        output: outputs.iter().map(|s| (*s).to_owned()).collect(),
        name: outputs.first().map(|s| format!("n_{s}")),
        op_type: Some(op.to_owned()),
        attribute,
        ..Default::default()
    }
}

fn int(name: &str, i: i64) -> AttributeProto {
    let kind = Some(AttributeType::Int as i32);
    AttributeProto { name: Some(name.to_owned()), i: Some(i), r#type: kind, ..Default::default() }
}

fn ints(name: &str, ints: &[i64]) -> AttributeProto {
    let kind = Some(AttributeType::Ints as i32);
    AttributeProto { name: Some(name.to_owned()), ints: ints.to_vec(), r#type: kind, ..Default::default() }
}

/// A stored int64 tensor; rank 0 where `dims` is empty.
fn stored(name: &str, dims: &[i64], values: &[i64]) -> TensorProto {
    TensorProto {
        name: Some(name.to_owned()),
        dims: dims.to_vec(),
        data_type: Some(DataType::Int64 as i32),
        int64_data: values.to_vec(),
        ..Default::default()
    }
}

/// A model of opset 18.
fn model(graph: GraphProto) -> ModelProto {
    ModelProto {
        ir_version: Some(8),
        opset_import: vec![OperatorSetIdProto { domain: None, version: Some(18) }],
        graph: Some(graph),
        ..Default::default()
    }
}

fn graph(
    input: Vec<ValueInfoProto>,
    initializer: Vec<TensorProto>,
    node: Vec<NodeProto>,
    outputs: &[&str],
) -> GraphProto {
    let output = outputs.iter().map(|o| untyped(o)).collect();
    GraphProto { name: Some("g".to_owned()), input, initializer, node, output, ..Default::default() }
}

/// The model as a file would be read.
fn parsed(proto: &ModelProto) -> super::diagnostic::Result<Model> {
    Model::parse(proto.encode_to_vec().into(), None)
}

/// Reading and importing, as a listing or as the diagnostic's text.
fn imported(proto: &ModelProto) -> Result<String, String> {
    let model = parsed(proto).map_err(|d| d.to_string())?;
    listing::list(&model).map_err(|d| d.to_string())
}
