//! Sorts and what is picked from them, by the interpreter; and which rows are PyTorch's.

use super::{graph, print, run, tensor};
use serde_json::json;
use strata_runtime::DType;

const NAN: f64 = f64::NAN;

fn one(op: &str, args: serde_json::Value, x: &[f64], out: serde_json::Value) -> Vec<f64> {
    let mut all = json!({ "self": { "node": "x0" } });
    all.as_object_mut().expect("an object").extend(args.as_object().expect("an object").clone());
    run(op, all, &[(DType::F32, "float32", &[x.len()], x)], out)[0].floats().to_vec()
}

#[test]
fn the_lower_median_and_the_kth() {
    let (rank_0, x) = (tensor("float32", json!([])), [3.0, 1.0, 4.0, 2.0]);
    assert_eq!(one("aten.median.default", json!({}), &x, rank_0.clone()), [2.0]);
    assert_eq!(one("aten.kthvalue.default", json!({ "k": 4 }), &x, rank_0.clone()), [4.0]);
    assert!(one("aten.median.default", json!({}), &[3.0, NAN, 1.0], rank_0.clone())[0].is_nan());
    assert_eq!(one("aten.nanmedian.default", json!({}), &[3.0, NAN, 1.0, 7.0, NAN], rank_0.clone()), [3.0]);
    assert_eq!(one("aten.nanmedian.default", json!({}), &[3.0, NAN, 1.0], rank_0.clone()), [1.0]);
    assert!(one("aten.nanmedian.default", json!({}), &[NAN, NAN], rank_0)[0].is_nan());
    let two = tensor("float32", json!([2]));
    assert_eq!(one("aten.topk.default", json!({ "k": 2, "largest": false }), &x, two.clone()), [1.0, 2.0]);
    let top = one("aten.topk.default", json!({ "k": 2 }), &[3.0, NAN, 1.0], two);
    assert!(top[0].is_nan() && top[1] == 3.0);
}

/// The calls of the embedding program in what a node becomes on a device.
fn calls(device: &str, op: &str, args: serde_json::Value, size: serde_json::Value) -> Vec<String> {
    let (x, places) = (tensor("float32", json!([4, size])), tensor("int64", json!([4, size])));
    let node = json!({ "name": "y", "op": op, "args": args, "out": [x.clone(), places] });
    let results = json!([{ "name": "v", "permutation": null, "repeated": [] }]);
    let pick = json!({ "name": "v", "op": "getitem", "args": { "a0": { "node": "y" }, "a1": 0 }, "out": [x.clone()] });
    let mut g = graph(json!([{ "name": "x", "meta": x }]), json!([node, pick]), results);
    g["device"] = json!(device);
    print(&g).lines().filter(|l| l.contains("custom_call")).map(str::to_owned).collect()
}

#[test]
fn rows_that_are_too_long_are_a_librarys() {
    let sort = json!({ "self": { "node": "x" } });
    let pick = json!({ "self": { "node": "x" }, "k": 1000 });
    assert!(calls("cpu", "aten.sort.default", sort.clone(), json!(100_000)).is_empty());
    assert!(calls("cuda", "aten.sort.default", sort.clone(), json!(4000)).is_empty());
    // The symbol's hint is 8.
    assert!(calls("cuda", "aten.sort.default", sort.clone(), json!("s77")).is_empty());
    assert!(calls("cuda", "aten.topk.default", pick.clone(), json!(1000)).is_empty());
    for (device, op, args) in [("cuda", "aten.sort.default", sort), ("cpu", "aten.topk.default", pick)] {
        let found = calls(device, op, args, json!(100_000));
        assert!(found.len() == 1 && found[0].contains(r#"reason """#), "{found:?}");
    }
}
