//! The JSON form of an FX graph as plain data.

use super::sizes::Sizes;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use strata_runtime::DType;
use strata_runtime::sym::{Expr, Symbol};

/// The version of the format that this importer reads.
pub const VERSION: i64 = 1;

/// A graph.
pub struct Graph {
    /// The function's name.
    pub name: String,
    /// Its symbols.
    pub sizes: Sizes,
    /// Whether results have to be PyTorch's, bit by bit, where one op decides them.
    pub strict: bool,
    /// Whether it runs on a GPU.
    pub gpu: bool,
    /// Whether it will run without PyTorch, whose libraries it cannot call then.
    pub standalone: bool,
    /// Its arguments.
    pub inputs: Vec<Input>,
    /// Its ops, in order.
    pub nodes: Vec<Node>,
    /// What it returns.
    pub outputs: Vec<Output>,
}

/// An argument.
pub enum Input {
    /// A tensor.
    Tensor {
        /// Name of the placeholder.
        name: String,
        /// The tensor as the graph sees it.
        meta: Meta,
        /// The argument's dimensions are these of the placeholder: their order in memory.
        permutation: Option<Vec<usize>>,
        /// Strides of what is no permutation of a contiguous tensor.
        strides: Option<Vec<Expr>>,
    },
    /// A size that is the size of no tensor: passed as the extent of a tensor that nobody reads.
    Size {
        /// Name of the symbol.
        name: String,
        /// The symbol.
        symbol: Expr,
    },
}

impl Input {
    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Self::Tensor { name, .. } | Self::Size { name, .. } => name,
        }
    }
}

/// A result of the graph.
pub struct Output {
    /// The node.
    pub name: String,
    /// Order of the dimensions in memory.
    pub permutation: Option<Vec<usize>>,
    /// Dimensions along which all elements are the same: one is returned.
    pub repeated: Vec<usize>,
    /// Number of the memory that it lies in: results with the same number may share it, others must not.
    pub memory: Option<i64>,
}

/// A tensor's metadata.
#[derive(Clone)]
pub struct Meta {
    /// PyTorch's name of the element type.
    pub torch: String,
    /// The element type, or for one that Strata lacks, one of the same width that holds its bits.
    pub dtype: DType,
    /// Whether `dtype` means the same as PyTorch's type.
    pub native: bool,
    /// Affine sizes.
    pub shape: Vec<Expr>,
    /// The order of its dimensions in PyTorch's memory, where it is dense there.
    pub order: Option<Vec<usize>>,
    /// How it lies in PyTorch's memory where it is not dense there, but part of a dense tensor or repeated.
    pub part: Option<Part>,
}

/// How a tensor lies in memory that it does not fill.
#[derive(Clone)]
pub struct Part {
    /// The order of the dimensions.
    pub order: Vec<usize>,
    /// Sizes of what lies densely: larger along one dimension, or 1 where elements are repeated.
    pub shape: Vec<Expr>,
}

/// An op of the graph.
pub struct Node {
    /// Its name, unique.
    pub name: String,
    /// `aten.add.Tensor`.
    pub op: String,
    /// Arguments by the schema's names.
    pub args: BTreeMap<String, Arg>,
    /// The arguments as they came, for calling the op again.
    pub raw: Json,
    /// Results; `None` for what is no tensor.
    pub out: Vec<Option<Meta>>,
    /// Which results are used.
    pub used: Vec<bool>,
    /// File and line of the user's source.
    pub location: Option<(String, usize)>,
}

/// An argument of an op.
#[derive(Clone, Debug, PartialEq)]
pub enum Arg {
    /// `None`.
    None,
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A string.
    Str(String),
    /// A list.
    List(Vec<Arg>),
    /// A tensor, by its node.
    Value(String),
    /// A size.
    Size(Expr),
    /// Anything else: element type, device, layout, an object of the embedding program.
    Other,
}

/// Reads a graph.
pub fn parse(json: &str) -> Result<Graph, String> {
    let json: Json = serde_json::from_str(json).map_err(|e| format!("the FX graph is not JSON: {e}"))?;
    match json["version"].as_i64() {
        Some(VERSION) => {}
        Some(v) => {
            return Err(format!(
                "the FX graph has version {v}, this compiler reads {VERSION}; use the package and the compiler of one release"
            ));
        }
        None => return Err("the FX graph has no version".into()),
    }
    let mut sizes = Sizes::default();
    for s in list(&json, "symbols")? {
        let name = text(s, "name")?;
        let mut symbol = Symbol::named(name);
        symbol.min = s["min"].as_i64().unwrap_or(i64::MIN);
        symbol.max = s["max"].as_i64().unwrap_or(i64::MAX);
        symbol.divisor = s["divisor"].as_i64().unwrap_or(1).max(1);
        symbol.hint = s["hint"].as_i64();
        sizes.add(symbol);
    }
    let inputs = list(&json, "inputs")?.iter().map(|i| input(i, &mut sizes)).collect::<Result<_, _>>()?;
    let nodes = list(&json, "nodes")?.iter().map(|n| node(n, &mut sizes)).collect::<Result<_, _>>()?;
    let outputs = list(&json, "outputs")?.iter().map(output).collect::<Result<_, _>>()?;
    let strict = json["numerics"].as_str() == Some("strict");
    let gpu = json["device"].as_str() == Some("cuda");
    let standalone = json["standalone"].as_bool().unwrap_or(false);
    Ok(Graph { name: text(&json, "name")?, sizes, strict, gpu, standalone, inputs, nodes, outputs })
}

fn list<'j>(json: &'j Json, key: &str) -> Result<&'j Vec<Json>, String> {
    json[key].as_array().ok_or_else(|| format!("'{key}' is not a list"))
}

fn text(json: &Json, key: &str) -> Result<String, String> {
    json[key].as_str().map(str::to_owned).ok_or_else(|| format!("'{key}' is not a text in {json}"))
}

fn dims(json: &Json) -> Result<Option<Vec<usize>>, String> {
    if json.is_null() {
        return Ok(None);
    }
    let list = json.as_array().ok_or_else(|| format!("not a list of dimensions: {json}"))?;
    let one = |d: &Json| d.as_u64().map(|d| d as usize).ok_or_else(|| format!("not a dimension: {d}"));
    list.iter().map(one).collect::<Result<_, _>>().map(Some)
}

/// Checks that a list names every one of `rank` dimensions once.
fn permutation(json: &Json, rank: usize) -> Result<Option<Vec<usize>>, String> {
    let p = dims(json)?;
    if let Some(p) = &p {
        let mut sorted = p.clone();
        sorted.sort_unstable();
        if sorted != (0..rank).collect::<Vec<_>>() {
            return Err(format!("{p:?} is no permutation of {rank} dimensions"));
        }
    }
    Ok(p)
}

fn input(json: &Json, sizes: &mut Sizes) -> Result<Input, String> {
    let name = text(json, "name")?;
    if let Some(symbol) = json["size"].as_str() {
        return Ok(Input::Size { name, symbol: sizes.symbol(symbol)? });
    }
    let meta = meta(&json["meta"], sizes)?;
    let strides = match json["strides"].as_array() {
        None => None,
        Some(s) if s.len() == meta.shape.len() => {
            Some(s.iter().map(|e| sizes.parse(e)).collect::<Result<_, _>>()?)
        }
        Some(s) => {
            return Err(format!("input {name} has {} strides for {} dimensions", s.len(), meta.shape.len()));
        }
    };
    Ok(Input::Tensor {
        name,
        permutation: permutation(&json["permutation"], meta.shape.len())?,
        meta,
        strides,
    })
}

fn output(json: &Json) -> Result<Output, String> {
    let rank = json["permutation"].as_array().map_or(0, Vec::len);
    Ok(Output {
        name: text(json, "name")?,
        permutation: permutation(&json["permutation"], rank)?,
        repeated: dims(&json["repeated"])?.unwrap_or_default(),
        memory: json["memory"].as_i64(),
    })
}

fn meta(json: &Json, sizes: &mut Sizes) -> Result<Meta, String> {
    let torch = text(json, "dtype")?;
    let (dtype, native) = dtype(&torch)?;
    let mut shape = Vec::new();
    for e in list(json, "shape")? {
        let e = sizes.parse(e)?;
        shape.push(sizes.affine(&e));
    }
    let order = permutation(&json["order"], shape.len())?;
    let part = match permutation(&json["part"]["order"], shape.len())? {
        None => None,
        Some(order) => {
            let mut whole = Vec::new();
            for e in list(&json["part"], "shape")? {
                let e = sizes.parse(e)?;
                whole.push(sizes.affine(&e));
            }
            (whole.len() == shape.len()).then_some(Part { order, shape: whole })
        }
    };
    Ok(Meta { torch, dtype, native, shape, order, part })
}

/// The element type of that name in PyTorch, and whether it means the same.
pub fn dtype(torch: &str) -> Result<(DType, bool), String> {
    Ok(match torch {
        "float64" => (DType::F64, true),
        "float32" => (DType::F32, true),
        "float16" => (DType::F16, true),
        "bfloat16" => (DType::BF16, true),
        "int64" => (DType::I64, true),
        "int32" => (DType::I32, true),
        "int16" => (DType::I16, true),
        "int8" => (DType::I8, true),
        "uint8" => (DType::U8, true),
        "float8_e4m3fn" => (DType::F8E4M3, true),
        "float8_e5m2" => (DType::F8E5M2, true),
        "bool" => (DType::I1, true),
        "complex64" | "uint64" => (DType::I64, false),
        "uint32" | "complex32" => (DType::I32, false),
        "uint16" => (DType::I16, false),
        "float8_e4m3fnuz" | "float8_e5m2fnuz" | "float8_e8m0fnu" => (DType::I8, false),
        other => return Err(format!("element type {other} has no storage here")),
    })
}

fn node(json: &Json, sizes: &mut Sizes) -> Result<Node, String> {
    let name = text(json, "name")?;
    let at = |m: String| format!("node {name}: {m}");
    let mut out = Vec::new();
    for m in list(json, "out").map_err(at)? {
        out.push(if m.is_null() { None } else { Some(meta(m, sizes).map_err(at)?) });
    }
    let used = json["used"].as_array().map(|u| u.iter().map(|b| b.as_bool() != Some(false)).collect());
    let mut args = BTreeMap::new();
    let raw = json["args"].as_object().ok_or_else(|| at("'args' is not an object".into()))?;
    for (key, value) in raw {
        args.insert(key.clone(), arg(value, sizes).map_err(at)?);
    }
    let location = json["location"]
        .as_array()
        .and_then(|l| Some((l.first()?.as_str()?.to_owned(), l.get(1)?.as_u64()? as usize)));
    Ok(Node {
        op: text(json, "op")?,
        raw: json["args"].clone(),
        used: used.unwrap_or_else(|| vec![true; out.len()]),
        name,
        args,
        out,
        location,
    })
}

fn arg(json: &Json, sizes: &mut Sizes) -> Result<Arg, String> {
    Ok(match json {
        Json::Null => Arg::None,
        Json::Bool(b) => Arg::Bool(*b),
        Json::Number(n) => match n.as_i64() {
            Some(i) => Arg::Int(i),
            None => Arg::Float(n.as_f64().ok_or_else(|| format!("not a number: {n}"))?),
        },
        Json::String(s) => Arg::Str(s.clone()),
        Json::Array(list) => Arg::List(list.iter().map(|a| arg(a, sizes)).collect::<Result<_, _>>()?),
        Json::Object(o) => match o.iter().next() {
            Some((k, Json::String(v))) if k == "node" => Arg::Value(v.clone()),
            Some((k, v)) if k == "size" => {
                let e = sizes.parse(v)?;
                let e = sizes.affine(&e);
                e.as_const().map_or(Arg::Size(e), Arg::Int)
            }
            Some((k, Json::String(v))) if k == "float" => {
                Arg::Float(v.parse().map_err(|_| format!("not a float: {v}"))?)
            }
            _ => Arg::Other,
        },
    })
}
