//! What graph-to-linalg writes and refuses.

use crate::tensor_equivalence::lower;
use melior::ir::Module;

fn lowered(text: &str) -> Result<String, String> {
    let context = strata_dialects::context();
    let module = Module::parse(&context, text).expect("parses");
    lower(&context, &module).map_err(|e| e.to_string())?;
    Ok(module.as_operation().to_string())
}

/// The lit test's module: every CHECK line must occur, in order.
#[test]
fn lit_test_agrees() {
    let text = include_str!("../../../lit-tests/tensor/graph-to-linalg.mlir");
    let out = lowered(text).expect("lowers");
    let mut rest = out.as_str();
    for line in text.lines().filter_map(|l| l.trim().strip_prefix("// CHECK")) {
        let (_, wanted) = line.split_once(": ").expect("a check");
        // Only plain lines here; FileCheck knows patterns.
        if wanted.contains("{{") || wanted.contains("[[") || line.starts_with("-NOT") {
            continue;
        }
        let at = rest.find(wanted).unwrap_or_else(|| panic!("'{wanted}' is not in\n{rest}\nof\n{out}"));
        rest = &rest[at..];
    }
}

#[test]
fn composites_are_refused() {
    let e = lowered(
        r#"func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
          %y = graph.softmax %x dim = 0 : tensor<4xf32> loc("net.py":3:1)
          return %y : tensor<4xf32>
        }"#,
    )
    .expect_err("a composite");
    assert_eq!(e, "net.py:3:1: 'graph.softmax' is a composite; run decompose-composites first");
}

#[test]
fn only_kernels_are_lowered_where_some_are_marked() {
    let out = lowered(
        r#"
        func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
          %y = graph.neg %x : tensor<4xf32>
          return %y : tensor<4xf32>
        }
        func.func private @k0(%x: tensor<4xf32>) -> tensor<4xf32> attributes {graph.kernel} {
          %y = graph.neg %x : tensor<4xf32>
          return %y : tensor<4xf32>
        }"#,
    )
    .expect("lowers");
    assert_eq!(out.matches("graph.neg").count(), 1, "{out}");
    assert_eq!(out.matches("arith.negf").count(), 1, "{out}");
}

#[test]
fn foreign_ops_among_graph_ops_are_refused() {
    let e = lowered(
        r#"func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
          %y = graph.neg %x : tensor<4xf32>
          %z = math.exp %y : tensor<4xf32>
          return %z : tensor<4xf32>
        }"#,
    )
    .expect_err("math on tensors");
    assert!(e.contains("'math.exp' stands among graph ops"), "{e}");
}
