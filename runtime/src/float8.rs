//! The 8-bit floats in which tensors are stored: bits to numbers and back, as PyTorch converts them.

/// Numbers are in f32 on the way to eight bits, as in PyTorch: what starts as f64 is rounded twice.
struct Format {
    /// Bits of the fraction.
    fraction: u32,
    /// What is added to exponents.
    bias: i32,
    /// What a number becomes that is too large, an infinity included.
    overflow: u8,
    /// The smallest bits that are no finite number.
    special: u8,
}

/// One sign, four bits of exponent, three of fraction; no infinities, NaN in all bits set. Up to 448.
const E4M3FN: Format = Format { fraction: 3, bias: 7, overflow: 0x7f, special: 0x7f };
/// One sign, five bits of exponent, two of fraction: the upper half of an IEEE binary16. Up to 57344.
const E5M2: Format = Format { fraction: 2, bias: 15, overflow: 0x7c, special: 0x7c };

impl Format {
    fn decode(&self, bits: u8) -> f64 {
        let sign = if bits & 0x80 != 0 { -1.0 } else { 1.0 };
        let magnitude = bits & 0x7f;
        if magnitude >= self.special {
            return if magnitude == 0x7c { sign * f64::INFINITY } else { f64::NAN.copysign(sign) };
        }
        let (exponent, fraction) =
            (i32::from(magnitude >> self.fraction), magnitude & ((1 << self.fraction) - 1));
        // Numbers without the implied bit have the exponent of the smallest with it.
        let whole = if exponent == 0 { fraction } else { fraction | 1 << self.fraction };
        sign * f64::from(whole) * 2f64.powi(exponent.max(1) - self.bias - self.fraction as i32)
    }

    /// To nearest, ties to even.
    fn encode(&self, x: f32) -> u8 {
        let sign = if x.is_sign_negative() { 0x80 } else { 0 };
        if x.is_nan() {
            return sign | 0x7f;
        }
        let x = f64::from(x.abs());
        // The unit of the last place: never below that of the smallest normal number.
        let exponent = ((x.to_bits() >> 52) as i32 - 1023).max(1 - self.bias);
        let unit = 2f64.powi(exponent - self.fraction as i32);
        // An exact quotient, with no more bits than f32 has; where rounding carries, the exponent takes the carry.
        let steps = (x / unit).round_ties_even().min(f64::from(u8::MAX)) as u32;
        let bits = ((exponent - (1 - self.bias)) as u32).min(0xff) << self.fraction;
        sign | match bits + steps {
            b if b < u32::from(self.special) => b as u8,
            _ => self.overflow,
        }
    }
}

macro_rules! float8 {
    ($(#[$doc:meta])* $name:ident, $format:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(transparent)]
        pub struct $name(
            /// The bits.
            pub u8,
        );

        impl $name {
            /// The number nearest to `x`, ties to even.
            pub fn from_f64(x: f64) -> Self {
                Self($format.encode(x as f32))
            }

            /// The number.
            pub fn to_f64(self) -> f64 {
                $format.decode(self.0)
            }
        }
    };
}

float8! {
    /// Four bits of exponent, three of fraction, no infinities: what is above 464 becomes NaN.
    F8E4M3, E4M3FN
}
float8! {
    /// Five bits of exponent, two of fraction, with infinities.
    F8E5M2, E5M2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_both_formats() {
        let four = |x: f64| F8E4M3::from_f64(x).to_f64();
        let five = |x: f64| F8E5M2::from_f64(x).to_f64();
        assert_eq!((four(448.0), four(463.9), four(464.0), five(57344.0)), (448.0, 448.0, 448.0, 57344.0));
        assert!(four(464.1).is_nan() && four(f64::INFINITY).is_nan() && four(f64::NAN).is_nan());
        assert_eq!((five(61439.0), five(61440.0), five(-1e9)), (57344.0, f64::INFINITY, f64::NEG_INFINITY));
        assert!(five(f64::NAN).is_nan());
        assert_eq!((F8E4M3(0x01).to_f64(), F8E5M2(0x01).to_f64()), (2f64.powi(-9), 2f64.powi(-16)));
        assert_eq!((F8E4M3(0x08).to_f64(), F8E5M2(0x04).to_f64()), (2f64.powi(-6), 2f64.powi(-14)));
        assert_eq!((F8E4M3::from_f64(-0.0).0, F8E5M2::from_f64(-f64::NAN).0 & 0x7f), (0x80, 0x7f));
    }

    #[test]
    fn every_byte_comes_back_and_numbers_between_go_to_the_nearest() {
        fn check(to: fn(u8) -> f64, of: fn(f64) -> u8) {
            for b in 0..=255u8 {
                let x = to(b);
                if x.is_nan() {
                    assert!(to(of(x)).is_nan());
                    continue;
                }
                assert_eq!(of(x), b, "{x}");
                let next = if b & 0x7f < 0x7f { to(b + 1) } else { f64::NAN };
                if next.is_finite() {
                    let middle = (x + next) / 2.0;
                    assert_eq!(of(middle), if b % 2 == 0 { b } else { b + 1 }, "ties to even at {middle}");
                    assert_eq!((of((3.0 * x + next) / 4.0), of((x + 3.0 * next) / 4.0)), (b, b + 1));
                }
            }
        }
        check(|b| F8E4M3(b).to_f64(), |x| F8E4M3::from_f64(x).0);
        check(|b| F8E5M2(b).to_f64(), |x| F8E5M2::from_f64(x).0);
    }
}
