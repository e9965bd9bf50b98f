//! Tensors stored in the model: initializers and attribute values, in any of the ways ONNX stores them.

use super::diagnostic::{Diagnostic, Result, fail};
use super::proto::{TensorProto, tensor_proto::DataLocation, tensor_proto::DataType};
use prost::bytes::Bytes;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};
use strata_runtime::DType;
use strata_runtime::float8::{F8E4M3, F8E5M2};

/// Ranks beyond this are taken for a damaged file.
pub const MAX_RANK: usize = 32;

/// Tensors with more elements than this do not exist.
pub const MAX_ELEMENTS: i64 = 1 << 48;

/// A dense tensor in memory, row-major, little-endian; one byte per truth value.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// The element type.
    pub dtype: DType,
    /// The sizes.
    pub shape: Vec<i64>,
    /// The elements.
    pub bytes: Bytes,
}

impl Tensor {
    /// The number of elements.
    pub fn len(&self) -> usize {
        self.bytes.len() / self.dtype.size()
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// A float or integer tensor of the given values, each rounded to the type.
    pub fn from_f64(dtype: DType, shape: Vec<i64>, values: &[f64]) -> Self {
        let mut bytes = Vec::with_capacity(values.len() * dtype.size());
        for &x in values {
            match dtype {
                DType::F64 => bytes.extend(x.to_le_bytes()),
                DType::F32 => bytes.extend((x as f32).to_le_bytes()),
                DType::F16 => bytes.extend(half::f16::from_f64(x).to_le_bytes()),
                DType::BF16 => bytes.extend(half::bf16::from_f64(x).to_le_bytes()),
                DType::F8E4M3 => bytes.push(F8E4M3::from_f64(x).0),
                DType::F8E5M2 => bytes.push(F8E5M2::from_f64(x).0),
                _ => push_integer(&mut bytes, dtype, x as i64),
            }
        }
        Self { dtype, shape, bytes: bytes.into() }
    }

    /// An integer tensor of the given values, wrapped to the type.
    pub fn from_i64(dtype: DType, shape: Vec<i64>, values: &[i64]) -> Self {
        if dtype.is_float() {
            return Self::from_f64(dtype, shape, &values.iter().map(|&x| x as f64).collect::<Vec<_>>());
        }
        let mut bytes = Vec::with_capacity(values.len() * dtype.size());
        for &x in values {
            push_integer(&mut bytes, dtype, x);
        }
        Self { dtype, shape, bytes: bytes.into() }
    }

    /// The elements of an integer or truth tensor.
    pub fn to_i64(&self) -> Option<Vec<i64>> {
        let chunks = self.bytes.chunks_exact(self.dtype.size());
        match self.dtype {
            DType::I64 => Some(chunks.map(|c| i64::from_le_bytes(array(c))).collect()),
            DType::I32 => Some(chunks.map(|c| i32::from_le_bytes(array(c)).into()).collect()),
            DType::I16 => Some(chunks.map(|c| i16::from_le_bytes(array(c)).into()).collect()),
            DType::I8 => Some(self.bytes.iter().map(|&b| (b as i8).into()).collect()),
            DType::U8 | DType::I1 => Some(self.bytes.iter().map(|&b| b.into()).collect()),
            _ => None,
        }
    }

    /// The elements as floats, exact but for large 64-bit integers.
    pub fn to_f64(&self) -> Vec<f64> {
        let chunks = self.bytes.chunks_exact(self.dtype.size());
        match self.dtype {
            DType::F64 => chunks.map(|c| f64::from_le_bytes(array(c))).collect(),
            DType::F32 => chunks.map(|c| f32::from_le_bytes(array(c)).into()).collect(),
            DType::F16 => chunks.map(|c| half::f16::from_le_bytes(array(c)).to_f64()).collect(),
            DType::BF16 => chunks.map(|c| half::bf16::from_le_bytes(array(c)).to_f64()).collect(),
            DType::F8E4M3 => self.bytes.iter().map(|&b| F8E4M3(b).to_f64()).collect(),
            DType::F8E5M2 => self.bytes.iter().map(|&b| F8E5M2(b).to_f64()).collect(),
            _ => self.to_i64().unwrap_or_default().into_iter().map(|x| x as f64).collect(),
        }
    }
}

fn array<const N: usize>(chunk: &[u8]) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(chunk);
    out
}

fn push_integer(bytes: &mut Vec<u8>, dtype: DType, x: i64) {
    match dtype {
        DType::I64 => bytes.extend(x.to_le_bytes()),
        DType::I32 => bytes.extend((x as i32).to_le_bytes()),
        DType::I16 => bytes.extend((x as i16).to_le_bytes()),
        DType::I1 => bytes.push((x != 0).into()),
        _ => bytes.push(x as u8),
    }
}

/// The element type for ONNX's number of it.
pub fn dtype(code: i32) -> Result<DType> {
    let known = DataType::try_from(code)
        .map_err(|_| Diagnostic::new(format!("unknown element type number {code}")))?;
    Ok(match known {
        DataType::Float => DType::F32,
        DataType::Double => DType::F64,
        DataType::Float16 => DType::F16,
        DataType::Bfloat16 => DType::BF16,
        DataType::Int64 => DType::I64,
        DataType::Int32 => DType::I32,
        DataType::Int16 => DType::I16,
        DataType::Int8 => DType::I8,
        DataType::Uint8 => DType::U8,
        DataType::Float8e4m3fn => DType::F8E4M3,
        DataType::Float8e5m2 => DType::F8E5M2,
        DataType::Bool => DType::I1,
        other => {
            return Err(Diagnostic::new(format!("element type {} has no counterpart", other.as_str_name()))
                .help("supported: FLOAT, DOUBLE, FLOAT16, BFLOAT16, FLOAT8E4M3FN, FLOAT8E5M2, INT64, INT32, INT16, INT8, UINT8, BOOL; convert the model to one of these"));
        }
    })
}

/// Reads a stored tensor. `folder` is where external data files lie.
pub fn read(proto: &TensorProto, folder: Option<&Path>) -> Result<Tensor> {
    let dtype = dtype(proto.data_type())?;
    let count = element_count(&proto.dims)?;
    let size = count
        .checked_mul(dtype.size())
        .filter(|&s| s <= isize::MAX as usize)
        .ok_or_else(|| Diagnostic::new(format!("sizes {:?} are more than any memory holds", proto.dims)))?;
    if proto.segment.is_some() {
        fail!("the tensor is stored in segments, which no known exporter writes");
    }
    let mut bytes = if proto.data_location() == DataLocation::External {
        external(proto, folder, size)?
    } else if let Some(raw) = &proto.raw_data {
        raw.clone()
    } else {
        typed(proto, dtype, count)?
    };
    if bytes.len() != size {
        fail!("{} bytes are stored, but {dtype} of sizes {:?} takes {size}", bytes.len(), proto.dims);
    }
    if dtype == DType::I1 && bytes.iter().any(|&b| b > 1) {
        bytes = bytes.iter().map(|&b| u8::from(b != 0)).collect();
    }
    Ok(Tensor { dtype, shape: proto.dims.clone(), bytes })
}

fn element_count(dims: &[i64]) -> Result<usize> {
    if dims.len() > MAX_RANK {
        fail!("rank {} (at most {MAX_RANK} is accepted)", dims.len());
    }
    // A size of 0 makes the tensor empty, but does not excuse the sizes beside it.
    let extent = dims.iter().fold(1i64, |n, &d| n.saturating_mul(d.max(1)));
    if extent > MAX_ELEMENTS {
        fail!("sizes {dims:?} are more than any memory holds");
    }
    let mut count = 1usize;
    for &d in dims {
        let d =
            usize::try_from(d).map_err(|_| Diagnostic::new(format!("size {d} in {dims:?} is negative")))?;
        count = count
            .checked_mul(d)
            .ok_or_else(|| Diagnostic::new(format!("sizes {dims:?} are more than any memory holds")))?;
    }
    Ok(count)
}

/// The elements from the field that their type is stored in. The length is checked before anything is allocated.
fn typed(proto: &TensorProto, dtype: DType, count: usize) -> Result<Bytes> {
    let stored = match dtype {
        DType::F64 => proto.double_data.len(),
        DType::F32 => proto.float_data.len(),
        DType::I64 => proto.int64_data.len(),
        _ => proto.int32_data.len(),
    };
    if stored != count {
        fail!("{stored} elements are stored, but sizes {:?} need {count}", proto.dims);
    }
    let ints = &proto.int32_data;
    Ok(match dtype {
        DType::F64 => proto.double_data.iter().flat_map(|x| x.to_le_bytes()).collect(),
        DType::F32 => proto.float_data.iter().flat_map(|x| x.to_le_bytes()).collect(),
        DType::I64 => proto.int64_data.iter().flat_map(|x| x.to_le_bytes()).collect(),
        DType::I32 => ints.iter().flat_map(|x| x.to_le_bytes()).collect(),
        // Half precision is stored as its bits.
        DType::F16 | DType::BF16 | DType::I16 => {
            ints.iter().flat_map(|&x| (x as u16).to_le_bytes()).collect()
        }
        DType::I8 | DType::U8 | DType::F8E4M3 | DType::F8E5M2 => ints.iter().map(|&x| x as u8).collect(),
        DType::I1 => ints.iter().map(|&x| u8::from(x != 0)).collect(),
    })
}

fn external(proto: &TensorProto, folder: Option<&Path>, size: usize) -> Result<Bytes> {
    let entry = |key: &str| proto.external_data.iter().find(|e| e.key() == key).map(|e| e.value());
    let number = |key: &str| -> Result<Option<u64>> {
        entry(key)
            .map(|v| {
                v.parse().map_err(|_| Diagnostic::new(format!("external data: {key} '{v}' is not a number")))
            })
            .transpose()
    };
    let location = entry("location").ok_or_else(|| Diagnostic::new("external data without a location"))?;
    // A model must not be able to read anything but what lies beside it.
    let inside =
        Path::new(location).components().all(|c| matches!(c, Component::Normal(_) | Component::CurDir));
    if location.is_empty() || !inside {
        fail!("external data location '{location}' leads out of the model's folder");
    }
    let folder = folder.ok_or_else(|| {
        Diagnostic::new(format!(
            "the data is in the file '{location}', but the model was not read from a folder"
        ))
        .help("give the model as a path, so that files beside it can be found")
    })?;
    let path: PathBuf = folder.join(location);
    let offset = number("offset")?.unwrap_or(0);
    if let Some(length) = number("length")?.filter(|&l| l != size as u64) {
        fail!("external data: length is {length}, but the tensor takes {size} bytes");
    }
    let broken = |e: std::io::Error| {
        Diagnostic::new(format!("external data file '{location}': {e}"))
            .help("put the file that was exported with the model beside it")
    };
    let mut file = File::open(&path).map_err(broken)?;
    let available = file.metadata().map_err(broken)?.len().saturating_sub(offset);
    if available < size as u64 {
        fail!(
            "external data file '{location}' holds {available} bytes from offset {offset}, but the tensor takes {size}"
        );
    }
    file.seek(SeekFrom::Start(offset)).map_err(broken)?;
    let mut bytes = vec![0; size];
    file.read_exact(&mut bytes).map_err(broken)?;
    Ok(bytes.into())
}
