use super::*;
use crate::HostTensor;
use crate::device::DevicePtr;
use proptest::prelude::*;

/// Strides for `[batch, rows, cols]`, and the number of elements they reach.
fn layout(batch: usize, rows: usize, cols: usize, kind: usize, gap: usize) -> ([i64; 3], usize) {
    let (rs, cs) = match kind {
        0 => (cols + gap, 1),
        1 => (1, rows + gap),
        _ => (2 * cols + 1, 2),
    };
    let bs = if kind == 3 { 0 } else { rows * rs.max(1) + cols * cs };
    ([bs, rs, cs].map(|s| s as i64), (batch * bs + rows * rs + cols * cs).max(1))
}

fn at(s: [i64; 3], b: usize, i: usize, j: usize) -> usize {
    b * s[0] as usize + i * s[1] as usize + j * s[2] as usize
}

fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh())
}

#[derive(Debug, Clone)]
struct Case {
    size: (usize, usize, usize, usize),
    kinds: [usize; 3],
    gap: usize,
    dtypes: [DType; 3],
    bias: bool,
    epilogue: Epilogue,
    seed: u64,
}

fn run_case(c: &Case, threads: usize) -> (HostTensor, Vec<f64>, f64) {
    let (batch, m, n, k) = c.size;
    let (ls, ln) = layout(batch, m, k, c.kinds[0], c.gap);
    let (rs, rn) = layout(batch, k, n, c.kinds[1], c.gap);
    let (os, on) = layout(batch, m, n, c.kinds[2] % 3, c.gap);
    let lhs = HostTensor::random(c.dtypes[0], &[ln], c.seed).unwrap();
    let rhs = HostTensor::random(c.dtypes[1], &[rn], c.seed + 1).unwrap();
    let bias = HostTensor::random(c.dtypes[2], &[n], c.seed + 2).unwrap();
    let mut out = HostTensor::zeros(c.dtypes[2], &[on]).unwrap();
    let resolved = |t: DevicePtr, dtype, s: [i64; 3]| ResolvedMatrix {
        ptr: t,
        dtype,
        batch_stride: s[0],
        row_stride: s[1],
        col_stride: s[2],
    };
    let p = ResolvedProduct {
        lhs: resolved(lhs.bytes().as_ptr().into(), c.dtypes[0], ls),
        rhs: resolved(rhs.bytes().as_ptr().into(), c.dtypes[1], rs),
        out: resolved(out.bytes_mut().as_mut_ptr().into(), c.dtypes[2], os),
        bias: c.bias.then(|| (bias.bytes().as_ptr().into(), c.dtypes[2])),
        epilogue: c.epilogue,
        m,
        n,
        k,
        batch,
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    pool.install(|| unsafe { product(&p) }).unwrap();
    let (l, r, bias) = (lhs.to_f64(), rhs.to_f64(), bias.to_f64());
    let mut expected = vec![0.0; on];
    let mut scale = 1.0f64;
    for (b, i, j) in (0..batch).flat_map(|b| (0..m).flat_map(move |i| (0..n).map(move |j| (b, i, j)))) {
        let terms = (0..k).map(|x| l[at(ls, b, i, x)] * r[at(rs, b, x, j)]);
        let (sum, magnitude) = terms.fold((0.0, 0.0), |(s, a), t| (s + t, a + f64::abs(t)));
        scale = scale.max(magnitude);
        let x = sum + if c.bias { bias[j] } else { 0.0 };
        expected[at(os, b, i, j)] = match c.epilogue {
            Epilogue::None => x,
            Epilogue::Relu => x.max(0.0),
            Epilogue::GeluTanh => gelu(x),
        };
    }
    (out, expected, scale)
}

fn case() -> impl Strategy<Value = Case> {
    let dtypes = prop_oneof![
        prop::sample::select(DType::ALL.to_vec()).prop_map(|d| [d; 3]),
        Just([DType::BF16, DType::BF16, DType::F32]),
        Just([DType::I8, DType::I8, DType::I32]),
    ];
    (
        (0..4usize, 0..20usize, 0..20usize, 0..40usize),
        [0..4usize, 0..4usize, 0..3usize],
        0..3usize,
        dtypes,
        any::<bool>(),
        prop::sample::select(vec![Epilogue::None, Epilogue::Relu, Epilogue::GeluTanh]),
        0..1000u64,
    )
        .prop_map(|(size, kinds, gap, dtypes, bias, epilogue, seed)| {
            let integer = !dtypes[2].is_float();
            let epilogue = if integer && epilogue == Epilogue::GeluTanh { Epilogue::None } else { epilogue };
            Case { size, kinds, gap, dtypes, bias, epilogue, seed }
        })
}

fn check(c: &Case) {
    let (out, expected, scale) = run_case(c, 1);
    let tolerance = match c.dtypes[2] {
        DType::F64 => 1e-13 * scale,
        DType::F32 => 1e-5 * scale,
        d if d.is_float() => d.epsilon().unwrap() * 4.0 * scale.max(4.0),
        _ => 0.0,
    };
    for (i, (&x, &e)) in out.to_f64().iter().zip(&expected).enumerate() {
        let e = if c.dtypes[2].is_float() { e } else { c.dtypes[2].wrap(e as i64) as f64 };
        assert!((x - e).abs() <= tolerance, "element {i}: {x}, expected {e}, of {c:?}");
    }
    assert_eq!(out, run_case(c, 3).0, "the number of threads changes the bits of {c:?}");
}

proptest! {
    #[test]
    fn equals_naive_sums(c in case()) {
        check(&c);
    }
}

#[test]
fn large_products_with_blocks_and_threads() {
    for (dtypes, kinds) in
        [([DType::F32; 3], [0, 1, 0]), ([DType::BF16; 3], [1, 0, 0]), ([DType::F16; 3], [0, 0, 1])]
    {
        let bias = true;
        let c =
            Case { size: (2, 530, 70, 129), kinds, gap: 0, dtypes, bias, epilogue: Epilogue::Relu, seed: 3 };
        check(&c);
    }
}

#[test]
fn f16_sums_are_rounded_once() {
    // 4096 ones: f16 sums in f16 would stop at 2048.
    let ones = HostTensor::from_f64(DType::F16, &[4096], &[1.0; 4096]).unwrap();
    let mut out = HostTensor::zeros(DType::F16, &[1]).unwrap();
    let m = |ptr: DevicePtr, row_stride| ResolvedMatrix {
        ptr,
        dtype: DType::F16,
        batch_stride: 0,
        row_stride,
        col_stride: 1,
    };
    let p = ResolvedProduct {
        lhs: m(ones.bytes().as_ptr().into(), 4096),
        rhs: m(ones.bytes().as_ptr().into(), 1),
        out: m(out.bytes_mut().as_mut_ptr().into(), 1),
        bias: None,
        epilogue: Epilogue::None,
        m: 1,
        n: 1,
        k: 4096,
        batch: 1,
    };
    unsafe { product(&p) }.unwrap();
    assert_eq!(out.to_f64(), [4096.0]);
}
