use crate::import::onnx::diagnostic::Result;
use crate::import::onnx::emit::{Attr, Emit, Value};
use crate::import::onnx::model::Model;
use crate::import::onnx::tensor::Tensor;
use crate::import::onnx::{import, table};
use std::fmt::Write;
use strata_dialects::TensorType;
use strata_runtime::sym::Symbol;

/// Writes what is emitted as text, a line an op.
#[derive(Default)]
struct Listing {
    text: String,
    next: u32,
}

impl Listing {
    fn value(&mut self) -> Value {
        self.next += 1;
        Value(self.next - 1)
    }
}

impl Emit for Listing {
    fn begin(
        &mut self,
        name: &str,
        symbols: &[Symbol],
        arguments: &[(String, TensorType)],
    ) -> Result<Vec<Value>> {
        let symbols: Vec<&str> = symbols.iter().map(|s| s.name.as_str()).collect();
        let _ = writeln!(self.text, "{name} {symbols:?}");
        let mut out = Vec::new();
        for (name, ty) in arguments {
            let v = self.value();
            let _ = writeln!(self.text, "%{} = '{name}' : {ty}", v.0);
            out.push(v);
        }
        Ok(out)
    }

    fn constant(&mut self, tensor: &Tensor, _: &str) -> Result<Value> {
        let v = self.value();
        let ty = TensorType::new(tensor.dtype, tensor.shape.iter().copied());
        let _ = write!(self.text, "%{} = constant", v.0);
        if tensor.len() <= 8 {
            let _ = write!(self.text, " {:?}", tensor.to_f64());
        }
        let _ = writeln!(self.text, " : {ty}");
        Ok(v)
    }

    fn op(
        &mut self,
        name: &'static str,
        operands: &[Value],
        attributes: &[(&'static str, Attr)],
        result: &TensorType,
        _: &str,
    ) -> Result<Value> {
        let v = self.value();
        let operands: Vec<String> = operands.iter().map(|o| format!(" %{}", o.0)).collect();
        let _ = write!(self.text, "%{} = {name}{}", v.0, operands.join(","));
        for (key, attribute) in attributes {
            let _ = write!(self.text, " {key}={attribute}");
        }
        let _ = writeln!(self.text, " : {result}");
        Ok(v)
    }

    fn finish(&mut self, symbols: &[Symbol], results: &[(String, Value)]) -> Result<()> {
        for s in symbols.iter().filter(|s| s.min > 0 || s.max < i64::MAX) {
            let _ = writeln!(self.text, "{} from {} to {}", s.name, s.min, s.max);
        }
        for (name, v) in results {
            let _ = writeln!(self.text, "return %{} as '{name}'", v.0);
        }
        Ok(())
    }
}

/// The function as text.
pub fn list(model: &Model) -> Result<String> {
    let mut listing = Listing::default();
    import(model, &mut listing)?;
    Ok(listing.text)
}

#[test]
fn the_table_is_in_order() {
    assert!(table::TABLE.windows(2).all(|w| w[0].op < w[1].op));
}

#[test]
fn the_reference_page_is_current() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/onnx-operators.md");
    if std::env::var_os("STRATA_BLESS").is_some() {
        std::fs::write(&path, table::reference_page()).expect("docs/ is writable");
    }
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(text == table::reference_page(), "docs/onnx-operators.md is stale; run with STRATA_BLESS=1");
}
