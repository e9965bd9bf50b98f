//! NumPy's `.npy` files, versions 1 to 3.

use super::{HostTensor, checked_bytes};
use crate::dtype::DType;
use crate::error::{Error, Result, bail, err};
use std::path::Path;

const MAGIC: &[u8] = b"\x93NUMPY";

impl HostTensor {
    /// Reads a `.npy` file.
    pub fn read_npy(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).map_err(|e| Error::io("read the tensor", path, &e))?;
        from_npy(&bytes).map_err(|e| e.at(path.display()))
    }

    /// Writes a `.npy` file.
    pub fn write_npy(&self, path: &Path) -> Result<()> {
        crate::files::write_atomically(path, &to_npy(self))
    }
}

/// The `.npy` form. What NumPy has not is written as `numpy.save` writes the types of `ml_dtypes`: bf16 as `<V2`, the 8-bit floats
/// as `<V1` and `<f1`.
pub fn to_npy(t: &HostTensor) -> Vec<u8> {
    let descr = match t.dtype() {
        DType::F64 => "<f8",
        DType::F32 => "<f4",
        DType::F16 => "<f2",
        DType::BF16 => "<V2",
        DType::I64 => "<i8",
        DType::I32 => "<i4",
        DType::I16 => "<i2",
        DType::I8 => "|i1",
        DType::U8 => "|u1",
        DType::F8E4M3 => "<V1",
        DType::F8E5M2 => "<f1",
        DType::I1 => "|b1",
    };
    let sizes: Vec<String> = t.shape().iter().map(usize::to_string).collect();
    let shape = if sizes.len() == 1 { format!("({},)", sizes[0]) } else { format!("({})", sizes.join(", ")) };
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    let long = header.len() + 11 > u16::MAX as usize;
    let fixed = if long { 12 } else { 10 };
    while (fixed + header.len() + 1) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let mut out = MAGIC.to_vec();
    if long {
        out.extend([2, 0]);
        out.extend((header.len() as u32).to_le_bytes());
    } else {
        out.extend([1, 0]);
        out.extend((header.len() as u16).to_le_bytes());
    }
    out.extend(header.as_bytes());
    out.extend(t.bytes());
    out
}

/// The tensor in a `.npy` file's bytes. Big-endian and column-major data is put right; `<V2` is read as bf16.
pub fn from_npy(bytes: &[u8]) -> Result<HostTensor> {
    let cut = || err!(Tensor, "the .npy file is cut short: {} bytes", bytes.len()).next("write it again");
    if !bytes.starts_with(MAGIC) {
        return Err(err!(Tensor, "not a .npy file: it does not begin with \\x93NUMPY")
            .next("save it by numpy.save(path, array), not as text, pickle or .npz"));
    }
    let major = *bytes.get(6).ok_or_else(cut)?;
    let (len, start) = match major {
        1 => (
            u16::from_le_bytes(bytes.get(8..10).ok_or_else(cut)?.try_into().expect("two bytes")) as usize,
            10,
        ),
        2 | 3 => (
            u32::from_le_bytes(bytes.get(8..12).ok_or_else(cut)?.try_into().expect("four bytes")) as usize,
            12,
        ),
        v => bail!(Tensor, "version {v} of the .npy format is unknown; 1 to 3 are"),
    };
    let header = bytes.get(start..).and_then(|b| b.get(..len)).ok_or_else(cut)?;
    let header = std::str::from_utf8(header).map_err(|_| err!(Tensor, "the .npy header is not text"))?;
    let header = Header::parse(header)?;
    let data = &bytes[start + len..];
    let expected = checked_bytes(header.dtype, &header.shape)?;
    if data.len() != expected {
        let shape = &header.shape;
        return Err(err!(
            Tensor,
            "the .npy header says {} of shape {shape:?}, {expected} bytes, but {} bytes follow",
            header.dtype,
            data.len()
        )
        .next("write the file again; it is cut short or has something appended"));
    }
    let mut out = HostTensor::zeros(header.dtype, &header.shape)?;
    if header.fortran {
        from_column_major(header.dtype.size(), &header.shape, data, out.bytes_mut());
    } else {
        out.bytes_mut().copy_from_slice(data);
    }
    if header.big_endian {
        out.bytes_mut().chunks_mut(header.dtype.size()).for_each(<[u8]>::reverse);
    }
    if header.dtype == DType::I1 {
        // NumPy allows any non-zero byte; kernels count on 0 and 1.
        out.bytes_mut().iter_mut().for_each(|b| *b = (*b != 0) as u8);
    }
    Ok(out)
}

fn from_column_major(size: usize, shape: &[usize], src: &[u8], dst: &mut [u8]) {
    let mut index = vec![0usize; shape.len()];
    let mut strides = vec![1usize; shape.len()];
    for d in 1..shape.len() {
        strides[d] = strides[d - 1] * shape[d - 1];
    }
    for out in dst.chunks_mut(size) {
        let at: usize = index.iter().zip(&strides).map(|(i, s)| i * s).sum();
        out.copy_from_slice(&src[at * size..][..size]);
        for d in (0..shape.len()).rev() {
            index[d] += 1;
            if index[d] < shape[d] {
                break;
            }
            index[d] = 0;
        }
    }
}

struct Header {
    dtype: DType,
    big_endian: bool,
    fortran: bool,
    shape: Vec<usize>,
}

impl Header {
    /// Reads the Python dictionary literal with the three keys.
    fn parse(text: &str) -> Result<Self> {
        let bad = |what: &str| {
            let shown: String = text.trim_end().chars().take(120).collect();
            err!(Tensor, "the .npy header {what}: {shown}").next("save it by numpy.save(path, array)")
        };
        let value = |key: &str| {
            let after = ["'", "\""].iter().find_map(|q| text.split_once(&format!("{q}{key}{q}")))?.1;
            after.trim_start().strip_prefix(':').map(str::trim_start)
        };
        let descr = value("descr").ok_or_else(|| bad("has no 'descr'"))?;
        let quote = descr.chars().next().filter(|c| matches!(c, '\'' | '"'));
        let Some(descr) = quote.and_then(|q| descr[1..].split(q).next()) else {
            return Err(bad("has a structured type, which no tensor is"));
        };
        let (order, kind) = match descr.as_bytes().first() {
            Some(b'<' | b'|' | b'=' | b'>') => descr.split_at(1),
            _ => ("=", descr),
        };
        let dtype = match kind {
            "f8" => DType::F64,
            "f4" => DType::F32,
            "f2" => DType::F16,
            "V2" | "bfloat16" => DType::BF16,
            "i8" => DType::I64,
            "i4" => DType::I32,
            "i2" => DType::I16,
            "V1" | "float8_e4m3fn" => DType::F8E4M3,
            "f1" | "float8_e5m2" => DType::F8E5M2,
            "i1" => DType::I8,
            "u1" => DType::U8,
            "b1" | "?" => DType::I1,
            _ => {
                return Err(err!(Tensor, "the .npy file holds '{descr}', which is none of {}", known())
                    .next("convert the array first: array.astype('float32')"));
            }
        };
        let fortran = value("fortran_order").ok_or_else(|| bad("has no 'fortran_order'"))?;
        let fortran = match (fortran.starts_with("True"), fortran.starts_with("False")) {
            (true, _) => true,
            (_, true) => false,
            _ => return Err(bad("has a 'fortran_order' that is neither True nor False")),
        };
        let shape = value("shape").ok_or_else(|| bad("has no 'shape'"))?;
        let inner = shape.strip_prefix('(').and_then(|s| s.split_once(')')).map(|s| s.0);
        let sizes = inner.ok_or_else(|| bad("has a 'shape' that is no tuple"))?;
        let shape = (sizes.split(',').map(str::trim).filter(|s| !s.is_empty()))
            .map(|s| s.parse().map_err(|_| bad("has a size that is no number")))
            .collect::<Result<Vec<usize>>>()?;
        Ok(Self { dtype, big_endian: order == ">", fortran, shape })
    }
}

fn known() -> String {
    DType::ALL.map(DType::name).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn file(version: u8, header: &str, data: &[u8]) -> Vec<u8> {
        let mut out = [MAGIC, &[version, 0]].concat();
        if version == 1 {
            out.extend((header.len() as u16).to_le_bytes());
        } else {
            out.extend((header.len() as u32).to_le_bytes());
        }
        [&out, header.as_bytes(), data].concat()
    }

    #[test]
    fn versions_orders_and_layouts() {
        let data: Vec<u8> = (1..=6i32).flat_map(i32::to_be_bytes).collect();
        for version in 1..=3 {
            let h = "{'descr': '>i4', 'fortran_order': True, 'shape': (2, 3), }\n";
            let t = from_npy(&file(version, h, &data)).unwrap();
            assert_eq!((t.shape(), t.to_i64()), (&[2, 3][..], vec![1, 3, 5, 2, 4, 6]));
        }
        let t = from_npy(&file(1, "{\"descr\": \"?\", 'fortran_order':False,'shape':()}", &[7])).unwrap();
        assert_eq!((t.dtype(), t.bytes()), (DType::I1, &[1][..]));
        let t = from_npy(&file(1, "{'descr': '|V2', 'fortran_order':False,'shape':(1,)}", &[0xc0, 0x3f]))
            .unwrap();
        assert_eq!((t.dtype(), t.to_f64()), (DType::BF16, vec![1.5]));
    }

    #[test]
    fn bad_files_are_explained() {
        let h = |d: &str, s: &str| format!("{{'descr': {d}, 'fortran_order': False, 'shape': {s}, }}");
        let cases = [
            (b"hello".to_vec(), "not a .npy file"),
            (MAGIC.to_vec(), "cut short"),
            (file(9, "", &[]), "version 9"),
            (file(1, &h("'<c8'", "(1,)"), &[0; 8]), "'<c8'"),
            (file(1, &h("[('a','<i4')]", "(1,)"), &[0; 4]), "structured"),
            (file(1, &h("'<f4'", "(-1,)"), &[]), "no number"),
            (file(1, &h("'<f4'", "(9999999999999, 9999999999999)"), &[]), "does not fit"),
            (file(1, &h("'<f4'", "(99999999999,)"), &[0; 4]), "but 4 bytes follow"),
            (file(1, &h("'<f4'", "3"), &[]), "no tuple"),
            (file(1, "{'descr': '<f4'}", &[]), "fortran_order"),
        ];
        for (bytes, expected) in cases {
            let e = from_npy(&bytes).unwrap_err();
            assert!(e.reason().contains(expected), "{e} should have said {expected}");
        }
    }

    proptest! {
        #[test]
        fn round_trip(d in 0..DType::ALL.len(), shape in prop::collection::vec(0..4usize, 0..5), seed: u64) {
            let t = HostTensor::random(DType::ALL[d], &shape, seed).unwrap();
            let bytes = to_npy(&t);
            prop_assert_eq!((bytes.len() - t.bytes().len()) % 64, 0);
            prop_assert_eq!(from_npy(&bytes).unwrap(), t);
        }

        #[test]
        fn garbage_never_panics(mut bytes in prop::collection::vec(any::<u8>(), 0..200), at in 0..80usize, x: u8) {
            let _ = from_npy(&bytes);
            bytes = to_npy(&HostTensor::random(DType::F32, &[3, 2], 1).unwrap());
            bytes[at] ^= x;
            let _ = from_npy(&bytes);
        }
    }
}
