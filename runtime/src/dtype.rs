//! Element types.

use crate::float8::{F8E4M3, F8E5M2};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The element type of a tensor. Integers but `ui8` are two's complement numbers. The 8-bit floats are types to store elements in:
/// they are converted, moved, chosen and compared, and no op computes in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum DType {
    /// IEEE binary64.
    F64,
    /// IEEE binary32.
    F32,
    /// IEEE binary16.
    F16,
    /// bfloat16: the upper half of a binary32.
    BF16,
    /// 8-bit float with four bits of exponent, no infinities ([`F8E4M3`]).
    F8E4M3,
    /// 8-bit float with five bits of exponent ([`F8E5M2`]).
    F8E5M2,
    /// 64-bit integer.
    I64,
    /// 32-bit integer.
    I32,
    /// 16-bit integer.
    I16,
    /// 8-bit integer.
    I8,
    /// 8-bit natural number, 0 to 255.
    U8,
    /// Truth value; one byte in memory, 0 or 1.
    I1,
}

impl DType {
    /// Every element type, widest float first.
    pub const ALL: [DType; 12] = [
        Self::F64,
        Self::F32,
        Self::F16,
        Self::BF16,
        Self::F8E4M3,
        Self::F8E5M2,
        Self::I64,
        Self::I32,
        Self::I16,
        Self::I8,
        Self::U8,
        Self::I1,
    ];

    /// Bytes that one element takes in memory.
    pub const fn size(self) -> usize {
        match self {
            Self::F64 | Self::I64 => 8,
            Self::F32 | Self::I32 => 4,
            Self::F16 | Self::BF16 | Self::I16 => 2,
            Self::F8E4M3 | Self::F8E5M2 | Self::I8 | Self::U8 | Self::I1 => 1,
        }
    }

    /// Whether this is a floating-point type.
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F64 | Self::F32 | Self::F16 | Self::BF16) || self.is_float8()
    }

    /// Whether this is an 8-bit float, which nothing is computed in.
    pub const fn is_float8(self) -> bool {
        matches!(self, Self::F8E4M3 | Self::F8E5M2)
    }

    /// Whether this is a floating-point type that ops compute in.
    pub const fn is_real(self) -> bool {
        self.is_float() && !self.is_float8()
    }

    /// Whether ops compute in this type: every one but the 8-bit floats and `i1`.
    pub const fn is_number(self) -> bool {
        !self.is_float8() && !matches!(self, Self::I1)
    }

    /// The type that holds the elements below the graph level, where integers have no sign and 8-bit floats are bits.
    pub const fn storage(self) -> Self {
        match self {
            Self::U8 | Self::F8E4M3 | Self::F8E5M2 => Self::I8,
            other => other,
        }
    }

    /// The name in MLIR text: `f32`, `bf16`, `i1`, ….
    pub const fn name(self) -> &'static str {
        match self {
            Self::F64 => "f64",
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::BF16 => "bf16",
            Self::F8E4M3 => "f8E4M3FN",
            Self::F8E5M2 => "f8E5M2",
            Self::I64 => "i64",
            Self::I32 => "i32",
            Self::I16 => "i16",
            Self::I8 => "i8",
            Self::U8 => "ui8",
            Self::I1 => "i1",
        }
    }

    /// Distance from 1 to the next larger value, for floats.
    pub const fn epsilon(self) -> Option<f64> {
        match self {
            Self::F64 => Some(f64::EPSILON),
            Self::F32 => Some(f32::EPSILON as f64),
            Self::F16 => Some(9.765625e-4),
            Self::BF16 => Some(7.8125e-3),
            Self::F8E4M3 => Some(0.125),
            Self::F8E5M2 => Some(0.25),
            _ => None,
        }
    }

    /// The type in which sums and functions of elements are computed: f32 for narrower floats, i32 for `ui8`, whose order signless
    /// bytes do not have, the type itself otherwise.
    pub const fn accumulator(self) -> Self {
        match self {
            Self::F16 | Self::BF16 | Self::F8E4M3 | Self::F8E5M2 => Self::F32,
            Self::U8 => Self::I32,
            other => other,
        }
    }

    /// `x` rounded to this type (nearest, ties to even) and widened again. Integers wrap to their width.
    ///
    /// The double rounding f64 → f32 is harmless for the basic operations (Figueroa 1995); f16 and bf16 are
    /// rounded from f64 directly.
    pub fn round(self, x: f64) -> f64 {
        match self {
            Self::F64 => x,
            Self::F32 => x as f32 as f64,
            Self::F16 => half::f16::from_f64(x).to_f64(),
            Self::BF16 => half::bf16::from_f64(x).to_f64(),
            Self::F8E4M3 => F8E4M3::from_f64(x).to_f64(),
            Self::F8E5M2 => F8E5M2::from_f64(x).to_f64(),
            _ => self.wrap(x as i64) as f64,
        }
    }

    /// `x` wrapped to the width of this integer type (sign-extended; `ui8` extended by zeros; `i1` keeps the lowest bit).
    pub const fn wrap(self, x: i64) -> i64 {
        match self {
            Self::I32 => x as i32 as i64,
            Self::I16 => x as i16 as i64,
            Self::I8 => x as i8 as i64,
            Self::U8 => x as u8 as i64,
            Self::I1 => x & 1,
            _ => x,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for DType {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|d| d.name() == s).ok_or_else(|| {
            format!("unknown element type '{s}'; known: {}", Self::ALL.map(DType::name).join(", "))
        })
    }
}
