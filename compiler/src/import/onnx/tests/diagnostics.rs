use super::{D, graph, imported, int, ints, model, node, parsed, stored, value};
use crate::import::onnx::model::Model;
use crate::import::onnx::proto::tensor_proto::{DataLocation, DataType};
use crate::import::onnx::proto::{ModelProto, StringStringEntryProto, TensorProto};
use crate::import::onnx::tensor;

const F: DataType = DataType::Float;

/// A model of one node with inputs `x` (f32 [batch, 3, 8, 8]) and `y` (f32 [n, 3]).
fn one(op: &str, inputs: &[&str], attributes: Vec<crate::import::onnx::proto::AttributeProto>) -> ModelProto {
    let x = value("x", F, &[D::S("batch"), D::N(3), D::N(8), D::N(8)]);
    let y = value("y", F, &[D::S("n"), D::N(3)]);
    model(graph(
        vec![x, y],
        vec![stored("two", &[1], &[2])],
        vec![node(op, inputs, &["out"], attributes)],
        &["out"],
    ))
}

fn reason(proto: &ModelProto) -> String {
    imported(proto).expect_err("a diagnostic")
}

#[test]
fn headers() {
    let text =
        |bytes: &[u8]| Model::parse(bytes.to_vec().into(), None).expect_err("a diagnostic").to_string();
    let mut old = one("Relu", &["x"], vec![]);
    old.opset_import[0].version = Some(6);
    let mut new = old.clone();
    new.opset_import[0].version = Some(99);
    let mut format = old.clone();
    format.ir_version = Some(77);
    let mut empty = one("Relu", &["x"], vec![]);
    empty.graph = None;
    let cut = {
        use prost::Message;
        let bytes = one("Relu", &["x"], vec![]).encode_to_vec();
        text(&bytes[..bytes.len() - 3])
    };
    let all = [
        text(b""),
        text(b"version https://git-lfs.github.com/spec/v1\n"),
        cut,
        parsed(&old).expect_err("old").to_string(),
        parsed(&new).expect_err("new").to_string(),
        parsed(&format).expect_err("format").to_string(),
        parsed(&empty).expect_err("empty").to_string(),
        Model::open(std::path::Path::new("no-such.onnx")).expect_err("missing").to_string(),
    ];
    insta::assert_snapshot!(all.join("\n\n"));
}

#[test]
fn nodes() {
    let mut foreign = one("FusedMatMul", &["x", "y"], vec![]);
    if let Some(g) = foreign.graph.as_mut() {
        g.node[0].domain = Some("com.microsoft".to_owned());
    }
    let all = [
        reason(&one("NonMaxSuppression", &["x"], vec![])),
        reason(&one("CumSum", &["x", "two"], vec![])),
        reason(&foreign),
        reason(&one("Relu", &["z"], vec![])),
        reason(&one("Relu", &[], vec![])),
        reason(&one("Add", &["x", "y"], vec![])),
        reason(&one("MatMul", &["y", "y"], vec![])),
        reason(&one("Softmax", &["x"], vec![int("axis", 7)])),
        reason(&one("Transpose", &["x"], vec![ints("perm", &[0, 0, 1, 2])])),
        reason(&one("Transpose", &["x"], vec![int("perm", 3)])),
        reason(&one("Reshape", &["x", "two"], vec![])),
        reason(&one("Reshape", &["x", "x"], vec![])),
        reason(&one("Conv", &["x", "x"], vec![])),
        reason(&one("MaxPool", &["x"], vec![ints("kernel_shape", &[2, 2]), ints("pads", &[2, 0, 0, 0])])),
        reason(&one("Split", &["x"], vec![int("num_outputs", 5)])),
        reason(&one("Cast", &["x"], vec![int("to", DataType::String as i64)])),
    ];
    insta::assert_snapshot!(all.join("\n\n"));
}

#[test]
fn stored_tensors() {
    let read = |t: &TensorProto, folder: Option<&std::path::Path>| {
        tensor::read(t, folder).map(|t| format!("{t:?}")).unwrap_or_else(|d| d.to_string())
    };
    let external = |location: &str, more: &[(&str, &str)]| {
        let entry =
            |k: &str, v: &str| StringStringEntryProto { key: Some(k.to_owned()), value: Some(v.to_owned()) };
        let mut external_data = vec![entry("location", location)];
        external_data.extend(more.iter().map(|(k, v)| entry(k, v)));
        TensorProto {
            dims: vec![2],
            data_type: Some(DataType::Int32 as i32),
            data_location: Some(DataLocation::External as i32),
            external_data,
            ..Default::default()
        }
    };
    let folder = tempfile::tempdir().expect("a folder");
    let here = Some(folder.path());
    std::fs::write(folder.path().join("weights"), [0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0]).expect("a file");
    let typed = |ty: DataType, ints: &[i32]| TensorProto {
        dims: vec![ints.len() as i64],
        data_type: Some(ty as i32),
        int32_data: ints.to_vec(),
        ..Default::default()
    };
    let all = [
        read(&stored("x", &[1 << 40, 1 << 40], &[]), None),
        read(&stored("x", &[1 << 40], &[]), None),
        read(&stored("x", &[0, 1 << 62, 1 << 62], &[]), None),
        read(&stored("x", &[-1], &[]), None),
        read(&stored("x", &[2], &[1]), None),
        read(&TensorProto { raw_data: Some(vec![1, 2, 3].into()), ..stored("x", &[1], &[]) }, None),
        read(&TensorProto { data_type: Some(DataType::Uint16 as i32), ..stored("x", &[1], &[]) }, None),
        read(&TensorProto { data_type: Some(1000), ..stored("x", &[1], &[]) }, None),
        read(&typed(DataType::Float16, &[0x3C00, 0xC000]), None),
        read(&typed(DataType::Bfloat16, &[0x3F80]), None),
        read(&typed(DataType::Int8, &[-1, 127]), None),
        read(&typed(DataType::Uint8, &[255, 127]), None),
        read(&typed(DataType::Int16, &[-2, 300]), None),
        read(&typed(DataType::Float8e4m3fn, &[0x38, 0xFE]), None),
        read(&typed(DataType::Bool, &[0, 5]), None),
        read(&external("weights", &[("offset", "4"), ("length", "8")]), here),
        read(&external("weights", &[("offset", "8")]), here),
        read(&external("weights", &[("length", "4")]), here),
        read(&external("weights", &[("offset", "x")]), here),
        read(&external("../weights", &[]), here),
        read(&external("/etc/hostname", &[]), here),
        read(&external("weights", &[]), None),
        read(&external("missing", &[]), here).replace("(os error 2)", ""),
    ];
    insta::assert_snapshot!(all.join("\n"));
}
