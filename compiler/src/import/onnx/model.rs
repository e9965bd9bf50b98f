//! Reading a model file: what is checked before the first node is looked at.

use super::diagnostic::{Diagnostic, Result, fail};
use super::proto::{GraphProto, ModelProto};
use prost::Message;
use prost::bytes::Bytes;
use std::path::{Path, PathBuf};

/// Oldest and newest version of the default operator set whose operators are read as they are meant.
pub const OPSETS: std::ops::RangeInclusive<i64> = 7..=26;
/// Oldest and newest version of the file format.
pub const IR_VERSIONS: std::ops::RangeInclusive<i64> = 3..=14;

/// A model whose header is sound.
#[derive(Debug)]
pub struct Model {
    /// The main graph.
    pub graph: GraphProto,
    /// The version of the default operator set.
    pub opset: i64,
    /// Who wrote the file, for messages.
    pub producer: String,
    /// Where external data lies.
    pub folder: Option<PathBuf>,
    /// Names of functions that the model defines itself, as domain and name.
    pub functions: Vec<(String, String)>,
}

impl Model {
    /// Reads a file.
    pub fn open(path: &Path) -> Result<Self> {
        let place = path.display().to_string();
        let bytes = std::fs::read(path).map_err(|e| {
            Diagnostic::new(format!("cannot read the model: {e}"))
                .help("give the path of an .onnx file")
                .at(&place)
        })?;
        let folder = path.parent().map(|p| if p.as_os_str().is_empty() { Path::new(".") } else { p });
        Self::parse(bytes.into(), folder).map_err(|d| d.at(place))
    }

    /// Reads a model from memory; external data is looked for in `folder`.
    pub fn parse(bytes: Bytes, folder: Option<&Path>) -> Result<Self> {
        if bytes.is_empty() {
            fail!("the file is empty");
        }
        let looks_like_text = bytes.iter().take(256).all(|b| b.is_ascii_graphic() || b.is_ascii_whitespace());
        let proto = ModelProto::decode(bytes).map_err(|e| {
            Diagnostic::new(format!("not an ONNX model, or cut short ({e})")).help(if looks_like_text {
                "the file holds text; an ONNX model is binary protobuf (is this a Git LFS pointer or an error page?)"
            } else {
                "check it with `python -c 'import onnx; onnx.checker.check_model(\"FILE\")'` and export or copy it again"
            })
        })?;
        let ir = proto.ir_version();
        if !IR_VERSIONS.contains(&ir) {
            return Err(Diagnostic::new(format!(
                "file format version (ir_version) {ir}; {} to {} are understood",
                IR_VERSIONS.start(),
                IR_VERSIONS.end()
            ))
            .help("if this is an ONNX model at all, export it again with a current exporter"));
        }
        let default = |domain: &str| domain.is_empty() || domain == "ai.onnx";
        let opset = proto.opset_import.iter().find(|o| default(o.domain())).map(|o| o.version()).ok_or_else(
            || Diagnostic::new("the model does not say which version of the ONNX operators it uses"),
        )?;
        if !OPSETS.contains(&opset) {
            return Err(Diagnostic::new(format!(
                "operator set version {opset}; {} to {} are understood",
                OPSETS.start(),
                OPSETS.end()
            ))
            .help("convert it: `onnx.version_converter.convert_version(model, 18)`, or export it with opset_version=18"));
        }
        let functions =
            proto.functions.iter().map(|f| (f.domain().to_owned(), f.name().to_owned())).collect();
        let producer = format!("{} {}", proto.producer_name(), proto.producer_version()).trim().to_owned();
        let graph = proto.graph.ok_or_else(|| Diagnostic::new("the model holds no graph"))?;
        Ok(Self { graph, opset, producer, folder: folder.map(Path::to_owned), functions })
    }
}
