use super::evaluate::evaluate;
use super::{demo, listing};
use crate::import::onnx::model::Model;
use std::collections::BTreeMap;
use strata_dialects::RefTensor;
use strata_runtime::DType;

/// The elements of a version-1 npy file of known shape.
fn npy(name: &str, dtype: DType, shape: &[usize]) -> RefTensor {
    let bytes = std::fs::read(demo().join("images").join(name)).expect("the demo's image");
    let header = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    RefTensor::from_bytes(dtype, shape, &bytes[header..], false).expect("enough bytes")
}

#[test]
fn digits_as_graph_ops() {
    let model = Model::open(&demo().join("digits.onnx")).expect("the demo's model is sound");
    insta::assert_snapshot!(listing::list(&model).expect("every operator is supported"));
}

#[test]
fn digits_have_the_logits_of_pytorch() {
    let model = Model::open(&demo().join("digits.onnx")).expect("the demo's model is sound");
    for digit in 0..10 {
        let image = npy(&format!("digit-{digit}.npy"), DType::F32, &[1, 1, 8, 8]);
        let want = npy(&format!("digit-{digit}.logits.npy"), DType::F64, &[1, 10]);
        let out = evaluate(&model, &BTreeMap::from([("image".to_owned(), image)])).expect("it runs");
        assert_eq!(out[0].shape, [1, 10]);
        for i in 0..10 {
            let (have, want) = (out[0].get(i).f(), want.get(i).f());
            assert!((have - want).abs() < 1e-4, "digit {digit}, logit {i}: {have} instead of {want}");
        }
    }
}

#[test]
fn digits_become_a_module_that_verifies() {
    let model = Model::open(&demo().join("digits.onnx")).expect("the demo's model is sound");
    let context = strata_dialects::context();
    let module = crate::import::onnx::to_module(&context, &model).expect("every operator is supported");
    let text = module.as_operation().to_string();
    assert!(melior::ir::operation::OperationLike::verify(&module.as_operation()), "{text}");
    assert!(text.contains("graph.symbols = [{name = \"batch\"}]"), "{}", &text[..400]);
    assert!(text.contains("-> (tensor<?x10xf32, #graph.dims<s0, 10>>"), "{}", &text[..400]);
}
