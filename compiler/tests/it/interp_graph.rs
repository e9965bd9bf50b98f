//! The graph interpreter: calls, composites, symbols, errors.

use crate::interp_cases::{Gen, case, module_of};
use melior::ir::Module;
use strata_compiler::interp::{DEFAULT_BUDGET, compare, run_function, signature};
use strata_dialects::reference::{RefTensor, Rounding, Scalar, Values};
use strata_runtime::DType;

fn floats(shape: &[usize], values: &[f64]) -> RefTensor {
    RefTensor { dtype: DType::F32, shape: shape.to_vec(), values: Values::Float(values.to_vec()) }
}

#[test]
fn calls_bind_the_callees_symbols() {
    let context = strata_dialects::context();
    let module = Module::parse(
        &context,
        r#"
        func.func @main(%x: tensor<?x2xf32, #graph.dims<s0, 2>>) -> tensor<?x2xf32, #graph.dims<s0, 2>>
            attributes {graph.symbols = [{name = "batch"}]} {
          %y = graph.call @twice(%x) symbols = <s0> : (tensor<?x2xf32, #graph.dims<s0, 2>>) -> tensor<?x2xf32, #graph.dims<s0, 2>>
          return %y : tensor<?x2xf32, #graph.dims<s0, 2>>
        }
        func.func private @twice(%x: tensor<?x2xf32, #graph.dims<s0, 2>>) -> tensor<?x2xf32, #graph.dims<s0, 2>>
            attributes {graph.symbols = [{name = "n", max = 4}], graph.kernel} {
          %y = graph.add %x, %x : tensor<?x2xf32, #graph.dims<s0, 2>>
          return %y : tensor<?x2xf32, #graph.dims<s0, 2>>
        }"#,
    )
    .expect("parses");
    let run = |x: RefTensor| run_function(&module, "main", &[x], Rounding::Exact, DEFAULT_BUDGET);
    let y = run(floats(&[2, 2], &[1.0, 2.0, 3.0, 4.0])).expect("runs");
    assert_eq!(y, [floats(&[2, 2], &[2.0, 4.0, 6.0, 8.0])]);
    let e = run(floats(&[5, 2], &[0.0; 10])).expect_err("n is at most 4");
    assert!(e.to_string().contains("symbol 'n' is 5"), "{e}");
    // A kernel that is already at the tensor level is run there.
    crate::tensor_equivalence::lower(&context, &module).expect("lowers");
    let y = run(floats(&[2, 2], &[1.0, 2.0, 3.0, 4.0])).expect("runs");
    assert_eq!(y, [floats(&[2, 2], &[2.0, 4.0, 6.0, 8.0])]);
}

#[test]
fn composites_run_on_every_float_type() {
    let context = strata_dialects::context();
    for op in ["graph.softmax", "graph.layer_norm", "graph.attention"] {
        for (i, dtype) in [DType::F64, DType::F32, DType::F16, DType::BF16].into_iter().enumerate() {
            let c = case(op, dtype, &mut Gen::new(i as u64)).expect("defined on floats");
            let module = module_of(&context, &c).expect("builds");
            let s = signature(&module, "f").expect("a function");
            let symbols = s.random_symbols(3).expect("symbols");
            let inputs = s.random_tensors(&symbols, 3).expect("tensors");
            let run = |r| run_function(&module, "f", &inputs, r, DEFAULT_BUDGET).expect("runs");
            let (exact, float64) = (run(Rounding::Exact), run(Rounding::Float64));
            assert_eq!(compare(&exact, &exact, &float64), Ok(()), "{op} on {dtype}");
            if op == "graph.softmax" && !float64[0].is_empty() {
                let total: f64 = float64[0].floats().iter().sum();
                let dim = c.attrs[0].1.clone();
                let strata_dialects::Attr::Int(dim) = dim else { panic!("an integer") };
                let rows = float64[0].len() / float64[0].shape[dim as usize];
                assert!((total - rows as f64).abs() < 1e-9, "rows sum to 1");
            }
        }
    }
}

#[test]
fn errors_say_what_and_where() {
    let context = strata_dialects::context();
    let module = Module::parse(
        &context,
        r#"
        func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
          %y = graph.custom_call "aten::sort"(%x) symbols = #graph.dims<> payload "" reason "no lowering" : (tensor<2xf32>) -> tensor<2xf32> loc("model.py":12:4)
          return %y : tensor<2xf32>
        }"#,
    )
    .expect("parses");
    let x = floats(&[2], &[1.0, 2.0]);
    let run = |name: &str, x: &RefTensor, budget| {
        run_function(&module, name, std::slice::from_ref(x), Rounding::Exact, budget)
            .expect_err("fails")
            .to_string()
    };
    let e = run("f", &x, DEFAULT_BUDGET);
    assert!(e.starts_with("model.py:12:4") && e.contains("aten::sort"), "{e}");
    assert!(run("g", &x, DEFAULT_BUDGET).contains("it defines @f"));
    assert!(run("f", &x, 1).contains("budget"));
    assert!(run("f", &floats(&[3], &[0.0; 3]), DEFAULT_BUDGET).contains("the size is 3"));
    let ints = RefTensor::generate(DType::I32, &[2], Rounding::Exact, |_| Scalar::I(0));
    assert!(run("f", &ints, DEFAULT_BUDGET).contains("i32"));
}
