//! Tensors of the reference interpreters: every float as f64, every integer as i64, row-major. Slow and plain.

use std::fmt;
use strata_runtime::DType;
use strata_runtime::float8::{F8E4M3, F8E5M2};

/// How results of float ops are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// Each op rounds its result to its element type, as hardware that computes in that type would.
    Exact,
    /// Results stay in float64, whatever the element type: what the program would give without rounding.
    Float64,
}

impl Rounding {
    /// A partial result of a sum or product of elements of `dtype`: kept in f32 for narrower floats, in the type itself otherwise.
    pub fn keep(self, dtype: DType, x: Scalar) -> Scalar {
        match (self, dtype, x) {
            (Self::Exact, DType::F32 | DType::F16 | DType::BF16, Scalar::F(x)) => {
                Scalar::F(DType::F32.round(x))
            }
            _ => x,
        }
    }
}

/// The values of a tensor.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Values of a float tensor.
    Float(Vec<f64>),
    /// Values of an integer tensor, sign-extended (`ui8`: 0 to 255, `i1`: 0 or 1).
    Int(Vec<i64>),
}

/// A tensor of concrete shape.
#[derive(Clone, Debug, PartialEq)]
pub struct RefTensor {
    /// Element type.
    pub dtype: DType,
    /// Sizes, outermost first.
    pub shape: Vec<usize>,
    /// Elements in row-major order.
    pub values: Values,
}

/// One element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    /// Of a float tensor.
    F(f64),
    /// Of an integer tensor.
    I(i64),
}

impl Scalar {
    /// The float; panics on an integer: op dtypes are verified before evaluation.
    pub fn f(self) -> f64 {
        match self {
            Self::F(x) => x,
            Self::I(i) => panic!("expected a float element, found the integer {i}"),
        }
    }

    /// The integer; panics on a float.
    pub fn i(self) -> i64 {
        match self {
            Self::I(x) => x,
            Self::F(f) => panic!("expected an integer element, found the float {f}"),
        }
    }
}

impl RefTensor {
    /// A tensor whose element at flat position `i` is `f(i)`, rounded as asked.
    pub fn generate(
        dtype: DType,
        shape: &[usize],
        rounding: Rounding,
        mut f: impl FnMut(usize) -> Scalar,
    ) -> Self {
        let n = shape.iter().product();
        let values = if dtype.is_float() {
            let fix = |x| if rounding == Rounding::Exact { dtype.round(x) } else { x };
            Values::Float((0..n).map(|i| fix(f(i).f())).collect())
        } else {
            Values::Int((0..n).map(|i| dtype.wrap(f(i).i())).collect())
        };
        Self { dtype, shape: shape.to_vec(), values }
    }

    /// From little-endian bytes, one byte an `i1`; `splat`: they hold one element that stands for all.
    pub fn from_bytes(dtype: DType, shape: &[usize], bytes: &[u8], splat: bool) -> Result<Self, String> {
        let n: usize = shape.iter().product();
        let needed = if splat { dtype.size() } else { n * dtype.size() };
        if bytes.len() < needed {
            return Err(format!("{n} elements of {dtype} take {needed} bytes, found {}", bytes.len()));
        }
        let at = |i: usize| {
            let i = if splat { 0 } else { i };
            let b = &bytes[i * dtype.size()..(i + 1) * dtype.size()];
            match dtype {
                DType::F64 => Scalar::F(f64::from_le_bytes(b.try_into().expect("8 bytes"))),
                DType::F32 => Scalar::F(f32::from_le_bytes(b.try_into().expect("4 bytes")) as f64),
                DType::F16 => Scalar::F(half::f16::from_le_bytes(b.try_into().expect("2 bytes")).to_f64()),
                DType::BF16 => Scalar::F(half::bf16::from_le_bytes(b.try_into().expect("2 bytes")).to_f64()),
                DType::I64 => Scalar::I(i64::from_le_bytes(b.try_into().expect("8 bytes"))),
                DType::I32 => Scalar::I(i32::from_le_bytes(b.try_into().expect("4 bytes")) as i64),
                DType::F8E4M3 => Scalar::F(F8E4M3(b[0]).to_f64()),
                DType::F8E5M2 => Scalar::F(F8E5M2(b[0]).to_f64()),
                DType::I16 => Scalar::I(i16::from_le_bytes(b.try_into().expect("2 bytes")) as i64),
                DType::I8 => Scalar::I(b[0] as i8 as i64),
                DType::U8 => Scalar::I(b[0] as i64),
                DType::I1 => Scalar::I(i64::from(b[0] != 0)),
            }
        };
        Ok(Self::generate(dtype, shape, Rounding::Exact, at))
    }

    /// Little-endian bytes, one byte an `i1`.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.len() * self.dtype.size());
        for i in 0..self.len() {
            match (self.dtype, self.get(i)) {
                (DType::F64, Scalar::F(x)) => out.extend(x.to_le_bytes()),
                (DType::F32, Scalar::F(x)) => out.extend((x as f32).to_le_bytes()),
                (DType::F16, Scalar::F(x)) => out.extend(half::f16::from_f64(x).to_le_bytes()),
                (DType::BF16, Scalar::F(x)) => out.extend(half::bf16::from_f64(x).to_le_bytes()),
                (DType::I64, Scalar::I(x)) => out.extend(x.to_le_bytes()),
                (DType::F8E4M3, Scalar::F(x)) => out.push(F8E4M3::from_f64(x).0),
                (DType::F8E5M2, Scalar::F(x)) => out.push(F8E5M2::from_f64(x).0),
                (DType::I32, Scalar::I(x)) => out.extend((x as i32).to_le_bytes()),
                (DType::I16, Scalar::I(x)) => out.extend((x as i16).to_le_bytes()),
                (_, Scalar::I(x)) => out.push(x as u8),
                (_, Scalar::F(_)) => unreachable!("values match the element type"),
            }
        }
        out
    }

    /// The same bits as elements of another type of the same size; floats are rounded to their type first.
    pub fn bitcast(self, dtype: DType) -> Self {
        if self.dtype == dtype {
            return self;
        }
        let bytes = self.to_bytes();
        Self::from_bytes(dtype, &self.shape, &bytes, false).expect("types of one size")
    }

    /// The elements as they are below the graph level.
    pub fn stored(self) -> Self {
        let storage = self.dtype.storage();
        self.bitcast(storage)
    }

    /// A tensor of rank 0.
    pub fn scalar(dtype: DType, value: Scalar) -> Self {
        Self::generate(dtype, &[], Rounding::Exact, |_| value)
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        match &self.values {
            Values::Float(v) => v.len(),
            Values::Int(v) => v.len(),
        }
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element at a flat position.
    pub fn get(&self, i: usize) -> Scalar {
        match &self.values {
            Values::Float(v) => Scalar::F(v[i]),
            Values::Int(v) => Scalar::I(v[i]),
        }
    }

    /// The element at an index.
    pub fn at(&self, index: &[usize]) -> Scalar {
        self.get(flatten(index, &self.shape))
    }

    /// The float values; panics on an integer tensor.
    pub fn floats(&self) -> &[f64] {
        match &self.values {
            Values::Float(v) => v,
            Values::Int(_) => panic!("expected a float tensor, found {}", self.dtype),
        }
    }

    /// The integer values; panics on a float tensor.
    pub fn ints(&self) -> &[i64] {
        match &self.values {
            Values::Int(v) => v,
            Values::Float(_) => panic!("expected an integer tensor, found {}", self.dtype),
        }
    }
}

/// The flat row-major position of an index.
pub fn flatten(index: &[usize], shape: &[usize]) -> usize {
    index.iter().zip(shape).fold(0, |flat, (i, n)| flat * n + i)
}

/// The index at a flat row-major position.
pub fn unflatten(mut flat: usize, shape: &[usize]) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for (i, n) in index.iter_mut().zip(shape).rev() {
        *i = flat % n;
        flat /= n;
    }
    index
}

/// `f32[2, 2] = 1, 2, 3, 4`; long tensors are cut after 16 elements.
impl fmt::Display for RefTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?} =", self.dtype, self.shape)?;
        for i in 0..self.len().min(16) {
            let sep = if i > 0 { "," } else { "" };
            match self.get(i) {
                Scalar::F(x) => write!(f, "{sep} {x}")?,
                Scalar::I(x) => write!(f, "{sep} {x}")?,
            }
        }
        if self.len() > 16 { write!(f, ", … ({} elements)", self.len()) } else { Ok(()) }
    }
}
