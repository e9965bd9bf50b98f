use super::evaluate::evaluate;
use crate::import::onnx::diagnostic::REFERENCE_PAGE;
use crate::import::onnx::model::Model;
use crate::import::onnx::proto::TensorProto;
use crate::import::onnx::{tensor, to_module};
use prost::Message;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use strata_dialects::RefTensor;

fn stored(path: &Path) -> Option<RefTensor> {
    let proto = TensorProto::decode(std::fs::read(path).ok()?.as_slice()).ok()?;
    let t = tensor::read(&proto, None).ok()?;
    let shape: Vec<usize> = t.shape.iter().map(|&d| d as usize).collect();
    RefTensor::from_bytes(t.dtype, &shape, &t.bytes, false).ok()
}

/// The model with its integer and truth inputs as constants: shapes and axes mostly are.
fn with_constants(case: &Path, mut model: Model) -> Model {
    for (i, input) in model.graph.input.iter().enumerate() {
        let file = std::fs::read(case.join(format!("test_data_set_0/input_{i}.pb"))).unwrap_or_default();
        let Ok(mut t) = TensorProto::decode(file.as_slice()) else { continue };
        t.name.clone_from(&input.name);
        if tensor::dtype(t.data_type()).is_ok_and(|d| !d.is_float()) {
            model.graph.initializer.push(t);
        }
    }
    model
}

/// ONNX's own conformance cases, written by `node_suite.py` beside this file, which says how to run this.
#[test]
#[ignore = "needs cases that the onnx package generates, see node_suite.py"]
fn onnx_node_suite() {
    let folder =
        std::env::var("STRATA_ONNX_SUITE").expect("STRATA_ONNX_SUITE names the folder of generated cases");
    let mut cases: Vec<_> =
        std::fs::read_dir(folder).expect("a folder").map(|e| e.expect("an entry").path()).collect();
    cases.sort();
    let context = strata_dialects::context();
    let (mut right, mut unsupported, mut wrong) = (0, Vec::new(), Vec::new());
    for case in cases {
        let name = case.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Ok(model) = Model::open(&case.join("model.onnx")) else {
            unsupported.push(format!("{name}: header"));
            continue;
        };
        let data = case.join("test_data_set_0");
        let mut inputs = BTreeMap::new();
        for (i, input) in model.graph.input.iter().enumerate() {
            if let Some(t) = stored(&data.join(format!("input_{i}.pb"))) {
                inputs.insert(input.name().to_owned(), t);
            }
        }
        if inputs.len() != model.graph.input.len() {
            unsupported.push(format!("{name}: input types"));
            continue;
        }
        let context = &context;
        let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| {
            let run = |model: &Model| {
                let out = evaluate(model, &inputs)?;
                to_module(context, model).map(|_| out)
            };
            match run(&model) {
                Err(d) if d.reason.contains("not known when importing") => run(&with_constants(&case, model)),
                other => other,
            }
        }));
        match outcome {
            Err(_) => wrong.push(format!("{name}: panic")),
            Ok(Err(d)) if d.to_string().contains(REFERENCE_PAGE) => {
                unsupported.push(format!("{name}: {}", d.reason))
            }
            Ok(Err(d)) => unsupported.push(format!("{name}: ({}) {}", d.place, d.reason)),
            Ok(Ok(out)) => {
                let mut problem = None;
                for (i, have) in out.iter().enumerate() {
                    match stored(&data.join(format!("output_{i}.pb"))) {
                        Some(want) => problem = problem.or_else(|| differs(have, &want)),
                        None => problem = Some("unreadable output".to_owned()),
                    }
                }
                match problem {
                    Some(p) => wrong.push(format!("{name}: {p}")),
                    None => right += 1,
                }
            }
        }
    }
    println!("{right} right, {} unsupported, {} wrong", unsupported.len(), wrong.len());
    println!("unsupported:\n{}", unsupported.join("\n"));
    assert!(wrong.is_empty() && right > 0, "wrong:\n{}", wrong.join("\n"));
}

fn differs(have: &RefTensor, want: &RefTensor) -> Option<String> {
    if have.shape != want.shape || have.dtype != want.dtype {
        return Some(format!("{}{:?} instead of {}{:?}", have.dtype, have.shape, want.dtype, want.shape));
    }
    let as_f64 =
        |t: &RefTensor, i: usize| if t.dtype.is_float() { t.get(i).f() } else { t.get(i).i() as f64 };
    let tolerance = if have.dtype.size() == 2 { 1e-2 } else { 1e-4 };
    (0..want.len()).find_map(|i| {
        let (a, b) = (as_f64(have, i), as_f64(want, i));
        let equal = a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= tolerance * (1.0 + b.abs());
        (!equal).then(|| format!("element {i} is {a} instead of {b}"))
    })
}
