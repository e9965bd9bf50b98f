//! Elementary and special functions, as the interpreter computes what they are lowered to, against another source: a C library's
//! functions, or laws that tie two functions together.

use super::{evaluate, graph, numbers, print, run, tensor};
use serde_json::json;
use std::f64::consts::{FRAC_2_PI, PI};
use strata_runtime::DType;

fn values(op: &str, keys: &[&str], x: &[&[f64]]) -> Vec<f64> {
    let args: serde_json::Map<_, _> =
        keys.iter().enumerate().map(|(i, k)| ((*k).to_owned(), json!({ "node": format!("x{i}") }))).collect();
    let shape = [x[0].len()];
    let inputs: Vec<_> = x.iter().map(|x| (DType::F64, "float64", &shape[..], *x)).collect();
    numbers(&run(op, args.into(), &inputs, tensor("float64", json!(shape)))[0])
}

fn of(op: &str, x: &[f64]) -> Vec<f64> {
    let key = if ["scaled", "spherical", "airy"].iter().any(|w| op.contains(w)) { "x" } else { "self" };
    values(op, &[key], &[x])
}

/// `n` numbers from `low` to `high`.
fn grid(low: f64, high: f64, n: usize) -> Vec<f64> {
    (0..n).map(|i| low + (high - low) * i as f64 / (n - 1) as f64).collect()
}

/// Largest error, relative to the larger of the exact value and `scale`.
fn close(name: &str, x: &[f64], got: &[f64], exact: impl Fn(f64) -> f64, scale: f64, bound: f64) {
    for (&x, &y) in x.iter().zip(got) {
        let e = exact(x);
        let same = y == e || y.is_nan() && e.is_nan();
        let error = (y - e).abs() / e.abs().max(scale);
        assert!(same || error <= bound, "{name}({x:e}) = {y:e}, exact {e:e}: {error:e}");
    }
}

fn around_zero() -> Vec<f64> {
    let mut x = grid(-30.0, 30.0, 601);
    x.extend([
        0.0,
        -0.0,
        1e-300,
        -1e-9,
        1e-5,
        0.999_999_9,
        -1.0,
        1.0,
        1e200,
        -1e300,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
    ]);
    x
}

type Function = fn(f64) -> f64;

#[test]
fn elementary_functions_are_the_c_librarys() {
    let table: &[(&str, Function)] = &[
        ("aten.acos.default", f64::acos),
        ("aten.asin.default", f64::asin),
        ("aten.atan.default", f64::atan),
        ("aten.acosh.default", f64::acosh),
        ("aten.asinh.default", f64::asinh),
        ("aten.atanh.default", libm::atanh),
        ("aten.cosh.default", f64::cosh),
        ("aten.sinh.default", f64::sinh),
        ("aten.erfc.default", libm::erfc),
        ("aten.lgamma.default", libm::lgamma),
        ("aten.special_bessel_j0.default", libm::j0),
        ("aten.special_bessel_j1.default", libm::j1),
    ];
    let mut x = around_zero();
    x.extend(grid(-1.0, 1.0, 81));
    for &(op, exact) in table {
        let bessel = op.contains("bessel");
        // The library reduces large angles otherwise, and defines J at infinity.
        let x: Vec<f64> = x.iter().copied().filter(|v| !bessel || v.abs() < 1e5 || v.is_nan()).collect();
        let scale = match op {
            _ if bessel => 0.1,
            "aten.lgamma.default" => 1.0,
            _ => 1e-300,
        };
        let bound = if bessel { 2e-13 } else { 2e-14 };
        close(op, &x, &of(op, &x), exact, scale, bound);
    }
}

#[test]
fn special_functions_have_known_values() {
    let zeta2 = PI * PI / 6.0;
    let table: &[(&str, f64, f64)] = &[
        ("aten.digamma.default", 1.0, -0.577_215_664_901_532_9),
        ("aten.digamma.default", -0.5, 0.036_489_973_978_576_52),
        ("aten.digamma.default", 0.0, f64::NEG_INFINITY),
        ("aten.digamma.default", -0.0, f64::INFINITY),
        ("aten.digamma.default", -3.0, f64::NAN),
        ("aten.i0.default", 3.0, 4.880_792_585_865_024),
        ("aten.special_i1.default", -3.0, -3.953_370_217_402_609),
        ("aten.special_modified_bessel_k0.default", 1.0, 0.421_024_438_240_708_34),
        ("aten.special_modified_bessel_k1.default", 1.0, 0.601_907_230_197_234_6),
        ("aten.special_modified_bessel_k0.default", 0.0, f64::INFINITY),
        ("aten.special_modified_bessel_k0.default", -1.0, f64::NAN),
        ("aten.special_bessel_y0.default", 0.0, f64::NEG_INFINITY),
        ("aten.special_bessel_y1.default", -2.0, f64::NAN),
        ("aten.special_erfcx.default", 10.0, 0.056_140_992_743_822_58),
        ("aten.special_erfcx.default", -5.0, 144_009_798_674.661_03),
        ("aten.erfinv.default", 0.5, 0.476_936_276_204_469_9),
        ("aten.erfinv.default", 1.0, f64::INFINITY),
        ("aten.erfinv.default", -1.5, f64::NAN),
        ("aten.special_ndtri.default", 0.975, 1.959_963_984_540_054),
        ("aten.special_ndtri.default", 1e-300, -37.047_096_299_361_2),
        ("aten.special_ndtri.default", 0.0, f64::NEG_INFINITY),
        ("aten.special_airy_ai.default", 0.0, 0.355_028_053_887_817_2),
        ("aten.special_airy_ai.default", -5.0, 0.350_761_009_024_114_3),
        ("aten.special_airy_ai.default", 5.0, 0.000_108_344_428_136_074_42),
        ("aten.special_airy_ai.default", 30.0, 3.208_217_591_550_495_6e-49),
        ("aten.special_airy_ai.default", -30.0, -0.087_968_188_456_842_16),
        ("aten.special_spherical_bessel_j0.default", 0.25, 0.989_615_837_018_091_8),
    ];
    for &(op, x, exact) in table {
        close(op, &[x], &of(op, &[x]), |_| exact, 1e-300, 1e-13);
    }
    let zeta = |s: f64, q: f64| values("aten.special_zeta.default", &["self", "other"], &[&[s], &[q]])[0];
    let near = |got: f64, exact: f64| {
        assert!(got == exact || (got / exact - 1.0).abs() < 1e-13, "{got:e}, exact {exact:e}")
    };
    near(zeta(2.0, 1.0), zeta2);
    near(zeta(2.0, 0.5), 3.0 * zeta2);
    near(zeta(3.5, 1.0), 1.126_733_867_317_056_7);
    // The terms of -1.5 and -0.5, then those from 0.5 on.
    near(zeta(2.0, -1.5), 3.0 * zeta2 + 4.0 + 4.0 / 9.0);
    near(zeta(3.0, -0.5), zeta(3.0, 0.5) - 8.0);
    near(zeta(1.0, 2.0), f64::INFINITY);
    near(zeta(2.0, -3.0), f64::INFINITY);
    assert!(zeta(0.5, 2.0).is_nan() && zeta(2.5, -0.5).is_nan());
}

/// Laws that tie functions together, where neither has a library's counterpart.
#[test]
fn special_functions_keep_their_laws() {
    let x = grid(0.05, 60.0, 400);
    let both = |a: &str, b: &str| (of(a, &x), of(b, &x));
    let wronskian =
        |name: &str, got: Vec<f64>, exact: fn(f64) -> f64| close(name, &x, &got, exact, 1e-300, 2e-13);
    let (i0, i1) = both("aten.special_i0e.default", "aten.special_i1e.default");
    let (k0, k1) = both(
        "aten.special_scaled_modified_bessel_k0.default",
        "aten.special_scaled_modified_bessel_k1.default",
    );
    wronskian("I0 K1 + I1 K0", (0..x.len()).map(|k| i0[k] * k1[k] + i1[k] * k0[k]).collect(), |x| 1.0 / x);
    let (j0, j1) = both("aten.special_bessel_j0.default", "aten.special_bessel_j1.default");
    let (y0, y1) = both("aten.special_bessel_y0.default", "aten.special_bessel_y1.default");
    wronskian("J1 Y0 - J0 Y1", (0..x.len()).map(|k| j1[k] * y0[k] - j0[k] * y1[k]).collect(), |x| {
        FRAC_2_PI / x
    });
    let p = grid(-0.999_999, 0.999_999, 301);
    let back: Vec<f64> = of("aten.erfinv.default", &p).into_iter().map(libm::erf).collect();
    close("erf erfinv", &p, &back, |p| p, 1e-300, 1e-14);
    let y = grid(0.1, 26.0, 301);
    let tail: Vec<f64> =
        of("aten.special_erfcx.default", &y).iter().zip(&y).map(|(e, y)| e * (-y * y).exp()).collect();
    close("e^-x² erfcx x", &y, &tail, libm::erfc, 1e-300, 2e-13);
    // The recurrence of digamma and of its derivatives.
    let z: Vec<f64> =
        grid(-7.3, 12.0, 150).into_iter().filter(|z| *z > 0.1 || (z - z.round()).abs() > 0.1).collect();
    let next: Vec<f64> = z.iter().map(|z| z + 1.0).collect();
    let step = |f: &dyn Fn(&[f64]) -> Vec<f64>| -> Vec<f64> {
        f(&next).iter().zip(f(&z)).map(|(a, b)| a - b).collect()
    };
    close("ψ(x+1) - ψ(x)", &z, &step(&|z| of("aten.digamma.default", z)), |z| 1.0 / z, 10.0, 1e-14);
    for n in 1..=4u32 {
        let f = |x: &[f64]| {
            let args = json!({ "n": n, "self": { "node": "x0" } });
            let shape = [x.len()];
            numbers(
                &run(
                    "aten.polygamma.default",
                    args,
                    &[(DType::F64, "float64", &shape, x)],
                    tensor("float64", json!(shape)),
                )[0],
            )
        };
        let factor = (1..=n).map(f64::from).product::<f64>() * if n % 2 == 0 { 1.0 } else { -1.0 };
        let exact = move |z: f64| factor / z.powi(n as i32 + 1);
        // Both terms are far larger than their difference.
        let scale: f64 = 1e3 * factor.abs();
        close(&format!("polygamma {n}"), &z, &step(&f), exact, scale, 1e-12);
    }
}

/// Closed forms against the recurrence `P(n+1) = 2x P(n) - P(n-1)`.
#[test]
fn chebyshev_polynomials_keep_their_recurrence() {
    let mut x = grid(-2.5, 2.5, 101);
    x.extend([-1.0, 1.0, 0.999_999_999, -1.000_000_001]);
    let second: [(&str, Function); 4] =
        [("t", |x| x), ("u", |x| 2.0 * x), ("v", |x| 2.0 * x - 1.0), ("w", |x| 2.0 * x + 1.0)];
    for (name, first) in second {
        for shifted in [false, true] {
            let op = format!(
                "aten.special_{}chebyshev_polynomial_{name}.default",
                if shifted { "shifted_" } else { "" }
            );
            for degree in [0, 1, 2, 3, 6, 11] {
                let n = vec![f64::from(degree) + 0.7; x.len()];
                let recurrence = |x: f64| {
                    let x = if shifted { 2.0 * x - 1.0 } else { x };
                    let (mut a, mut b) = (1.0, first(x));
                    for _ in 0..degree {
                        (a, b) = (b, 2.0 * x * b - a);
                    }
                    a
                };
                close(
                    &format!("{op} {degree}"),
                    &x,
                    &values(&op, &["x", "n"], &[&x, &n]),
                    recurrence,
                    1.0,
                    1e-12,
                );
            }
        }
    }
    let below =
        values("aten.special_chebyshev_polynomial_t.default", &["x", "n"], &[&[0.3, 2.0], &[-2.0, -1.0]]);
    assert_eq!(below, [0.0, 0.0]);
}

#[test]
fn bits_of_floats() {
    let x: &[f64] = &[0.0, 1.0, -3.5, 1e-310, f64::INFINITY];
    let shape = [x.len()];
    let out = json!([tensor("float64", json!(shape)), tensor("int32", json!(shape))]);
    let node =
        json!({ "name": "y", "op": "aten.frexp.Tensor", "args": { "self": { "node": "x0" } }, "out": out });
    let pick = |i: usize, ty: &str| {
        let got = json!({ "name": "z", "op": "getitem", "args": { "a0": { "node": "y" }, "a1": i }, "out": [tensor(ty, json!(shape))] });
        let g = super::graph(
            json!([{ "name": "x0", "meta": tensor("float64", json!(shape)) }]),
            json!([node, got]),
            json!([{ "name": "z", "permutation": null, "repeated": [] }]),
        );
        numbers(&super::evaluate(&g, &[(DType::F64, "float64", &shape, x)])[0])
    };
    let (m, k) = (pick(0, "float64"), pick(1, "int32"));
    for i in 0..4 {
        assert_eq!(libm::scalbn(m[i], k[i] as i32), x[i], "{} · 2^{}", m[i], k[i]);
        assert!(x[i] == 0.0 || (0.5..1.0).contains(&m[i].abs()));
    }
    assert_eq!((m[4], k[4]), (f64::INFINITY, 0.0));
    let next = values(
        "aten.nextafter.default",
        &["self", "other"],
        &[&[1.0, 0.0, -1.0, 2.0], &[2.0, -1.0, 0.0, 2.0]],
    );
    assert_eq!(next, [1.0f64.next_up(), -f64::from_bits(1), (-1.0f64).next_up(), 2.0]);
}

/// Adam's bias correction, in every way it is written: as right as the number is in f64, where nothing cancels as well as where it does.
#[test]
fn one_less_a_power_does_not_cancel() {
    let x: &[f64] = &[0.0, 1.0, 2.0, 3.0, 10.0, 1e4, 1e6, -1.0, -5.0, f64::INFINITY, f64::NAN];
    let meta = || tensor("float32", json!([x.len()]));
    let power = json!({ "node": "p" });
    let ways = [
        ("aten.sub.Tensor", json!({ "self": 1, "other": power }), -1.0),
        ("aten.rsub.Scalar", json!({ "self": power, "other": 1.0 }), -1.0),
        ("aten.sub.Scalar", json!({ "self": power, "other": 1 }), 1.0),
    ];
    for (op, args, sign) in ways {
        for base in [0.9, 0.999, 0.9999] {
            let raise = json!({ "self": base, "exponent": { "node": "x0" } });
            let program = |numerics: &str| {
                let mut g = graph(
                    json!([{ "name": "x0", "meta": meta() }]),
                    json!([
                        { "name": "p", "op": "aten.pow.Scalar", "args": raise, "out": [meta()] },
                        { "name": "y", "op": op, "args": args, "out": [meta()] },
                    ]),
                    json!([{ "name": "y", "permutation": null, "repeated": [] }]),
                );
                g["numerics"] = json!(numerics);
                g
            };
            let input = (DType::F32, "float32", &[x.len()][..], x);
            let got = numbers(&evaluate(&program("default"), &[input])[0]);
            let exact = |x: f64| sign * (x * f64::ln(base)).exp_m1();
            close(op, x, &got, exact, f64::MIN_POSITIVE, 4e-7);
            let strict = print(&program("strict"));
            assert!(!strict.contains("expm1"), "{strict}");
        }
    }
}
