//! Programs in any format that the compiler reads, as modules of graph ops.

use crate::driver::diagnostics::{Collector, Diagnostic};
use crate::import;
use melior::Context;
use melior::ir::Module;
use std::path::Path;

/// The text or bytes of a program.
pub enum Input {
    /// MLIR text of any level.
    Mlir(String),
    /// An ONNX model.
    Onnx(Vec<u8>),
    /// A PyTorch FX graph as JSON.
    Fx(String),
}

impl Input {
    /// Reads a file, by its ending.
    pub fn read(path: &Path) -> Result<Self, String> {
        let bytes = std::fs::read(path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
        let text =
            |bytes: Vec<u8>| String::from_utf8(bytes).map_err(|_| format!("{} is not text", path.display()));
        match path.extension().and_then(|e| e.to_str()) {
            Some("onnx") => Ok(Self::Onnx(bytes)),
            Some("json") => Ok(Self::Fx(text(bytes)?)),
            Some("mlir") => Ok(Self::Mlir(text(bytes)?)),
            _ => Err(format!(
                "{}: unknown kind of model; known endings: .onnx, .mlir, .json (FX graph), .strata",
                path.display()
            )),
        }
    }
}

/// The module of a program. `name` is the file's name for messages; `folder` is where an ONNX model's external data lie.
pub fn module<'c>(
    context: &'c Context,
    input: &Input,
    name: &str,
    folder: Option<&Path>,
) -> Result<Module<'c>, Vec<Diagnostic>> {
    let one = |m: String| vec![Diagnostic::error(None, m)];
    match input {
        Input::Mlir(text) => {
            let collector = Collector::new(context);
            strata_dialects::tool::parse_module(context, text.as_bytes(), name)
                .ok_or_else(|| collector.take())
        }
        Input::Onnx(bytes) => {
            let in_file = |d: import::onnx::Diagnostic| one(format!("{name}: {d}"));
            let model = import::onnx::Model::parse(bytes.clone().into(), folder).map_err(in_file)?;
            import::onnx::to_module(context, &model).map_err(in_file)
        }
        Input::Fx(text) => import::fx::to_module(context, text).map_err(one),
    }
}
