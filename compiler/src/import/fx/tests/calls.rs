//! Calls of the embedding program: which attention is PyTorch's, and how operands and results lie in memory.

use super::{graph, print};
use serde_json::{Value as Json, json};

fn lies(shape: &Json, order: &Json) -> Json {
    json!({ "dtype": "bfloat16", "shape": shape, "order": order })
}

/// Attention over so many places, of queries and results that lie as PyTorch's linear layers leave them.
fn attention(device: &str, places: Json, standalone: bool) -> String {
    let (shape, order) = (json!([8, 12, places, 64]), json!([0, 2, 1, 3]));
    let x = lies(&shape, &order);
    let inputs: Vec<Json> = ["q", "k", "v"]
        .iter()
        .map(|n| json!({ "name": n, "meta": x, "permutation": [0, 2, 1, 3] }))
        .collect();
    let args = json!({ "query": { "node": "q" }, "key": { "node": "k" }, "value": { "node": "v" }, "is_causal": true });
    let op = "aten._scaled_dot_product_flash_attention.default";
    let node = json!({ "name": "y", "op": op, "args": args, "out": [x, null], "used": [true, false] });
    let pick =
        json!({ "name": "o", "op": "getitem", "args": { "a0": { "node": "y" }, "a1": 0 }, "out": [x] });
    let results = json!([{ "name": "o", "permutation": [0, 2, 1, 3], "repeated": [] }]);
    let mut g = graph(json!(inputs), json!([node, pick]), results);
    (g["device"], g["standalone"]) = (json!(device), json!(standalone));
    print(&g)
}

#[test]
fn attention_with_many_scores_is_a_librarys() {
    let own = |text: &str| text.contains("graph.attention") && !text.contains("custom_call");
    assert!(own(&attention("cuda", json!(16), false)));
    assert!(own(&attention("cuda", json!(512), true)), "without PyTorch there is no such library");
    assert!(own(&attention("cpu", json!(512), false)));
    // The symbol's hint is 8; another has none.
    assert!(own(&attention("cuda", json!("s77"), false)));
    for places in [json!(512), json!("s27")] {
        let text = attention("cuda", places, false);
        assert!(text.contains(r#"reason """#) && !text.contains("graph.attention"), "{text}");
    }
}

#[test]
fn operands_and_results_are_in_the_order_of_memory() {
    insta::assert_snapshot!(attention("cuda", json!(512), false));
}

#[test]
fn gaps_are_filled_and_one_of_equal_elements_is_passed() {
    let part = json!({ "dtype": "float32", "shape": [5, 3, 6], "order": null, "part": { "order": [0, 1, 2], "shape": [1, 3, 8] } });
    let dense = json!({ "dtype": "float32", "shape": [5, 3, 6], "order": [0, 1, 2] });
    let g = graph(
        json!([{ "name": "x", "meta": { "dtype": "float32", "shape": [1, 3, 6], "order": [0, 1, 2] } },
               { "name": "gaps", "meta": { "dtype": "float32", "shape": [3, 6], "order": null }, "strides": [8, 1] }]),
        json!([{ "name": "r", "op": "aten.expand.default", "args": { "self": { "node": "x" }, "size": [5, 3, 6] }, "out": [part] },
               { "name": "y", "op": "my.op.default", "args": { "a": { "node": "r" }, "b": { "node": "gaps" } }, "out": [dense] }]),
        json!([{ "name": "y", "permutation": null, "repeated": [] }]),
    );
    insta::assert_snapshot!(print(&g));
}
