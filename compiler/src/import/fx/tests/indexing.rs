//! Which indices are checked, and how.

use super::{graph, print, tensor};
use serde_json::{Value as Json, json};

/// The lines of checks in the IR of one op on `x : f32[4, s27]` and `i : i64[3]`.
fn checks(op: &str, mut args: Json, out: Json) -> Vec<String> {
    let me = json!({ "node": "x" });
    args[if op == "aten.embedding.default" { "weight" } else { "self" }] = me;
    let node = json!({ "name": "y", "op": op, "args": args, "out": [tensor("float32", out)] });
    let g = graph(
        json!([
            { "name": "x", "meta": tensor("float32", json!([4, "s27"])) },
            { "name": "i", "meta": tensor("int64", json!([3])) },
        ]),
        json!([node]),
        json!([{ "name": "y", "permutation": null, "repeated": [] }]),
    );
    let text = print(&g);
    assert!(!text.starts_with("error"), "{text}");
    let checks = text.lines().filter(|l| l.contains("graph.check_index"));
    checks
        .map(|l| l.split(" below ").nth(1).unwrap_or("").split(" : ").next().unwrap_or("").to_owned())
        .collect()
}

#[test]
fn ops_take_the_indices_that_pytorchs_take() {
    let i = json!({ "node": "i" });
    let of = |wrap: bool, size: &str, op: &str| {
        format!("<{size}> wrap = {wrap} \"aten.{op}: an index is out of range\"")
    };
    let rows = || json!([3, "s27"]);
    let embedding = checks("aten.embedding.default", json!({ "indices": i }), rows());
    assert_eq!(embedding, [of(false, "4", "embedding")]);
    let select = checks("aten.index_select.default", json!({ "dim": 0, "index": i }), rows());
    assert_eq!(select, [of(false, "4", "index_select")]);
    let index = checks("aten.index.Tensor", json!({ "indices": [i] }), rows());
    assert_eq!(index, [of(true, "4", "index")]);
    // Each dimension has a check of its own: two wrong indices do not make a right position.
    let two = checks("aten.index.Tensor", json!({ "indices": [i, i] }), json!([3]));
    assert_eq!(two, [of(true, "4", "index"), of(true, "s1", "index")]);
    let last =
        checks("aten.index_fill.int_Scalar", json!({ "dim": 1, "index": i, "value": 2 }), json!([4, "s27"]));
    assert_eq!(last, [of(true, "s1", "index_fill")]);
    let none =
        |op: &str, args: Json, out: Json| assert_eq!(checks(op, args, out), Vec::<String>::new(), "{op}");
    none("aten._unsafe_index.Tensor", json!({ "indices": [i] }), rows());
    none("aten._unsafe_index.Tensor", json!({ "indices": [i, i] }), json!([3]));
    none("aten.flip.default", json!({ "dims": [0, 1] }), json!([4, "s27"]));
}
