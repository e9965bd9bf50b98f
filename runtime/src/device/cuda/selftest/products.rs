//! Matrix products against loops on the host.

use super::Bench;
use super::tensors::{Tensor, indices, numbers};
use crate::device::{ResolvedMatrix, ResolvedProduct};
use crate::dtype::DType;
use crate::error::{ErrorKind, Result, err};
use crate::plan::Epilogue;

/// Factors' and result's types.
const TYPES: [(DType, DType); 6] = [
    (DType::F32, DType::F32),
    (DType::BF16, DType::BF16),
    (DType::F16, DType::F16),
    (DType::F64, DType::F64),
    (DType::BF16, DType::F32),
    (DType::F16, DType::F32),
];

pub fn run(b: &mut Bench) {
    b.check_optional("cuBLASLt", |b| Ok(format!("version {}", b.gpu()?.products()?.version())));
    for (dtype, out) in TYPES {
        for transposed in 0..8 {
            let mark = |bit: u8| if transposed >> bit & 1 == 1 { "T" } else { "N" };
            let name = format!("products {dtype} -> {out}, {}{}{}", mark(0), mark(1), mark(2));
            let flags = [0, 1, 2].map(|bit| transposed >> bit & 1 == 1);
            b.check(name, |b| layouts(b, dtype, out, flags));
        }
        b.check(format!("products {dtype} -> {out}, bias and activation"), |b| epilogues(b, dtype, out));
    }
    b.check("products: no terms", no_terms);
    b.check("products: integers are left to own kernels", integers);
    b.check("products: half-aligned addresses", misaligned);
}

struct Case {
    dtype: DType,
    out: DType,
    m: usize,
    n: usize,
    k: usize,
    batch: usize,
    /// Whether left, right, result are stored by columns.
    transposed: [bool; 3],
    /// Elements between rows (or columns) beyond their length.
    gap: i64,
    /// Whether left, right repeat over the batch.
    repeat: [bool; 2],
    bias: bool,
    epilogue: Epilogue,
    /// Elements by which every matrix is moved.
    shift: i64,
}

impl Case {
    fn plain(dtype: DType, out: DType, [m, n, k, batch]: [usize; 4]) -> Self {
        Self {
            dtype,
            out,
            m,
            n,
            k,
            batch,
            transposed: [false; 3],
            gap: 0,
            repeat: [false; 2],
            bias: false,
            epilogue: Epilogue::None,
            shift: 0,
        }
    }

    fn name(&self) -> String {
        let Self { m, n, k, batch, transposed, gap, repeat, bias, epilogue, shift, .. } = self;
        format!(
            "m={m} n={n} k={k} batch={batch} transposed={transposed:?} gap={gap} repeat={repeat:?} bias={bias} {epilogue:?} shift={shift}"
        )
    }
}

/// Strides of `[batch, rows, cols]`.
fn strides(c: &Case, which: usize, [_, rows, cols]: [i64; 3]) -> [i64; 3] {
    let (row, col, one) = if c.transposed[which] {
        (1, rows + c.gap, (rows + c.gap) * cols)
    } else {
        (cols + c.gap, 1, (cols + c.gap) * rows)
    };
    [one + c.gap, row, col]
}

fn matrix(tensor: &Tensor, repeat: bool) -> ResolvedMatrix {
    let s = &tensor.strides;
    let batch_stride = if repeat { 0 } else { s[0] };
    ResolvedMatrix {
        ptr: tensor.ptr(),
        dtype: tensor.dtype,
        batch_stride,
        row_stride: s[1],
        col_stride: s[2],
    }
}

fn activate(e: Epilogue, x: f64) -> f64 {
    match e {
        Epilogue::None => x,
        Epilogue::Relu => x.max(0.0),
        Epilogue::GeluTanh => {
            0.5 * x * (1.0 + (0.797_884_560_802_865_4 * (x + 0.044_715 * x * x * x)).tanh())
        }
    }
}

fn run_case(b: &Bench, c: &Case) -> Result<f64> {
    check_case(b, c).map_err(|e| e.at(c.name()))
}

fn check_case(b: &Bench, c: &Case) -> Result<f64> {
    let [m, n, k, batch] = [c.m, c.n, c.k, c.batch].map(|v| v as i64);
    let make = |which: usize, seed: u64, rows: i64, cols: i64| -> Result<(Tensor, Vec<f64>)> {
        let shape = [if c.repeat[which] { 1 } else { batch }, rows, cols];
        let count = shape.iter().product::<i64>() as usize;
        let values: Vec<f64> = numbers(seed, count).iter().map(|v| c.dtype.round(*v)).collect();
        let tensor = Tensor::poison_at(b, c.dtype, &shape, &strides(c, which, shape), c.shift)?;
        tensor.set(b, &values)?;
        Ok((tensor, values))
    };
    let (lhs, l) = make(0, 3, m, k)?;
    let (rhs, r) = make(1, 5, k, n)?;
    let bias_values: Vec<f64> = numbers(11, c.n).iter().map(|v| c.out.round(*v)).collect();
    let bias = c.bias.then(|| Tensor::of(b, c.out, &[n], &[1], &bias_values)).transpose()?;
    let shape = [batch, m, n];
    let out = Tensor::poison_at(b, c.out, &shape, &strides(c, 2, shape), c.shift)?;
    let product = ResolvedProduct {
        lhs: matrix(&lhs, c.repeat[0]),
        rhs: matrix(&rhs, c.repeat[1]),
        out: matrix(&out, false),
        bias: bias.as_ref().map(|t| (t.ptr(), t.dtype)),
        epilogue: c.epilogue,
        m: c.m,
        n: c.n,
        k: c.k,
        batch: c.batch,
    };
    // SAFETY: all operands are ours and have these sizes.
    unsafe { b.device.product(&product, None, b.stream()) }?;
    let (accumulator, step) = match c.out {
        DType::F64 => (f64::EPSILON, f64::EPSILON),
        o => (f64::from(f32::EPSILON), o.epsilon().unwrap_or(0.0)),
    };
    let (mut want, mut allowed) = (Vec::new(), Vec::new());
    for index in indices(&shape) {
        let [i, row, col] = [index[0] as usize, index[1] as usize, index[2] as usize];
        let left = if c.repeat[0] { 0 } else { i } * c.m * c.k + row * c.k;
        let right = if c.repeat[1] { 0 } else { i } * c.k * c.n + col;
        let (mut sum, mut size) = (0.0, 0.0);
        for t in 0..c.k {
            let term = l[left + t] * r[right + t * c.n];
            sum += term;
            size += term.abs();
        }
        let start = if c.bias { bias_values[col] } else { 0.0 };
        let value = activate(c.epilogue, sum + start);
        // Every addition may lose half a step of what it adds up; GELU may be an approximation of the hardware's.
        let rounding = accumulator * (c.k as f64 / 2.0 + 4.0) * (size + start.abs());
        let gelu = if c.epilogue == Epilogue::GeluTanh { 1e-3 * (1.0 + (sum + start).abs()) } else { 0.0 };
        // Some library kernels round the product to the result's type before they add the bias or apply the function.
        let early = if c.bias || c.epilogue != Epilogue::None { step * sum.abs() * 0.51 } else { 0.0 };
        want.push(value);
        allowed.push(rounding * 1.2 + gelu + early + step * value.abs() * 0.51 + f64::MIN_POSITIVE);
    }
    // f16 has its own smallest step.
    let floor = if c.out == DType::F16 { 6e-8 } else { 0.0 };
    out.compare(b, &want, |at| allowed[at] + floor)
}

fn layouts(b: &Bench, dtype: DType, out: DType, transposed: [bool; 3]) -> Result<String> {
    let (mut cases, mut worst) = (0, 0.0f64);
    let sizes = [
        [1, 1, 1, 1],
        [3, 5, 7, 1],
        [16, 16, 16, 3],
        [64, 96, 128, 1],
        [1, 128, 256, 1],
        [128, 1, 64, 1],
        [17, 33, 65, 2],
        [1, 40, 24, 5],
        [2, 3, 1, 4],
        [256, 192, 320, 1],
    ];
    for size in sizes {
        for gap in [0, 8, 1] {
            for repeat in [[false; 2], [true, false], [false, true]] {
                // The host's loops take long for the largest.
                if size[3] == 1 && repeat != [false; 2] || size[0] == 256 && gap != 0 {
                    continue;
                }
                let case = Case { transposed, gap, repeat, ..Case::plain(dtype, out, size) };
                worst = worst.max(run_case(b, &case)?);
                cases += 1;
            }
        }
    }
    Ok(format!("{cases} cases, at most {:.0} % of the allowed error", worst * 100.0))
}

fn epilogues(b: &Bench, dtype: DType, out: DType) -> Result<String> {
    let (mut cases, mut declined, mut worst) = (0, 0, 0.0f64);
    for size in [[64, 96, 128, 1], [17, 33, 65, 2], [1, 256, 64, 1], [3, 5, 7, 1], [8, 1, 8, 1]] {
        for by_columns in [false, true] {
            for bias in [false, true] {
                for epilogue in [Epilogue::None, Epilogue::Relu, Epilogue::GeluTanh] {
                    let transposed = [false, true, by_columns];
                    let case = Case { transposed, bias, epilogue, ..Case::plain(dtype, out, size) };
                    match run_case(b, &case) {
                        // f64 has no activations; everything else must be there.
                        Err(e)
                            if out == DType::F64
                                && epilogue != Epilogue::None
                                && e.kind() == ErrorKind::Unsupported =>
                        {
                            declined += 1;
                        }
                        result => worst = worst.max(result?),
                    }
                    cases += 1;
                }
            }
        }
    }
    Ok(format!("{cases} cases, {declined} declined, at most {:.0} % of the allowed error", worst * 100.0))
}

fn no_terms(b: &Bench) -> Result<String> {
    for (dtype, out) in TYPES {
        run_case(b, &Case::plain(dtype, out, [5, 7, 0, 2]))?;
        run_case(b, &Case { bias: true, gap: 3, ..Case::plain(dtype, out, [5, 7, 0, 2]) })?;
    }
    Ok("zeros, or the bias".into())
}

fn integers(b: &Bench) -> Result<String> {
    for dtype in [DType::I8, DType::I32, DType::I64] {
        match run_case(b, &Case::plain(dtype, dtype, [8, 8, 8, 1])) {
            Err(e) if e.kind() == ErrorKind::Unsupported && !e.next_step().is_empty() => {}
            Err(e) => return Err(e),
            Ok(_) => {
                return Err(err!(Device, "a product of {dtype} went through the library")
                    .next("report this as a bug"));
            }
        }
    }
    Ok("i8, i32, i64".into())
}

/// Views begin anywhere: a kernel chosen for aligned addresses must not run on others.
fn misaligned(b: &Bench) -> Result<String> {
    let mut cases = 0;
    for (dtype, out) in TYPES {
        for shift in [0, 1, 2, 3, 4, 8] {
            for bias in [false, true] {
                run_case(b, &Case { shift, bias, ..Case::plain(dtype, out, [64, 64, 64, 1]) })?;
                run_case(b, &Case { shift, bias, gap: 8, ..Case::plain(dtype, out, [32, 48, 80, 2]) })?;
                cases += 2;
            }
        }
    }
    Ok(format!("{cases} cases"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checks_pass_on_the_cpu() {
        let b = super::super::tests::on_cpu();
        for dtype in [DType::F32, DType::F64] {
            for flags in [[false; 3], [true, false, true], [false, true, false]] {
                layouts(&b, dtype, dtype, flags).unwrap();
            }
        }
        epilogues(&b, DType::F32, DType::F32).unwrap();
        no_terms(&b).unwrap();
        misaligned(&b).unwrap();
    }

    #[test]
    fn the_checks_find_a_wrong_product() {
        let b = super::super::tests::on_cpu();
        let case = Case::plain(DType::F32, DType::F32, [3, 5, 7, 1]);
        let product = Tensor::of(&b, DType::F32, &[2, 2], &[3, 1], &[1.0, 2.0, 3.0, 4.0]).unwrap();
        assert!(product.compare(&b, &[1.0, 2.0, 3.0, 4.0], |_| 0.0).is_ok());
        let e = product.compare(&b, &[1.0, 2.0, 3.0, 5.0], |_| 0.5).unwrap_err();
        assert!(e.reason().contains("element [1, 1] is 4, not 5"), "{e}");
        // A write into the gap between rows.
        let gap = product.ptr().offset(8);
        // SAFETY: inside the tensor's memory.
        unsafe { b.device.copy_from_host(gap, &[0; 4], b.stream()) }.unwrap();
        let e = product.compare(&b, &[1.0, 2.0, 3.0, 4.0], |_| 0.0).unwrap_err();
        assert!(e.reason().contains("byte 8 of"), "{e}");
        assert!(run_case(&b, &case).is_ok());
    }

    #[test]
    fn gelu_has_its_known_values() {
        assert!((activate(Epilogue::GeluTanh, 1.0) - 0.841_192).abs() < 1e-6);
        assert_eq!(activate(Epilogue::GeluTanh, 0.0), 0.0);
        assert_eq!(activate(Epilogue::Relu, -2.0), 0.0);
        assert_eq!(activate(Epilogue::None, -2.0), -2.0);
    }
}
