use super::{D, graph, imported, int, model, node, parsed, stored, value};
use crate::import::onnx::proto::tensor_proto::DataType;
use crate::import::onnx::to_module;

const F: DataType = DataType::Float;

/// `x.view(x.shape[0], x.shape[1], 4, -1)` as exporters write it.
#[test]
fn a_reshape_through_a_shape_chain_keeps_its_symbols() {
    let x = value("x", F, &[D::S("batch"), D::S("seq"), D::N(32)]);
    let initializers = vec![
        stored("zero", &[], &[0]),
        stored("one", &[], &[1]),
        stored("axis", &[1], &[0]),
        stored("tail", &[2], &[4, -1]),
    ];
    let nodes = vec![
        node("Shape", &["x"], &["s"], vec![]),
        node("Gather", &["s", "zero"], &["b"], vec![int("axis", 0)]),
        node("Gather", &["s", "one"], &["t"], vec![int("axis", 0)]),
        node("Unsqueeze", &["b", "axis"], &["b1"], vec![]),
        node("Unsqueeze", &["t", "axis"], &["t1"], vec![]),
        node("Concat", &["b1", "t1", "tail"], &["shape"], vec![int("axis", 0)]),
        node("Reshape", &["x", "shape"], &["out"], vec![]),
    ];
    insta::assert_snapshot!(imported(&model(graph(vec![x], initializers, nodes, &["out"]))).expect("known"));
}

/// `y.expand(-1, n, -1)`: PyTorch replaces the sizes of -1 by a comparison and a choice.
#[test]
fn expand_with_placeholders_is_decided_when_importing() {
    let x = value("x", F, &[D::S("batch"), D::N(1), D::N(4)]);
    let like = value("like", F, &[D::S("n")]);
    let initializers =
        vec![stored("minus", &[], &[-1]), stored("three", &[1], &[3]), stored("ones", &[1], &[1])];
    let nodes = vec![
        node("Shape", &["like"], &["n"], vec![]),
        node("Concat", &["ones", "n", "ones"], &["want"], vec![int("axis", 0)]),
        node("ConstantOfShape", &["three"], &["fill"], vec![]),
        node("Cast", &["fill"], &["fill_i"], vec![int("to", DataType::Int64 as i64)]),
        node("Shape", &["want"], &["rank"], vec![]),
        node("Equal", &["want", "minus"], &["open"], vec![]),
        node("Shape", &["x"], &["have"], vec![]),
        node("Where", &["open", "have", "want"], &["shape"], vec![]),
        node("Expand", &["x", "shape"], &["out"], vec![]),
    ];
    insta::assert_snapshot!(
        imported(&model(graph(vec![x, like], initializers, nodes, &["out"]))).expect("known")
    );
}

/// The mask of a decoder: positions up to the sequence's length, sliced from the end.
#[test]
fn ranges_and_slices_of_symbolic_sizes() {
    let x = value("x", F, &[D::S("batch"), D::S("seq"), D::N(4)]);
    let initializers = vec![
        stored("zero", &[], &[0]),
        stored("one", &[], &[1]),
        stored("last", &[1], &[-1]),
        stored("end", &[1], &[i64::MAX]),
        stored("axis", &[1], &[1]),
    ];
    let nodes = vec![
        node("Shape", &["x"], &["s"], vec![]),
        node("Gather", &["s", "one"], &["t"], vec![]),
        node("Range", &["zero", "t", "one"], &["positions"], vec![]),
        node("Slice", &["x", "last", "end", "axis"], &["tail"], vec![]),
        node("Add", &["t", "one"], &["next"], vec![]),
        node("Identity", &["next"], &["size"], vec![]),
    ];
    let proto = model(graph(vec![x], initializers, nodes, &["positions", "tail", "size"]));
    insta::assert_snapshot!(imported(&proto).expect("known"));
}

#[test]
fn equal_names_are_equal_sizes_and_others_are_not() {
    let sum = |second: &'static str| {
        let inputs = vec![value("a", F, &[D::S("n")]), value("b", F, &[D::S(second)])];
        imported(&model(graph(inputs, vec![], vec![node("Add", &["a", "b"], &["out"], vec![])], &["out"])))
    };
    assert!(sum("n").is_ok());
    insta::assert_snapshot!(sum("m").expect_err("not known"));
}

/// A weight that two nodes use is written once: tied embeddings are the largest tensors of a model.
#[test]
fn a_shared_weight_is_one_constant() {
    let ids = value("ids", DataType::Int64, &[D::N(3)]);
    let mut weight = stored("w", &[2, 2], &[1, 2, 3, 4]);
    weight.int64_data.clear();
    weight.data_type = Some(F as i32);
    weight.float_data = vec![1.0, 2.0, 3.0, 4.0];
    let nodes = vec![
        node("Gather", &["w", "ids"], &["rows"], vec![]),
        node("MatMul", &["rows", "w"], &["out"], vec![]),
    ];
    let text = imported(&model(graph(vec![ids], vec![weight], nodes, &["out"]))).expect("supported");
    assert_eq!(text.matches("= constant").count(), 1, "{text}");
    // The ids are only known when the model runs.
    assert!(text.contains("check_index"), "{text}");
}

/// Constant indices that no size makes wrong need no check; those that some sizes do have one.
#[test]
fn indices_are_checked_where_they_may_be_outside() {
    let gathered = |size: D, indices: &[i64]| {
        let x = value("x", F, &[size, D::N(2)]);
        let list = stored("list", &[indices.len() as i64], indices);
        let nodes = vec![node("Gather", &["x", "list"], &["out"], vec![])];
        imported(&model(graph(vec![x], vec![list], nodes, &["out"])))
    };
    assert!(!gathered(D::N(4), &[3, -4]).expect("supported").contains("check_index"));
    assert!(gathered(D::S("rows"), &[3, -4]).expect("supported").contains("check_index"));
    assert!(gathered(D::N(4), &[3, 4]).expect_err("outside").contains("index 4 in a dimension of size 4"));
}

/// A product of sizes is not affine: it becomes a symbol of its own, and the way back is a reshape too.
#[test]
fn a_product_of_sizes_gets_a_symbol() {
    let x = value("x", F, &[D::S("batch"), D::S("seq"), D::N(4)]);
    let initializers = vec![stored("rows", &[2], &[-1, 4])];
    let nodes = vec![
        node("Reshape", &["x", "rows"], &["flat"], vec![]),
        node("Relu", &["flat"], &["act"], vec![]),
        node("Shape", &["x"], &["shape"], vec![]),
        node("Reshape", &["act", "shape"], &["out"], vec![]),
    ];
    let proto = model(graph(vec![x], initializers, nodes, &["out"]));
    let context = strata_dialects::context();
    let module = to_module(&context, &parsed(&proto).expect("sound")).expect("supported");
    insta::assert_snapshot!(module.as_operation().to_string());
}
