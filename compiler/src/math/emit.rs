//! The small language that the expansions are written in: float and integer arithmetic on scalars or vectors.

use crate::kernel::{Builder, Val};
use melior::ir::{Type, ValueLike};
use strata_dialects::build::{element_type, is_vector, lanes, vector_of, with_element};

/// What the expansions may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hardware {
    /// A processor; `fma` where it multiplies and adds in one instruction. Without it, `llvm.intr.fma` would be a library call.
    Cpu {
        /// Fused multiply-add exists.
        fma: bool,
    },
    /// An NVIDIA GPU with its approximate instructions.
    Nvptx {
        /// Only where they are accurate to about 2 ulp over the whole range.
        strict: bool,
    },
    /// A processor that computes what a GPU kernel in default numerics does, but for the last bits of its approximate instructions.
    NvptxOnCpu,
}

impl Hardware {
    /// Whether formulas are those of a GPU.
    pub fn is_gpu(self) -> bool {
        matches!(self, Self::Nvptx { .. } | Self::NvptxOnCpu)
    }

    /// Whether the approximations of a GPU's default numerics are used.
    pub fn is_fast(self) -> bool {
        matches!(self, Self::Nvptx { strict: false } | Self::NvptxOnCpu)
    }
}

/// Emits arithmetic on one float type.
#[derive(Clone, Copy)]
pub struct Emit<'c> {
    /// Where ops go.
    pub b: Builder<'c>,
    /// What may be used.
    pub hw: Hardware,
    /// The float type: `f32`, `f64`, or vectors of them.
    pub ty: Type<'c>,
}

/// Predicates of `arith.cmpf`.
#[derive(Clone, Copy)]
pub enum Cmp {
    /// Ordered and equal.
    Eq = 1,
    /// Ordered and greater.
    Gt = 2,
    /// Ordered and greater or equal.
    Ge = 3,
    /// Ordered and less.
    Lt = 4,
    /// Ordered and less or equal.
    Le = 5,
    /// Unordered or not equal.
    Ne = 13,
    /// Unordered.
    Nan = 14,
}

impl<'c> Emit<'c> {
    /// Whether the elements are `f64`.
    pub fn double(&self) -> bool {
        element_type(self.ty) == self.b.ty("f64")
    }

    /// The same with another float type.
    pub fn typed(&self, ty: Type<'c>) -> Self {
        Self { ty, ..*self }
    }

    /// The integer type of the same shape and width.
    pub fn int_ty(&self) -> Type<'c> {
        with_element(self.ty, self.b.ty(if self.double() { "i64" } else { "i32" }))
    }

    /// A float constant.
    pub fn c(&self, value: f64) -> Val<'c> {
        self.b.float(value, self.ty)
    }

    /// An integer constant.
    pub fn ic(&self, value: i64) -> Val<'c> {
        self.b.int(value, self.int_ty())
    }

    fn bin(&self, op: &str, a: Val<'c>, b: Val<'c>) -> Val<'c> {
        self.b.value(op, &[a, b], a.r#type(), &[])
    }

    /// `a + b`, rounded.
    pub fn add(&self, a: Val<'c>, b: Val<'c>) -> Val<'c> {
        self.bin("arith.addf", a, b)
    }

    /// `a - b`, rounded.
    pub fn sub(&self, a: Val<'c>, b: Val<'c>) -> Val<'c> {
        self.bin("arith.subf", a, b)
    }

    /// `a · b`, rounded.
    pub fn mul(&self, a: Val<'c>, b: Val<'c>) -> Val<'c> {
        self.bin("arith.mulf", a, b)
    }

    /// `a / b`: rounded, or within 2 ulp on a GPU.
    pub fn div(&self, a: Val<'c>, b: Val<'c>) -> Val<'c> {
        if self.hw.is_gpu() && !self.double() {
            return self.intrinsic("llvm.nvvm.div.full", &[a, b]);
        }
        self.bin("arith.divf", a, b)
    }

    /// `-a`.
    pub fn neg(&self, a: Val<'c>) -> Val<'c> {
        self.b.value("arith.negf", &[a], a.r#type(), &[])
    }

    /// `a · b + c`: in one rounding where the hardware can, in two elsewhere.
    pub fn fma(&self, a: Val<'c>, b: Val<'c>, c: Val<'c>) -> Val<'c> {
        if self.hw == (Hardware::Cpu { fma: false }) {
            return self.add(self.mul(a, b), c);
        }
        self.b.value("llvm.intr.fma", &[a, b, c], a.r#type(), &[])
    }

    /// Horner's scheme; the highest coefficient first.
    pub fn poly(&self, x: Val<'c>, coefficients: &[f64]) -> Val<'c> {
        let mut p = self.c(coefficients[0]);
        for &c in &coefficients[1..] {
            p = self.fma(p, x, self.c(c));
        }
        p
    }

    /// Comparison of floats.
    pub fn cmp(&self, how: Cmp, a: Val<'c>, b: Val<'c>) -> Val<'c> {
        let ty = self.b.bool_like(a.r#type());
        self.b.value("arith.cmpf", &[a, b], ty, &[("predicate", self.b.i64_attr(how as i64))])
    }

    /// `condition ? yes : no`.
    pub fn select(&self, condition: Val<'c>, yes: Val<'c>, no: Val<'c>) -> Val<'c> {
        self.b.select(condition, yes, no)
    }

    /// `x` cut to `[low, high]`; NaN stays.
    pub fn clamp(&self, x: Val<'c>, low: f64, high: f64) -> Val<'c> {
        let (low, high) = (self.c(low), self.c(high));
        let x = self.select(self.cmp(Cmp::Lt, x, low), low, x);
        self.select(self.cmp(Cmp::Gt, x, high), high, x)
    }

    /// The bits of a float.
    pub fn bits(&self, x: Val<'c>) -> Val<'c> {
        self.b.value("arith.bitcast", &[x], self.int_ty(), &[])
    }

    /// The float of these bits.
    pub fn of_bits(&self, x: Val<'c>) -> Val<'c> {
        self.b.value("arith.bitcast", &[x], self.ty, &[])
    }

    /// An integer op (`addi`, `andi`, `shli`, …) with a constant.
    pub fn int(&self, op: &str, a: Val<'c>, c: i64) -> Val<'c> {
        self.ints(op, a, self.ic(c))
    }

    /// An integer op (`addi`, `andi`, `shli`, …).
    pub fn ints(&self, op: &str, a: Val<'c>, b: Val<'c>) -> Val<'c> {
        self.bin(&format!("arith.{op}"), a, b)
    }

    /// An op (`andi`, `ori`) on truth values.
    pub fn ints_bool(&self, op: &str, a: Val<'c>, b: Val<'c>) -> Val<'c> {
        self.bin(&format!("arith.{op}"), a, b)
    }

    /// The other truth value.
    pub fn not(&self, a: Val<'c>) -> Val<'c> {
        self.bin("arith.xori", a, self.b.int(-1, a.r#type()))
    }

    /// The sign bit alone.
    pub fn sign_bit(&self) -> i64 {
        if self.double() { i64::MIN } else { i64::from(i32::MIN) }
    }

    /// Whether the sign bit is set: of -0 and of a negative NaN, too.
    pub fn negative(&self, x: Val<'c>) -> Val<'c> {
        const SLT: i64 = 2;
        self.b.cmpi(SLT, self.bits(x), self.ic(0))
    }

    /// `|x|`.
    pub fn abs(&self, x: Val<'c>) -> Val<'c> {
        self.of_bits(self.int("andi", self.bits(x), !self.sign_bit()))
    }

    /// `magnitude` (not negative) with the sign of `sign`.
    pub fn with_sign(&self, magnitude: Val<'c>, sign: Val<'c>) -> Val<'c> {
        let s = self.int("andi", self.bits(sign), self.sign_bit());
        self.of_bits(self.ints("ori", self.bits(magnitude), s))
    }

    /// The nearest integer `n` to `x` as a float and as an integer, for `|x| < 2^22` (`2^51`). Adding and taking away
    /// 1.5 · 2^23 rounds, and leaves the integer in the low bits; no conversion instruction, defined for NaN.
    pub fn nearest(&self, x: Val<'c>) -> (Val<'c>, Val<'c>) {
        let magic = if self.double() { 6_755_399_441_055_744.0 } else { 12_582_912.0 };
        let t = self.add(x, self.c(magic));
        let bits = if self.double() { magic.to_bits() as i64 } else { i64::from((magic as f32).to_bits()) };
        (self.sub(t, self.c(magic)), self.int("subi", self.bits(t), bits))
    }

    /// `2^n` for an integer `n` in the range of normal numbers.
    pub fn exp2_int(&self, n: Val<'c>) -> Val<'c> {
        let (bias, mantissa) = if self.double() { (1023, 52) } else { (127, 23) };
        self.of_bits(self.int("shli", self.int("addi", n, bias), mantissa))
    }

    /// An intrinsic: those of one target on each element, LLVM's own on whole vectors.
    pub fn intrinsic(&self, intrinsic: &str, operands: &[Val<'c>]) -> Val<'c> {
        if self.hw == Hardware::NvptxOnCpu
            && let Some(v) = self.stand_in(intrinsic, operands)
        {
            return v;
        }
        let ty = operands[0].r#type();
        let call = |operands: &[Val<'c>], result: Type<'c>| {
            let attributes = [
                ("intrin", self.b.attr(&format!("\"{intrinsic}\""))),
                ("op_bundle_sizes", self.b.attr("array<i32>")),
                ("operandSegmentSizes", self.b.attr(&format!("array<i32: {}, 0>", operands.len()))),
            ];
            self.b.value("llvm.call_intrinsic", operands, result, &attributes)
        };
        if !is_vector(ty) || !intrinsic.starts_with("llvm.nvvm.") {
            return call(operands, ty);
        }
        let elements: Vec<_> = (0..lanes(ty))
            .map(|i| {
                let position = self.b.attr(&format!("array<i64: {i}>"));
                let parts: Vec<_> = operands
                    .iter()
                    .map(|v| {
                        self.b.value(
                            "vector.extract",
                            &[*v],
                            element_type(ty),
                            &[("static_position", position)],
                        )
                    })
                    .collect();
                call(&parts, element_type(ty))
            })
            .collect();
        self.b.value("vector.from_elements", &elements, ty, &[])
    }

    /// What a processor computes for an approximate instruction of a GPU.
    fn stand_in(&self, intrinsic: &str, operands: &[Val<'c>]) -> Option<Val<'c>> {
        let exact = Self { hw: Hardware::Cpu { fma: true }, ..*self };
        Some(match intrinsic {
            "llvm.nvvm.ex2.approx.ftz.f" => super::exponential::exp2(&exact, operands[0]),
            "llvm.nvvm.rsqrt.approx.f" => exact.div(exact.c(1.0), exact.intrinsic("llvm.sqrt", operands)),
            "llvm.nvvm.rcp.approx.ftz.f" => exact.div(exact.c(1.0), operands[0]),
            "llvm.nvvm.div.full" => exact.div(operands[0], operands[1]),
            _ => return None,
        })
    }

    /// The vector (or scalar) type with elements `element` and as many elements as this one.
    pub fn like(&self, element: &str) -> Type<'c> {
        let element = self.b.ty(element);
        if is_vector(self.ty) { vector_of(lanes(self.ty), element) } else { element }
    }
}
