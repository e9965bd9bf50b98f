use super::{demo, listing};
use crate::import::onnx::model::Model;
use crate::import::onnx::proto::{ModelProto, NodeProto, type_proto};
use crate::import::onnx::to_module;
use prost::Message;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A small generator (xorshift64*), so that the cases are the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, n: usize) -> usize {
        if n == 0 { 0 } else { (self.next() % n as u64) as usize }
    }

    fn odd_number(&mut self) -> i64 {
        const ODD: [i64; 14] =
            [0, 1, -1, 2, 3, 7, -2, 64, 1 << 20, 1 << 31, 1 << 40, i64::MAX, i64::MIN, i64::MIN + 1];
        ODD[self.below(ODD.len())]
    }
}

/// Damage below protobuf: flipped, cut, repeated bytes.
fn damage_bytes(bytes: &mut Vec<u8>, r: &mut Random) {
    for _ in 0..1 + r.below(8) {
        // Most of the file is weights, whose damage nobody sees: prefer the ends, where the structure is.
        let at = match r.below(3) {
            0 => r.below(bytes.len()),
            1 => r.below(bytes.len().min(6000)),
            _ => bytes.len() - 1 - r.below(bytes.len().min(2000)),
        };
        match r.below(5) {
            0 => bytes[at] = r.next() as u8,
            1 => bytes[at] ^= 1 << r.below(8),
            2 => bytes.truncate(at.max(1)),
            3 => {
                let piece = bytes[at..(at + 1 + r.below(40)).min(bytes.len())].to_vec();
                bytes.splice(at..at, piece);
            }
            _ => {
                bytes.drain(at..(at + 1 + r.below(40)).min(bytes.len() - 1).max(at));
            }
        }
    }
}

/// Damage above protobuf: a sound file that says something odd.
fn damage_model(model: &mut ModelProto, r: &mut Random) {
    let Some(graph) = model.graph.as_mut() else { return };
    let nodes = graph.node.len();
    match r.below(12) {
        0 => {
            let n = r.below(graph.initializer.len());
            let dims = &mut graph.initializer[n].dims;
            let d = r.below(dims.len());
            if let Some(d) = dims.get_mut(d) {
                *d = r.odd_number();
            }
        }
        1 => {
            let n = r.below(graph.initializer.len());
            graph.initializer[n].data_type = Some(r.below(30) as i32);
        }
        2 => {
            let n = r.below(graph.initializer.len());
            graph.initializer[n].dims = (0..r.below(60)).map(|_| r.odd_number()).collect();
        }
        3 | 4 => {
            let attributes: Vec<_> = graph.node.iter_mut().flat_map(|n| n.attribute.iter_mut()).collect();
            let n = r.below(attributes.len());
            for (i, a) in attributes.into_iter().enumerate() {
                if i == n {
                    a.i = Some(r.odd_number());
                    let at = r.below(a.ints.len());
                    if let Some(x) = a.ints.get_mut(at) {
                        *x = r.odd_number();
                    }
                    if let Some(t) = a.t.as_mut() {
                        let odd = r.odd_number();
                        t.raw_data = Some(odd.to_le_bytes().to_vec().into());
                    }
                }
            }
        }
        5 => {
            let (a, b) = (r.below(nodes), r.below(nodes));
            graph.node.swap(a, b);
        }
        6 | 7 => {
            const OPS: [&str; 12] = [
                "Slice",
                "Gather",
                "Tile",
                "Expand",
                "ConvTranspose",
                "Pad",
                "Split",
                "Flatten",
                "Trilu",
                "Range",
                "AveragePool",
                "ArgMax",
            ];
            let n = r.below(nodes);
            graph.node[n].op_type = Some(OPS[r.below(OPS.len())].to_owned());
        }
        8 => {
            let names: Vec<String> = graph.node.iter().flat_map(|n: &NodeProto| n.output.clone()).collect();
            let n = r.below(nodes);
            let i = r.below(graph.node[n].input.len());
            if let Some(input) = graph.node[n].input.get_mut(i) {
                input.clone_from(&names[r.below(names.len())]);
            }
        }
        9 => {
            let n = r.below(nodes);
            graph.node[n].input.pop();
        }
        10 => {
            let n = r.below(nodes);
            graph.node[n].attribute.clear();
        }
        _ => {
            use crate::import::onnx::proto::tensor_shape_proto::dimension::Value;
            if let Some(type_proto::Value::TensorType(t)) =
                graph.input[0].r#type.as_mut().and_then(|t| t.value.as_mut())
                && let Some(dim) = t.shape.as_mut().and_then(|s| s.dim.last_mut())
            {
                dim.value = Some(Value::DimValue(r.odd_number()));
            }
        }
    }
}

#[test]
fn damaged_models_are_diagnosed() {
    let sound = std::fs::read(demo().join("digits.onnx")).expect("the demo's model");
    let context = strata_dialects::context();
    let mut r = Random(0x5EED);
    let (mut refused, mut accepted) = (0, 0);
    for case in 0..200 {
        let mut bytes = sound.clone();
        if case % 2 == 0 {
            damage_bytes(&mut bytes, &mut r);
        } else {
            let mut model = ModelProto::decode(bytes.as_slice()).expect("the demo's model is sound");
            for _ in 0..1 + r.below(3) {
                damage_model(&mut model, &mut r);
            }
            bytes = model.encode_to_vec();
        }
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let model = Model::parse(bytes.into(), None)?;
            listing::list(&model)?;
            to_module(&context, &model).map(|_| ())
        }));
        match outcome {
            Ok(Ok(())) => accepted += 1,
            Ok(Err(d)) => {
                assert!(!d.reason.is_empty());
                assert!(!d.reason.contains("the importer expected"), "case {case}: {d}");
                refused += 1;
            }
            Err(_) => panic!("case {case} panicked"),
        }
    }
    // Damage in the weights is not visible; damage elsewhere must be.
    assert!(refused > 100 && accepted > 0, "{refused} refused, {accepted} accepted");
}
