//! The importer on graphs written by hand: printed IR, values by the interpreter, malformed input.

mod calls;
mod indexing;
mod sorting;
mod special;

use super::{table, to_module};
use serde_json::{Value as Json, json};
use strata_dialects::reference::{Rounding, Scalar};
use strata_dialects::{RefTensor, context};
use strata_runtime::DType;

fn tensor(dtype: &str, shape: Json) -> Json {
    let rank = shape.as_array().map_or(0, Vec::len);
    json!({ "dtype": dtype, "shape": shape, "order": (0..rank).collect::<Vec<_>>() })
}

fn graph(inputs: Json, nodes: Json, outputs: Json) -> Json {
    let symbols = json!([{ "name": "s77", "min": 2, "max": 64, "hint": 8 }, { "name": "s27", "min": 2 }]);
    json!({ "version": 1, "name": "f", "device": "cpu", "symbols": symbols, "inputs": inputs, "nodes": nodes, "outputs": outputs })
}

fn print(graph: &Json) -> String {
    let context = context();
    to_module(&context, &graph.to_string())
        .map(|m| m.as_operation().to_string())
        .unwrap_or_else(|e| format!("error: {e}"))
}

#[test]
fn symbols_layouts_and_locations() {
    let g = graph(
        json!([
            { "name": "x", "meta": tensor("float32", json!(["s77", "s27", 4])) },
            { "name": "w", "meta": tensor("float32", json!([4, 8])), "permutation": [1, 0] },
            { "name": "y", "meta": tensor("bfloat16", json!([3, 4])), "strides": [9, 1] },
        ]),
        json!([
            { "name": "view", "op": "aten.view.default", "args": { "self": { "node": "x" }, "size": [{ "size": ["mul", "s77", "s27"] }, 4] },
              "out": [tensor("float32", json!([["mul", "s77", "s27"], 4]))], "location": ["model.py", 7] },
            { "name": "mm", "op": "aten.mm.default", "args": { "self": { "node": "view" }, "mat2": { "node": "w" } },
              "out": [tensor("float32", json!([["mul", "s77", "s27"], 8]))] },
            { "name": "half", "op": "aten.mul.Tensor", "args": { "self": { "node": "y" }, "other": 0.1 }, "out": [tensor("bfloat16", json!([3, 4]))] },
        ]),
        json!([{ "name": "mm", "permutation": [1, 0], "repeated": [] }, { "name": "half", "permutation": null, "repeated": [] }]),
    );
    insta::assert_snapshot!(print(&g));
}

#[test]
fn what_has_no_lowering_is_called_in_the_program() {
    let out = json!([tensor("float32", json!(["s77"])), tensor("uint16", json!(["s77"])), null]);
    let g = graph(
        json!([{ "name": "x", "meta": tensor("float32", json!(["s77"])) }, { "name": "u", "meta": tensor("uint16", json!(["s77"])) }]),
        json!([
            { "name": "odd", "op": "my.op.default", "out": out, "location": ["model.py", 3],
              "args": { "size": { "node": "x" }, "list": [{ "node": "u" }, { "size": ["add", "s77", 1] }, { "float": "-inf" }, { "dtype": "float16" }] } },
            { "name": "getitem", "op": "getitem", "args": { "a0": { "node": "odd" }, "a1": 0 }, "out": [tensor("float32", json!(["s77"]))] },
            { "name": "add", "op": "aten.add.Tensor", "args": { "self": { "node": "u" }, "other": 1 }, "out": [tensor("uint16", json!(["s77"]))] },
        ]),
        json!([{ "name": "getitem", "permutation": null, "repeated": [] }, { "name": "add", "permutation": null, "repeated": [] }]),
    );
    insta::assert_snapshot!(print(&g));
}

fn run(op: &str, args: Json, inputs: &[(DType, &str, &[usize], &[f64])], out: Json) -> Vec<RefTensor> {
    let declared: Vec<Json> = inputs
        .iter()
        .enumerate()
        .map(|(i, (_, torch, shape, _))| json!({ "name": format!("x{i}"), "meta": tensor(torch, json!(shape)) }))
        .collect();
    let node = json!({ "name": "y", "op": op, "args": args, "out": [out] });
    let g =
        graph(json!(declared), json!([node]), json!([{ "name": "y", "permutation": null, "repeated": [] }]));
    evaluate(&g, inputs)
}

fn evaluate(g: &Json, inputs: &[(DType, &str, &[usize], &[f64])]) -> Vec<RefTensor> {
    let context = context();
    let module = to_module(&context, &g.to_string()).unwrap();
    let values: Vec<RefTensor> = inputs
        .iter()
        .map(|(dtype, _, shape, values)| {
            RefTensor::generate(*dtype, shape, Rounding::Exact, |i| match dtype.is_float() {
                true => Scalar::F(values[i]),
                false => Scalar::I(values[i] as i64),
            })
        })
        .collect();
    crate::interp::run_function(&module, "f", &values, Rounding::Exact, 1_000_000).unwrap()
}

fn numbers(t: &RefTensor) -> Vec<f64> {
    let n: usize = t.shape.iter().product();
    (0..n)
        .map(|i| match t.get(i) {
            Scalar::F(x) => x,
            Scalar::I(i) => i as f64,
        })
        .collect()
}

#[test]
fn values_are_pytorchs() {
    let x: &[f64] = &[-7.0, -1.0, 0.0, 5.0];
    let i = (DType::I64, "int64", &[4][..], x);
    let f = (DType::F32, "float32", &[4][..], x);
    let me = json!({ "node": "x0" });
    let case = |op: &str, args: Json, input, out: &str| {
        numbers(&run(op, args, &[input], tensor(out, json!([4])))[0])
    };
    let floor = json!({ "self": me, "other": 2, "rounding_mode": "floor" });
    assert_eq!(case("aten.div.Scalar_mode", floor, i, "int64"), [-4.0, -1.0, 0.0, 2.0]);
    assert_eq!(
        case("aten.remainder.Scalar", json!({ "self": me, "other": 3 }), i, "int64"),
        [2.0, 2.0, 0.0, 2.0]
    );
    assert_eq!(
        case(
            "aten.sign.default",
            json!({ "self": me }),
            (f.0, f.1, f.2, &[f64::NAN, -2.0, 0.0, 9.0]),
            "float32"
        ),
        [0.0, -1.0, 0.0, 1.0]
    );
    // An integer tensor meets a float number as floats.
    assert_eq!(case("aten.gt.Scalar", json!({ "self": me, "other": -0.5 }), i, "bool"), [0.0, 0.0, 1.0, 1.0]);
    assert_eq!(
        case("aten.add.Tensor", json!({ "self": me, "other": 1, "alpha": 3 }), f, "float32"),
        [-4.0, 2.0, 3.0, 8.0]
    );
    assert_eq!(
        case("aten.flip.default", json!({ "self": me, "dims": [0] }), f, "float32"),
        [5.0, 0.0, -1.0, -7.0]
    );
}

/// In strict numerics PyTorch runs what no other code rounds alike, and nothing else.
#[test]
fn strict_numerics_leaves_functions_to_pytorch() {
    let meta = tensor("float32", json!([4]));
    let node =
        |name: &str, op: &str, args: Json| json!({ "name": name, "op": op, "args": args, "out": [meta] });
    let x = json!({ "node": "x" });
    let mut g = graph(
        json!([{ "name": "x", "meta": meta }]),
        json!([
            node("a", "aten.exp.default", json!({ "self": x })),
            node("b", "aten.pow.Tensor_Scalar", json!({ "self": { "node": "a" }, "exponent": 2 })),
            node("c", "aten.pow.Tensor_Scalar", json!({ "self": { "node": "b" }, "exponent": 2.5 })),
            node("d", "aten.abs.default", json!({ "self": { "node": "c" } })),
        ]),
        json!([{ "name": "d", "permutation": null, "repeated": [] }]),
    );
    assert_eq!(print(&g).matches("custom_call").count(), 0);
    g["numerics"] = json!("strict");
    let strict = print(&g);
    let left: Vec<&str> = strict.lines().filter(|l| l.contains("custom_call")).collect();
    assert_eq!(left.len(), 2, "{strict}");
    assert!(left[0].contains("aten.exp") && left[1].contains("aten.pow"), "{strict}");
}

#[test]
fn malformed_graphs_are_errors() {
    let empty = graph(json!([]), json!([]), json!([]));
    let with = |key: &str, value: Json| {
        let mut g = empty.clone();
        g[key] = value;
        print(&g).lines().next().unwrap_or_default().to_owned()
    };
    assert!(print(&empty).starts_with("module"), "{}", print(&empty));
    let x = json!([{ "name": "x", "meta": tensor("float32", json!(["nobody"])) }]);
    let listing = [
        to_module(&context(), "{").unwrap_err(),
        with("version", json!(2)),
        with("nodes", json!(3)),
        with("inputs", x),
        with("inputs", json!([{ "name": "x", "meta": tensor("float32", json!([["pow", 2]])) }])),
        with("inputs", json!([{ "name": "x", "meta": tensor("complex128", json!([2])) }])),
        with(
            "inputs",
            json!([{ "name": "x", "meta": tensor("float32", json!([2, 3])), "permutation": [0, 0] }]),
        ),
        with("outputs", json!([{ "name": "y" }])),
        with(
            "nodes",
            json!([{ "name": "y", "op": "aten.neg.default", "args": { "self": { "node": "x" } }, "out": [tensor("float32", json!([2]))] }]),
        ),
    ];
    insta::assert_snapshot!(listing.join("\n"));
}

#[test]
fn the_table_has_no_name_twice() {
    let names = table::names();
    assert!(names.windows(2).all(|w| w[0] < w[1]) && names.len() > 150, "{}", names.len());
    assert_eq!(names.len(), table::entries(), "an op is in two themes");
}
