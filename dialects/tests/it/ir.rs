use melior::ir::Module;
use melior::pass::{PassManager, transform};

fn parse<'c>(context: &'c melior::Context, text: &str) -> Result<Module<'c>, String> {
    let messages = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let sink = messages.clone();
    let id = context.attach_diagnostic_handler(move |d| {
        sink.borrow_mut().push(d.to_string());
        true
    });
    let module = Module::parse(context, text);
    context.detach_diagnostic_handler(id);
    module.ok_or_else(|| messages.borrow().join("\n"))
}

#[test]
fn symbolic_dims_round_trip() {
    let context = strata_dialects::context();
    let text = r#"module {
  func.func @f(%arg0: tensor<?x128xf32, #graph.dims<s0, 128>>) -> tensor<?x128xf32, #graph.dims<s0 * 2 + 1, 128>> attributes {graph.symbols = [{name = "batch"}]} {
    %0 = graph.exp %arg0 : tensor<?x128xf32, #graph.dims<s0, 128>>
    %1 = graph.constant dense<1.000000e+00> : tensor<1x128xf32>
    %2 = graph.concat %0, %0, %1 dim = 0 : (tensor<?x128xf32, #graph.dims<s0, 128>>, tensor<?x128xf32, #graph.dims<s0, 128>>, tensor<1x128xf32>) -> tensor<?x128xf32, #graph.dims<s0 * 2 + 1, 128>>
    return %2 : tensor<?x128xf32, #graph.dims<s0 * 2 + 1, 128>>
  }
}
"#;
    let module = parse(&context, text).unwrap();
    assert_eq!(module.as_operation().to_string(), text);
}

#[test]
fn the_table_refuses_what_breaks_a_constraint() {
    let context = strata_dialects::context();
    let error = parse(
        &context,
        r#"func.func @f(%a: tensor<4x8xf32>, %b: tensor<7x4xf32>) -> tensor<4x4xf32> {
  %0 = graph.dot_general %a, %b batch = [] x [] contracting = [1] x [0] : (tensor<4x8xf32>, tensor<7x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}"#,
    )
    .unwrap_err();
    assert_eq!(
        error,
        "'graph.dot_general' op contracting dimension 1 of lhs is 8, dimension 0 of rhs is 7 [C4]"
    );
}

#[test]
fn canonicalisation_folds_through_the_table() {
    let context = strata_dialects::context();
    let mut module = parse(
        &context,
        r#"func.func @f(%a: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %c = graph.constant dense<[1.0, 4.0]> : tensor<2xf32>
  %s = graph.sqrt %c : tensor<2xf32>
  %t = graph.transpose %a permutation = [0] : (tensor<2xf32>) -> tensor<2xf32>
  return %s, %t : tensor<2xf32>, tensor<2xf32>
}"#,
    )
    .unwrap();
    let passes = PassManager::new(&context);
    passes.add_pass(transform::create_canonicalizer());
    passes.run(&mut module).unwrap();
    let text = module.as_operation().to_string();
    assert!(text.contains("dense<[1.000000e+00, 2.000000e+00]>"), "{text}");
    assert!(!text.contains("graph.transpose"), "{text}");
}

#[test]
fn every_row_has_an_op_and_every_op_a_row() {
    let context = strata_dialects::context();
    for row in strata_dialects::ops::all() {
        assert!(context.is_registered_operation(row.name), "{} has a row but no ODS record", row.name);
    }
    let td = include_str!("../../td/GraphOps.td");
    for mnemonic in td.lines().filter_map(|l| l.strip_prefix("def Graph_")?.split('"').nth(1)) {
        let name = format!("graph.{mnemonic}");
        assert!(strata_dialects::ops::lookup(&name).is_some(), "{name} has an ODS record but no row");
    }
}
