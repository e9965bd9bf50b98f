//! Loop kernels through x86-64 objects, loaded by the runtime's loader and called.

use crate::support::{Kernel, compile_cpu};
use half::{bf16, f16};

const TARGETS: [&str; 3] = ["cpu:x86-64", "cpu:x86-64-v3", "cpu:native"];

/// Softmax over rows: vector loop, tail, symbols.
const SOFTMAX: &str = r#"
func.func @softmax(%x: memref<?x?xf32> {loop.dims = #graph.dims<s0, s1>}, %y: memref<?x?xf32> {loop.dims = #graph.dims<s0, s1>, loop.out}, %rows: index, %cols: index)
    attributes {loop.kernel, loop.target = "cpu", loop.grid = #graph.dims<s0>, graph.symbols = [{name = "rows"}, {name = "cols"}]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.forall (%row) in (%rows) {
    %low = arith.constant 0xFF800000 : f32
    %zero = arith.constant 0.0 : f32
    %max = scf.for %i = %c0 to %cols step %c1 iter_args(%a = %low) -> (f32) {
      %v = memref.load %x[%row, %i] : memref<?x?xf32>
      %m = arith.maximumf %a, %v : f32
      scf.yield %m : f32
    }
    %sum = scf.for %i = %c0 to %cols step %c1 iter_args(%a = %zero) -> (f32) {
      %v = memref.load %x[%row, %i] : memref<?x?xf32>
      %d = arith.subf %v, %max : f32
      %e = math.exp %d : f32
      memref.store %e, %y[%row, %i] : memref<?x?xf32>
      %s = arith.addf %a, %e : f32
      scf.yield %s : f32
    }
    scf.for %i = %c0 to %cols step %c1 {
      %e = memref.load %y[%row, %i] : memref<?x?xf32>
      %r = arith.divf %e, %sum : f32
      memref.store %r, %y[%row, %i] : memref<?x?xf32>
    }
  } {mapping = [#loop.task]}
  return
}
"#;

#[test]
fn softmax_rows_with_symbols() {
    for target in TARGETS {
        let kernel = Kernel::new(SOFTMAX, target);
        let (rows, cols) = (7usize, 33usize);
        let mut x: Vec<f32> = (0..rows * cols).map(|i| ((i * 37 % 101) as f32 - 50.0) / 9.0).collect();
        let mut y = vec![f32::NAN; rows * cols];
        // Only some tasks: the other rows stay as they are.
        kernel.call(&[x.as_mut_ptr().cast(), y.as_mut_ptr().cast()], &[rows as i64, cols as i64], 1, 6);
        assert!(
            y[..cols].iter().chain(&y[6 * cols..]).all(|v| v.is_nan()),
            "{target}: tasks outside the range ran"
        );
        for row in 1..6 {
            let x = &x[row * cols..][..cols];
            let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let sum: f64 = x.iter().map(|v| f64::from(v - max).exp()).sum();
            for (i, v) in x.iter().enumerate() {
                let expected = f64::from(v - max).exp() / sum;
                let got = f64::from(y[row * cols + i]);
                assert!((got - expected).abs() <= expected * 1e-6, "{target} {row},{i}: {got} {expected}");
            }
        }
    }
}

/// The object computes what the interpreter of the loop level does; their exponentials differ in the last places.
#[test]
fn objects_agree_with_the_loop_interpreter() {
    use strata_compiler::interp::{DEFAULT_BUDGET, run_function};
    use strata_dialects::reference::{RefTensor, Rounding};
    let (rows, cols) = (5usize, 37usize);
    let mut x: Vec<f32> = (0..rows * cols).map(|i| ((i * 53 % 97) as f32 - 48.0) / 11.0).collect();
    let context = strata_dialects::register::context();
    let module = melior::ir::Module::parse(&context, SOFTMAX).expect("it parses");
    let bytes: Vec<u8> = x.iter().flat_map(|v| v.to_le_bytes()).collect();
    let input =
        RefTensor::from_bytes(strata_runtime::DType::F32, &[rows, cols], &bytes, false).expect("a tensor");
    let outputs =
        run_function(&module, "softmax", &[input], Rounding::Exact, DEFAULT_BUDGET).expect("it runs");
    for target in TARGETS {
        let mut y = vec![0f32; rows * cols];
        let buffers = [x.as_mut_ptr().cast(), y.as_mut_ptr().cast()];
        Kernel::new(SOFTMAX, target).call(&buffers, &[rows as i64, cols as i64], 0, rows as i64);
        for (got, expected) in y.iter().zip(outputs[0].floats()) {
            assert!((f64::from(*got) - expected).abs() <= expected * 4e-7, "{target}: {got} {expected}");
        }
    }
}

fn narrow_kernel(from: &str, to: &str, op: &str, lanes: usize) -> String {
    let vector = |t: &str| format!("vector<{lanes}x{t}>");
    format!(
        "func.func @f(%x: memref<?x{from}> {{loop.dims = #graph.dims<s0>}}, %y: memref<?x{to}> {{loop.dims = #graph.dims<s0>, loop.out}}, %n: index)
            attributes {{loop.kernel, loop.target = \"cpu\", loop.grid = #graph.dims<s0 floordiv {lanes}>}} {{
          %tasks = affine.apply affine_map<()[s0] -> (s0 floordiv {lanes})>()[%n]
          scf.forall (%t) in (%tasks) {{
            %i = affine.apply affine_map<(d0) -> (d0 * {lanes})>(%t)
            %a = vector.load %x[%i] : memref<?x{from}>, {vf}
            %r = {op} %a : {vf} to {vt}
            vector.store %r, %y[%i] : memref<?x{to}>, {vt}
          }} {{mapping = [#loop.task]}}
          return
        }}",
        vf = vector(from),
        vt = vector(to)
    )
}

fn convert<A: Copy, B: Copy>(source: &str, target: &str, x: &[A], zero: B) -> Vec<B> {
    let mut x = x.to_vec();
    let mut y = vec![zero; x.len()];
    let n = x.len() as i64;
    Kernel::new(source, target).call(&[x.as_mut_ptr().cast(), y.as_mut_ptr().cast()], &[n], 0, n / 8);
    y
}

/// Every f16 and bf16 bit pattern out, and f32 values around every rounding boundary in.
#[test]
fn narrow_floats_convert_exactly() {
    let all: Vec<u16> = (0..=u16::MAX).collect();
    let mut singles: Vec<f32> = Vec::new();
    for bits in (0..=u16::MAX).step_by(7) {
        for base in [f16::from_bits(bits).to_f32(), bf16::from_bits(bits).to_f32()] {
            let half_step = (f16::from_bits(bits.wrapping_add(1)).to_f32() + base) / 2.0;
            for v in [base, half_step, f32::from_bits(base.to_bits().wrapping_add(0x8000))] {
                singles.extend([
                    v,
                    f32::from_bits(v.to_bits().wrapping_add(1)),
                    f32::from_bits(v.to_bits().wrapping_sub(1)),
                ]);
            }
        }
    }
    singles.truncate(singles.len() / 8 * 8);
    let same = |a: f32, b: f32| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
    for target in TARGETS {
        let out = convert(&narrow_kernel("bf16", "f32", "arith.extf", 8), target, &all, 0f32);
        assert!(
            all.iter().zip(&out).all(|(&b, &f)| same(bf16::from_bits(b).to_f32(), f)),
            "{target} bf16 → f32"
        );
        let out = convert(&narrow_kernel("f16", "f32", "arith.extf", 8), target, &all, 0f32);
        assert!(
            all.iter().zip(&out).all(|(&b, &f)| same(f16::from_bits(b).to_f32(), f)),
            "{target} f16 → f32"
        );
        let out = convert(&narrow_kernel("f32", "bf16", "arith.truncf", 8), target, &singles, 0u16);
        for (&v, &b) in singles.iter().zip(&out) {
            assert!(
                same(bf16::from_f32(v).to_f32(), bf16::from_bits(b).to_f32()),
                "{target} {v:e} → bf16 {b:x}"
            );
        }
        let out = convert(&narrow_kernel("f32", "f16", "arith.truncf", 8), target, &singles, 0u16);
        for (&v, &b) in singles.iter().zip(&out) {
            assert!(
                same(f16::from_f32(v).to_f32(), f16::from_bits(b).to_f32()),
                "{target} {v:e} → f16 {b:x}"
            );
        }
        let doubles: Vec<f64> = singles.iter().map(|&v| f64::from(v) * (1.0 + 1e-12)).collect();
        let out = convert(&narrow_kernel("f64", "f16", "arith.truncf", 8), target, &doubles, 0u16);
        for (&v, &b) in doubles.iter().zip(&out) {
            assert!(same(nearest_half(v).to_f32(), f16::from_bits(b).to_f32()), "{target} {v:e} → f16 {b:x}");
        }
    }
}

/// The f16 nearest to `v`, of two equally near the even one.
fn nearest_half(v: f64) -> f16 {
    if !v.is_finite() || v.abs() >= 65520.0 {
        return f16::from_f32(v as f32);
    }
    let about = f16::from_f32(v as f32).to_bits();
    let distance = |b: &u16| (f16::from_bits(*b).to_f64() - v).abs();
    [about, about.wrapping_sub(1), about.wrapping_add(1)]
        .into_iter()
        .filter(|b| {
            f16::from_bits(*b).is_finite() && f16::from_bits(*b).is_sign_negative() == v.is_sign_negative()
        })
        .min_by(|a, b| distance(a).total_cmp(&distance(b)).then((a & 1).cmp(&(b & 1))))
        .map_or(f16::from_f32(v as f32), f16::from_bits)
}

#[test]
fn objects_call_nothing_and_what_cannot_is_a_diagnostic() {
    let text = narrow_kernel("f32", "f32", "math.exp", 8).replace(" to vector<8xf32>", "");
    let bad = text.replace("xf32", "xf16");
    let error = compile_cpu(&bad, "cpu:x86-64").expect_err("f16 has no exp").to_string();
    assert!(error.contains("math.exp"), "{error}");
    let error = compile_cpu(&text.replace("#loop.task", "#gpu.block<x>"), "cpu:x86-64")
        .expect_err("a GPU mapping")
        .to_string();
    assert!(error.contains("#gpu.block<x>"), "{error}");
    // The entry's grid is in the metadata.
    let compiled = compile_cpu(&text, "cpu:x86-64-v3").expect("it compiles");
    assert_eq!(compiled.kernels[0].grid[0].to_string(), "s0 floordiv 8");
}

/// The smallest number of the checks that fail is reported, those of single indices and of vectors; a check without a place has none.
#[test]
fn failed_checks_have_numbers() {
    let source = r#"
func.func @checked(%i: memref<8xi64>, %j: memref<8xi32>, %y: memref<8xi64> {loop.out}, %z: memref<8xi32> {loop.out}, %n: index)
    attributes {loop.kernel, loop.target = "cpu", loop.grid = #graph.dims<2>, graph.symbols = [{name = "n"}]} {
  %c4 = arith.constant 4 : index
  scf.forall (%t) in (2) {
    %at = arith.muli %t, %c4 : index
    %v = vector.load %j[%at] : memref<8xi32>, vector<4xi32>
    %w = loop.check_index %v below %n wrap = true "lanes" : vector<4xi32> loc(unknown)
    vector.store %w, %z[%at] : memref<8xi32>, vector<4xi32>
    %a = memref.load %i[%t] : memref<8xi64>
    %b = loop.check_index %a below %n wrap = false "single" : i64 loc("model.py":3:0)
    memref.store %b, %y[%t] : memref<8xi64>
  } {mapping = [#loop.task]}
  return
}
"#;
    let compiled = compile_cpu(source, TARGETS[1]).expect("it compiles");
    let texts: Vec<_> =
        compiled.kernels[0].checks.iter().map(|c| (&c.message[..], &c.location[..])).collect();
    assert_eq!(texts, [("lanes", ""), ("single", "model.py:3:0")]);
    for target in TARGETS {
        let kernel = Kernel::new(source, target);
        let (mut y, mut z) = ([9i64; 8], [9i32; 8]);
        let mut run = |single: [i64; 2], lanes: [i32; 8]| {
            let (mut i, mut j) = ([0i64; 8], lanes);
            i[..2].copy_from_slice(&single);
            let buffers: [*mut u8; 4] =
                [i.as_mut_ptr().cast(), j.as_mut_ptr().cast(), y.as_mut_ptr().cast(), z.as_mut_ptr().cast()];
            (kernel.status(&buffers, &[5], 0, 2), y[..2].to_vec(), z.to_vec())
        };
        let none = strata_runtime::device::cpu::NO_CHECK_FAILED;
        let good = [4, 0, -1, -5, 1, 2, 3, -2];
        assert_eq!(run([4, 0], good), (none, vec![4, 0], vec![4, 0, 4, 0, 1, 2, 3, 3]), "{target}");
        // What is outside is 0 until the call fails.
        assert_eq!(run([5, 1], good), (1, vec![0, 1], vec![4, 0, 4, 0, 1, 2, 3, 3]), "{target}");
        assert_eq!(run([3, -1], good).0, 1, "{target}");
        for wrong in [5, -6, i32::MAX, i32::MIN] {
            let lanes = [0, 1, 2, 3, 4, 4, wrong, -1];
            assert_eq!(run([4, 0], lanes), (0, vec![4, 0], vec![0, 1, 2, 3, 4, 4, 0, 4]), "{target}");
            assert_eq!(run([5, 0], lanes).0, 0, "{target}");
        }
    }
}
