//! The CPU's elementary functions against f64 (f32) and the C library (f64), in ulp.

use crate::support::Kernel;

fn kernel(ty: &str, function: &str, operands: usize) -> String {
    let second = if operands == 2 { ", %b" } else { "" };
    format!(
        "func.func @f(%x: memref<?x{ty}> {{loop.dims = #graph.dims<s0>}}, %z: memref<?x{ty}> {{loop.dims = #graph.dims<s0>}}, %y: memref<?x{ty}> {{loop.dims = #graph.dims<s0>, loop.out}}, %n: index)
            attributes {{loop.kernel, loop.target = \"cpu\", loop.grid = #graph.dims<s0 floordiv 8>}} {{
          %tasks = affine.apply affine_map<()[s0] -> (s0 floordiv 8)>()[%n]
          scf.forall (%t) in (%tasks) {{
            %i = affine.apply affine_map<(d0) -> (d0 * 8)>(%t)
            %a = vector.load %x[%i] : memref<?x{ty}>, vector<8x{ty}>
            %b = vector.load %z[%i] : memref<?x{ty}>, vector<8x{ty}>
            %r = {function} %a{second} : vector<8x{ty}>
            vector.store %r, %y[%i] : memref<?x{ty}>, vector<8x{ty}>
          }} {{mapping = [#loop.task]}}
          return
        }}"
    )
}

fn call<T: Copy>(kernel: &Kernel, x: &[T], z: &[T]) -> Vec<T> {
    let (mut x, mut z) = (x.to_vec(), z.to_vec());
    let mut y = x.clone();
    let n = x.len() as i64;
    kernel.call(&[x.as_mut_ptr().cast(), z.as_mut_ptr().cast(), y.as_mut_ptr().cast()], &[n], 0, n / 8);
    y
}

/// Distance in units of the last place of the f32 nearest to the exact value; infinite where only one is NaN.
fn ulp32(got: f32, exact: f64) -> f64 {
    let nearest = exact as f32;
    if got == nearest || (got.is_nan() && exact.is_nan()) {
        return if got.is_finite() && nearest.is_finite() { error32(got, exact) } else { 0.0 };
    }
    if !got.is_finite() || !nearest.is_finite() {
        // One step across the border to infinity is within an ulp.
        let border =
            got.abs().min(nearest.abs()) == f32::MAX && got.is_sign_positive() == nearest.is_sign_positive();
        return if border { 1.0 } else { f64::INFINITY };
    }
    error32(got, exact)
}

fn error32(got: f32, exact: f64) -> f64 {
    let exponent = exact.abs().log2().floor().clamp(-126.0, 127.0);
    (f64::from(got) - exact).abs() / f64::exp2(exponent - 23.0)
}

fn samples32() -> Vec<f32> {
    // Every exponent and sign with a few hundred mantissas, the special values, and a dense range around 1.
    let mut all = vec![
        0.0,
        -0.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        f32::MIN_POSITIVE,
        f32::MAX,
        f32::MIN,
        1.0,
        -1.0,
        0.5,
        -0.5,
    ];
    let mut state = 1u32;
    for exponent in 0..255u32 {
        for _ in 0..160 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            all.push(f32::from_bits(exponent << 23 | state >> 9));
            all.push(-f32::from_bits(exponent << 23 | state.wrapping_mul(2_654_435_761) >> 9));
        }
    }
    for i in 0..20_000 {
        all.push(-20.0 + 0.002 * i as f32);
        all.push(-110.0 + 0.011 * i as f32);
        all.push(0.5 + i as f32 * 5e-5);
    }
    all.truncate(all.len() / 8 * 8);
    all
}

type Reference = fn(f64) -> f64;

/// Function, reference, ulp allowed in f32 with and without fused multiply-add.
const UNARY: &[(&str, Reference, f64, f64)] = &[
    ("math.exp", f64::exp, 1.0, 1.2),
    ("math.exp2", f64::exp2, 1.0, 1.2),
    ("math.expm1", f64::exp_m1, 2.0, 2.5),
    ("math.log", f64::ln, 1.0, 1.2),
    ("math.log2", f64::log2, 2.0, 2.0),
    ("math.log10", f64::log10, 2.0, 2.0),
    ("math.log1p", f64::ln_1p, 3.0, 3.0),
    ("math.tanh", f64::tanh, 2.5, 3.0),
    ("math.erf", libm::erf, 1.5, 1.5),
    ("math.sin", f64::sin, 1.5, 1.5),
    ("math.cos", f64::cos, 1.5, 1.5),
    ("math.sqrt", f64::sqrt, 0.5, 0.5),
    ("math.rsqrt", |x| 1.0 / x.sqrt(), 1.5, 1.5),
    ("math.floor", f64::floor, 0.0, 0.0),
    ("math.ceil", f64::ceil, 0.0, 0.0),
    ("math.trunc", f64::trunc, 0.0, 0.0),
    ("math.roundeven", f64::round_ties_even, 0.0, 0.0),
    ("math.absf", f64::abs, 0.0, 0.0),
];

#[test]
fn single_precision_functions_keep_their_bounds() {
    let x = samples32();
    let mut failures = Vec::new();
    for (target, fused) in [("cpu:x86-64-v3", true), ("cpu:x86-64", false)] {
        for &(name, reference, with, without) in UNARY {
            let y = call(&Kernel::new(&kernel("f32", name, 1), target), &x, &x);
            let worst = x
                .iter()
                .zip(&y)
                .map(|(&x, &y)| (ulp32(y, reference(f64::from(x))), x, y))
                .max_by(|a, b| a.0.total_cmp(&b.0))
                .expect("samples");
            println!("f32 {name} {target}: {:.3} ulp at {:e} ({:e})", worst.0, worst.1, worst.2);
            if worst.0 > if fused { with } else { without } {
                failures
                    .push(format!("{name} {target}: {worst:?}, exact {:e}", reference(f64::from(worst.1))));
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

/// The formulas of GPU kernels in default numerics, with exact stand-ins for the approximate instructions.
#[test]
fn gpu_formulas_keep_their_bounds() {
    let x = samples32();
    // Function, range of arguments (the error of exp and of what is made of it grows with the exponent), ulp.
    let table: &[(&str, f32, f32, f64)] = &[
        ("math.exp", -10.0, 10.0, 8.0),
        ("math.exp", -87.0, 88.0, 64.0),
        ("math.exp2", -126.0, 127.9, 1.0),
        ("math.tanh", f32::MIN, f32::MAX, 3.0),
        ("math.erf", f32::MIN, f32::MAX, 1.5),
        ("math.log", f32::MIN, f32::MAX, 1.0),
        ("math.log1p", f32::MIN, f32::MAX, 3.0),
        ("math.expm1", f32::MIN, f32::MAX, 2.0),
        ("math.rsqrt", f32::MIN, f32::MAX, 1.5),
        ("math.sin", f32::MIN, f32::MAX, 1.5),
        ("math.cos", f32::MIN, f32::MAX, 1.5),
    ];
    let mut failures = Vec::new();
    for &(name, low, high, bound) in table {
        let x: Vec<f32> = x.iter().map(|v| if v.is_nan() { *v } else { v.clamp(low, high) }).collect();
        let reference = UNARY.iter().find(|r| r.0 == name).expect("in the table").1;
        let y = call(&Kernel::with(&kernel("f32", name, 1), "cpu:x86-64-v3", "nvptx"), &x, &x);
        let worst = x
            .iter()
            .zip(&y)
            .map(|(&x, &y)| (ulp32(y, reference(f64::from(x))), x, y))
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .expect("samples");
        println!("gpu {name} [{low:e}, {high:e}]: {:.3} ulp at {:e} ({:e})", worst.0, worst.1, worst.2);
        if worst.0 > bound {
            failures.push(format!("{name}: {worst:?}, exact {:e}", reference(f64::from(worst.1))));
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn zeros_keep_their_sign() {
    let x = [0.0f32, -0.0, 0.3, -0.3, -0.7, 0.7, 1e-40, -1e-40];
    for name in [
        "math.floor",
        "math.ceil",
        "math.trunc",
        "math.roundeven",
        "math.sin",
        "math.tanh",
        "math.erf",
        "math.expm1",
        "math.log1p",
    ] {
        let reference = UNARY.iter().find(|r| r.0 == name).expect("in the table").1;
        for target in ["cpu:x86-64-v3", "cpu:x86-64"] {
            let y = call(&Kernel::new(&kernel("f32", name, 1), target), &x, &x);
            for (x, y) in x.iter().zip(&y) {
                assert_eq!(
                    y.is_sign_negative(),
                    reference(f64::from(*x)).is_sign_negative(),
                    "{name}({x}) = {y} {target}"
                );
            }
        }
    }
}

#[test]
fn powers_and_remainders() {
    let base = samples32();
    let special = [
        0.0f32,
        -0.0,
        1.0,
        -1.0,
        2.0,
        3.0,
        -3.0,
        0.5,
        -0.5,
        1.5,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        1e30,
        -1e-30,
        7.0,
    ];
    let mut x: Vec<f32> = Vec::new();
    let mut z: Vec<f32> = Vec::new();
    for a in special {
        for b in special {
            x.push(a);
            z.push(b);
        }
    }
    for (i, a) in base.iter().enumerate() {
        x.push(*a);
        z.push(match i % 4 {
            0 => base[i * 7 % base.len()],
            1 => (i % 50) as f32 / 7.0 - 3.0,
            2 => (i % 9) as f32 - 4.0,
            _ => a * 0.3,
        });
    }
    x.truncate(x.len() / 8 * 8);
    z.truncate(x.len());
    for target in ["cpu:x86-64-v3", "cpu:x86-64"] {
        let y = call(&Kernel::new(&kernel("f32", "math.powf", 2), target), &x, &z);
        for ((&x, &z), &y) in x.iter().zip(&z).zip(&y) {
            let exact = f64::from(x).powf(f64::from(z));
            assert!(ulp32(y, exact) <= 1.0, "{x:e} ^ {z:e} = {y:e}, exact {exact:e} {target}");
        }
        let y = call(&Kernel::new(&kernel("f32", "arith.remf", 2), target), &x, &z);
        for ((&x, &z), &y) in x.iter().zip(&z).zip(&y) {
            let exact = x % z;
            assert!(
                y.to_bits() == exact.to_bits() || (y.is_nan() && exact.is_nan()),
                "{x:e} % {z:e} = {y:e}, exact {exact:e}"
            );
        }
    }
}

/// Angles of points on all rays of special values, and of points with every ratio.
#[test]
fn angles() {
    let special = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        1e-38,
        -3e38,
        0.41421356,
        2.4142135,
    ];
    let mut points: Vec<(f64, f64)> = special.iter().flat_map(|&a| special.map(|b| (a, b))).collect();
    let base = samples32();
    for (i, &a) in base.iter().enumerate().filter(|(_, a)| !a.is_nan()) {
        let b = base[i * 7 % base.len()];
        points.push((f64::from(a), f64::from(if b.is_nan() { 1.0 } else { b })));
        points.push((f64::from(a), f64::from(a * ((i % 1000) as f32 / 250.0 - 2.0))));
    }
    points.truncate(points.len() / 8 * 8);
    let (y, x): (Vec<f64>, Vec<f64>) = points.into_iter().unzip();
    let (y32, x32): (Vec<f32>, Vec<f32>) =
        (y.iter().map(|&v| v as f32).collect(), x.iter().map(|&v| v as f32).collect());
    let check = |name: &str, got: f64, exact: f64, ulp: f64, bound: f64| {
        assert!(ulp <= bound, "{name} = {got:e}, exact {exact:e}: {ulp} ulp");
        assert!(got.is_nan() || got.is_sign_negative() == exact.is_sign_negative(), "{name} = {got:e}");
    };
    for (target, emulate) in [("cpu:x86-64-v3", ""), ("cpu:x86-64", ""), ("cpu:x86-64-v3", "nvptx")] {
        let source = kernel("f32", "math.atan2", 2);
        let compiled = if emulate.is_empty() {
            Kernel::new(&source, target)
        } else {
            Kernel::with(&source, target, emulate)
        };
        let mut worst = 0f64;
        for ((&y, &x), &r) in y32.iter().zip(&x32).zip(&call(&compiled, &y32, &x32)) {
            let exact = f64::from(y).atan2(f64::from(x));
            worst = worst.max(ulp32(r, exact));
            check(&format!("atan2({y:e}, {x:e}) {target} {emulate}"), r.into(), exact, ulp32(r, exact), 2.5);
        }
        println!("f32 atan2 {target} {emulate}: {worst:.3} ulp");
    }
    for target in ["cpu:x86-64-v3", "cpu:x86-64"] {
        let compiled = Kernel::new(&kernel("f64", "math.atan2", 2), target);
        let mut worst = 0f64;
        for ((&y, &x), &r) in y.iter().zip(&x).zip(&call(&compiled, &y, &x)) {
            let exact = y.atan2(x);
            worst = worst.max(ulp64(r, exact));
            check(&format!("atan2({y:e}, {x:e}) {target}"), r, exact, ulp64(r, exact), 2.5);
        }
        println!("f64 atan2 {target}: {worst:.3} ulp");
    }
}

#[test]
fn double_precision_functions_keep_their_bounds() {
    let mut x: Vec<f64> = samples32()
        .into_iter()
        .map(|v| f64::from(v) * (1.0 + 1.234_567e-9))
        .filter(|v| v.abs() < 1e8)
        .collect();
    x.extend((0..20_000).map(|i| -800.0 + 0.08 * f64::from(i)));
    x.extend([f64::INFINITY, f64::NEG_INFINITY, f64::NAN, f64::MIN_POSITIVE / 8.0]);
    x.truncate(x.len() / 8 * 8);
    let allowed = |name: &str| match name {
        "math.floor" | "math.ceil" | "math.trunc" | "math.roundeven" | "math.absf" => 0.0,
        "math.sqrt" => 0.5,
        "math.expm1" | "math.tanh" | "math.log1p" | "math.erf" => 4.0,
        _ => 2.0,
    };
    let mut failures = Vec::new();
    for target in ["cpu:x86-64-v3", "cpu:x86-64"] {
        for &(name, reference, ..) in UNARY {
            // The reduction of large angles needs exact products.
            let limit = if target == "cpu:x86-64" && matches!(name, "math.sin" | "math.cos") {
                1e6
            } else {
                f64::INFINITY
            };
            let x: Vec<f64> =
                x.iter().map(|v| if v.is_finite() && v.abs() > limit { v.sqrt() } else { *v }).collect();
            let y = call(&Kernel::new(&kernel("f64", name, 1), target), &x, &x);
            let worst = x
                .iter()
                .zip(&y)
                .map(|(&x, &y)| (ulp64(y, reference(x)), x, y))
                .max_by(|a, b| a.0.total_cmp(&b.0))
                .expect("samples");
            println!("f64 {name} {target}: {:.3} ulp at {:e} ({:e})", worst.0, worst.1, worst.2);
            if worst.0 > allowed(name) {
                failures.push(format!("{name} {target}: {worst:?}, exact {:e}", reference(worst.1)));
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

fn ulp64(got: f64, exact: f64) -> f64 {
    if got == exact || (got.is_nan() && exact.is_nan()) {
        return 0.0;
    }
    if !got.is_finite() || !exact.is_finite() {
        return f64::INFINITY;
    }
    let exponent = exact.abs().log2().floor().clamp(-1022.0, 1023.0);
    (got - exact).abs() / f64::exp2(exponent - 52.0)
}
