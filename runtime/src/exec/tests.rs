use super::*;
use crate::artifact::Constants;
use crate::device::TensorRef;
use crate::device::cpu::CpuDevice;
use crate::dtype::DType;
use crate::error::ErrorKind;
use crate::plan::HostCall;
use crate::testing::{MLP, MLP_C, artifact, mlp};
use proptest::prelude::*;

fn cpu(threads: usize) -> Arc<dyn Device> {
    Arc::new(CpuDevice::new(threads).unwrap())
}

fn load(plan: &str, c: &str) -> Executable {
    Executable::new(artifact(plan, c, mlp().constants), cpu(2)).unwrap()
}

fn f32s(shape: &[usize], values: &[f32]) -> HostTensor {
    HostTensor::from_slice(shape, values).unwrap()
}

#[test]
fn a_plan_runs_for_any_batch() {
    let exe = Executable::new(mlp(), cpu(3)).unwrap();
    for n in [1usize, 5, 0, 64, 5] {
        let x: Vec<f32> = (0..3 * n).map(|i| i as f32).collect();
        let y = exe.run_host(&[f32s(&[n, 3], &x)]).unwrap();
        let expected: Vec<f64> = x
            .chunks(3)
            .flat_map(|r| {
                let dot = |w: [f32; 3], b: f32| (r[0] * w[0] + r[1] * w[1] + r[2] * w[2] + b).max(0.0) + 1.0;
                [dot([1.0, 3.0, 5.0], 10.0) as f64, dot([2.0, 4.0, 6.0], -100.0) as f64]
            })
            .collect();
        assert_eq!((y.len(), y[0].shape(), y[0].to_f64()), (1, &[n, 2][..], expected));
    }
}

#[test]
fn an_artifact_read_from_a_file_runs_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mlp.strata");
    mlp().write(&path).unwrap();
    let exe = Executable::new(Artifact::read(&path).unwrap(), cpu(1)).unwrap();
    let y = exe.run_host(&[f32s(&[1, 3], &[1.0, 1.0, 1.0])]).unwrap();
    assert_eq!(y[0].to_f64(), [20.0, 1.0]);
}

const CHECKS: &str = r#"plan @f on cpu {
  symbol s0 "n" in [0, inf] = dim 0 of input 0
  input %x = b0
  output %y = b1
  buffer b0 : f32[s0] = input 0
  buffer b1 : f32[s0] = output 0
  arena 0 bytes
  kernel k0 = @check in image 0 block 1 shared 0 "check" checks("above" loc("model.py:3"), "below")
  launch k0(b0) -> (b1) symbols(s0) grid(s0) loc("model.py:2")
}"#;

/// 0 where an element is above 1, 1 where one is below 0, 7 where one is 0.5.
const CHECKS_C: &str = "
    static void failed(unsigned long *status, unsigned long number) {
        unsigned long seen = __atomic_load_n(status, __ATOMIC_RELAXED);
        while (number < seen && !__atomic_compare_exchange_n(status, &seen, number, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
    }
    void check(char **b, const long *s, long begin, long end, unsigned long *status) {
        const float *x = (const float *)b[0]; float *y = (float *)b[1];
        for (long i = begin; i < end; i++) {
            y[i] = x[i];
            if (x[i] > 1.0f) failed(status, 0);
            if (x[i] < 0.0f) failed(status, 1);
            if (x[i] == 0.5f) failed(status, 7);
        }
    }
";

/// Whatever the order of the threads, the same check is reported; a call after a failed one is a call like any other.
#[test]
fn a_failed_check_ends_the_call() {
    for threads in [1, 3] {
        let exe = Executable::new(artifact(CHECKS, CHECKS_C, mlp().constants), cpu(threads)).unwrap();
        let run = |values: &[f32]| exe.run_host(&[f32s(&[values.len()], values)]);
        let mut x = vec![0.25; 1000];
        assert_eq!(run(&x).unwrap()[0].to_f64(), vec![0.25; 1000]);
        x[10] = -1.0;
        let e = run(&x).unwrap_err();
        assert_eq!((e.kind(), e.reason(), e.place()), (ErrorKind::Index, "below", "@f, model.py:2, step 0"));
        x[900] = 2.0;
        for _ in 0..20 {
            let e = run(&x).unwrap_err();
            assert_eq!((e.reason(), e.place()), ("above", "@f, model.py:2, step 0, model.py:3"));
        }
        assert_eq!(run(&[1.0, 0.0]).unwrap()[0].to_f64(), [1.0, 0.0]);
        assert_eq!(run(&[0.5]).unwrap_err().kind(), ErrorKind::Artifact);
    }
}

#[test]
fn guards_name_parameter_and_dimension() {
    let exe = load(MLP, MLP_C);
    let e = |t: HostTensor| exe.run_host(&[t]).unwrap_err().to_string();
    insta::assert_snapshot!(e(HostTensor::zeros(DType::F32, &[65, 3]).unwrap()), @r#"
    expected s0 "batch": 0 to 64; found 65
      where: @mlp, parameter %x, dimension 0
      next: pass a size in the range, or compile again with a wider range
    "#);
    insta::assert_snapshot!(e(HostTensor::zeros(DType::F32, &[4, 2]).unwrap()), @"
    expected size 3, found 2
      where: @mlp, parameter %x (number 0), dimension 1
      next: pass a tensor of the expected size, or compile with this dimension dynamic
    ");
    insta::assert_snapshot!(e(HostTensor::zeros(DType::F64, &[4, 3]).unwrap()), @"
    expected element type f32, found f64
      where: @mlp, parameter %x (number 0)
      next: convert the tensor, or compile for this type
    ");
    insta::assert_snapshot!(exe.run_host(&[]).unwrap_err(), @"
    @mlp takes 1 tensors, got 0
      where: @mlp
      next: pass, in order: x
    ");
    let x = f32s(&[3, 4], &[0.0; 12]);
    let t = DeviceTensor::upload(exe.pool(), &x, Stream::default()).unwrap();
    let view = TensorRef { shape: &[4, 3], strides: &[1, 4], ..t.as_ref() };
    let view = unsafe { DeviceTensor::borrowed(exe.device(), &view) };
    insta::assert_snapshot!(exe.run(&[view]).err().unwrap(), @"
    expected stride 1 (contiguous), found 4
      where: @mlp, parameter %x (number 0), dimension 1
      next: make the tensor contiguous, or compile for these strides
    ");
}

const DUPLICATE: &str = "plan @dup on cpu {
  symbol s0 \"n\" in [0, inf] step 2 = dim 0 of input 0
  symbol s1 \"half\" in [0, 8] = s0 floordiv 2
  symbol s2 \"k\" in [0, 9] = scalar 0
  symbol s3 \"stride\" in [1, inf] = stride 0 of input 1
  input %a = b0
  input %b = b1
  output %c = b2
  output %same = b2
  output %in = b3
  output %w = b4
  buffer b0 : f32[s0, s1] = input 0
  buffer b1 : f32[s0] strides [s3] = input 1
  buffer b2 : f32[s0] = output 0
  buffer b3 : f32[s1] strides [2] = alias of b1 offset 0
  buffer b4 : f32[2] strides [1] = alias of b5 offset 1
  buffer b5 : f32[3, 2] in constants at 0
  arena 0 bytes
  copy b1 -> b2
}
";

#[test]
fn scalars_duplicates_and_aliased_results() {
    let exe = load(&DUPLICATE.replace("strides [2] = alias", "strides [s3 * 2] = alias"), "");
    let a = HostTensor::zeros(DType::F32, &[4, 2]).unwrap();
    let b = f32s(&[4], &[1.0, 2.0, 3.0, 4.0]);
    let options = |k: &'static [i64]| RunOptions { scalars: k, ..Default::default() };
    let y = exe.run_host_with(&[a.clone(), b.clone()], options(&[7])).unwrap();
    let values: Vec<_> = y.iter().map(HostTensor::to_f64).collect();
    assert_eq!(values, [vec![1.0, 2.0, 3.0, 4.0], vec![1.0, 2.0, 3.0, 4.0], vec![1.0, 3.0], vec![2.0, 3.0]]);
    // Results that alias share memory on the device.
    let up = |t| DeviceTensor::upload(exe.pool(), t, Stream::default()).unwrap();
    let (da, db) = (up(&a), up(&b));
    let out = exe.run_with(&[da.clone(), db.clone()], options(&[7])).unwrap();
    assert_eq!((out[0].ptr(), out[2].ptr()), (out[1].ptr(), db.ptr()));
    drop((exe, da, db));
    assert_eq!(out[3].download(Stream::default()).unwrap().to_f64(), [2.0, 3.0]);
    assert_eq!(out[2].download(Stream::default()).unwrap().to_f64(), [1.0, 3.0]);
    let exe = load(DUPLICATE, "");
    let e = |x: &HostTensor, y: &HostTensor, k| {
        exe.run_host_with(&[x.clone(), y.clone()], options(k)).unwrap_err().to_string()
    };
    assert!(
        e(&a, &f32s(&[3], &[0.0; 3]), &[7])
            .contains("expected size s0 = 4, found 3\n  where: @dup, parameter %b")
    );
    let odd = HostTensor::zeros(DType::F32, &[3, 1]).unwrap();
    assert!(e(&odd, &b, &[7]).contains("a multiple of 2, at least 0; found 3"));
    let big = HostTensor::zeros(DType::F32, &[20, 10]).unwrap();
    assert!(e(&big, &b, &[7]).contains("0 to 8; found 10\n  where: @dup, s1 = s0 floordiv 2"));
    assert!(e(&a, &b, &[]).contains("integer argument number 0"));
    assert!(e(&a, &b, &[10]).contains("\"k\": 0 to 9; found 10"));
}

#[test]
fn accesses_outside_of_memory_are_refused() {
    let cases = [
        ("f32[3, 2] in constants at 0", "f32[300, 2] in constants at 0", "of the constants, which has"),
        ("= b0<0, 3, 1> by", "= b0<0, 4, 1> by", "the product's lhs reads"),
        ("bias b2", "bias b1", ""),
        ("f32[2] in constants at 64", "f32[1] in constants at 64", "bias has shape [1]"),
    ];
    for (from, to, reason) in cases {
        let result = load(&MLP.replace(from, to), MLP_C).run_host(&[f32s(&[2, 3], &[1.0; 6])]);
        match result {
            Err(e) => assert!(!reason.is_empty() && e.reason().contains(reason), "{e}"),
            Ok(_) => assert!(reason.is_empty(), "{to} was accepted"),
        }
    }
}

struct Double(Vec<String>);

impl HostCalls for Double {
    fn call(
        &mut self,
        call: &HostCall,
        inputs: &[TensorRef<'_>],
        symbols: &[i64],
        outputs: &[TensorRef<'_>],
        _: Stream,
    ) -> Result<()> {
        self.0.push(format!("{} {:?} {symbols:?} {:?}", call.name, inputs[0].shape, outputs[0].strides));
        for i in 0..inputs[0].elements() as usize {
            // SAFETY: contiguous host tensors of the same size.
            unsafe { *outputs[0].ptr.as_host::<f32>().add(i) = 2.0 * *inputs[0].ptr.as_host::<f32>().add(i) };
        }
        Ok(())
    }
}

const HOST: &str = "plan @h on cpu {
  symbol s0 \"n\" in [0, inf] = dim 0 of input 0
  input %x = b0
  output %y = b1
  buffer b0 : f32[s0] = input 0
  buffer b1 : f32[s0] = output 0
  arena 0 bytes
  host @my.double(b0) symbols(s0 * 2) -> (b1) reason \"no lowering\" loc(\"a.py:7\")
}
";

#[test]
fn host_calls() {
    let exe = load(HOST, "");
    let mut host = Double(Vec::new());
    let options = RunOptions { host: Some(&mut host), ..Default::default() };
    let y = exe.run_host_with(&[f32s(&[2], &[1.0, 5.0])], options).unwrap();
    assert_eq!((y[0].to_f64(), host.0), (vec![2.0, 10.0], vec!["my.double [2] [4] [1]".to_owned()]));
    insta::assert_snapshot!(exe.run_host(&[f32s(&[1], &[1.0])]).unwrap_err(), @"
    the op my.double runs in the host program, which offers no way to: no lowering
      where: @h, a.py:7, step 0, host call my.double
      next: run the artifact from PyTorch, or compile with fallback=error to see all such ops
    ");
}

/// Counts what it hands out; everything is one arena of its own.
struct Counting(Vec<String>, Vec<crate::aligned::AlignedBytes>);

impl Allocator for Counting {
    fn block(&mut self, buffer: usize, bytes: usize) -> Result<DevicePtr> {
        let ptr = self.arena(bytes)?;
        *self.0.last_mut().unwrap() = format!("block b{buffer} {bytes}");
        Ok(ptr)
    }

    fn release(&mut self, buffer: usize) {
        self.0.push(format!("release b{buffer}"));
    }

    fn release_input(&mut self, number: usize) {
        self.0.push(format!("release input {number}"));
    }

    fn scratch(&mut self, bytes: usize) -> Result<DevicePtr> {
        self.arena(bytes)
    }

    fn arena(&mut self, bytes: usize) -> Result<DevicePtr> {
        self.0.push(format!("arena {bytes}"));
        self.1.push(crate::aligned::AlignedBytes::zeroed(bytes));
        Ok(self.1.last_mut().unwrap().as_mut_ptr().into())
    }
    fn output(&mut self, n: usize, d: DType, shape: &[i64], _: &[i64], bytes: usize) -> Result<DevicePtr> {
        self.0.push(format!("output {n} {d} {shape:?} {bytes}"));
        self.1.push(crate::aligned::AlignedBytes::zeroed(bytes));
        Ok(self.1.last_mut().unwrap().as_mut_ptr().into())
    }
}

#[test]
fn an_embedder_gives_the_memory() {
    let exe = load(MLP, MLP_C);
    let x = f32s(&[2, 3], &[1.0; 6]);
    let view =
        TensorRef { ptr: x.bytes().as_ptr().into(), dtype: DType::F32, shape: &[2, 3], strides: &[3, 1] };
    let mut allocator = Counting(Vec::new(), Vec::new());
    let out = unsafe { exe.run_raw(&[view], &mut allocator, RunOptions::default()) }.unwrap();
    assert_eq!(allocator.0, ["arena 16", "output 0 f32 [2, 2] 16"]);
    assert_eq!((out[0].ptr, out[0].origin), (DevicePtr::from(allocator.1[1].as_ptr()), Origin::Output(0)));
    let values = unsafe { std::slice::from_raw_parts(out[0].ptr.as_host::<f32>(), 4) };
    assert_eq!(values, [20.0, 1.0, 20.0, 1.0]);
}

#[test]
fn memory_goes_back_to_the_pool_and_comes_again() {
    let exe = load(MLP, MLP_C);
    let x = f32s(&[2, 3], &[1.0; 6]);
    let first = DeviceTensor::upload(exe.pool(), &x, Stream::default()).unwrap();
    let y = exe.run(std::slice::from_ref(&first)).unwrap();
    let (ptr, kept) = (y[0].ptr(), exe.pool().kept_bytes());
    drop(y);
    assert!(exe.pool().kept_bytes() > kept);
    let again = exe.run(&[first]).unwrap();
    assert!(exe.pool().kept_bytes() > 0 || again[0].ptr() == ptr);
    exe.pool().trim();
    assert_eq!(exe.pool().kept_bytes(), 0);
}

#[test]
fn profiles_have_a_line_a_step() {
    let exe = load(MLP, MLP_C);
    let x = DeviceTensor::upload(exe.pool(), &f32s(&[2, 3], &[1.0; 6]), Stream::default()).unwrap();
    let p = exe.profile(&[x], 3, &mut NoHostCalls).unwrap();
    assert_eq!((p.calls, p.steps.len()), (3, 2));
    assert!(p.steps.iter().all(|s| s.min_ns <= s.total_ns && s.total_ns > 0));
    let text = p.to_string();
    assert!(
        text.contains("kernel add_one") && text.contains("mlp.py:4") && text.contains("1 × s0 × 2 × 3"),
        "{text}"
    );
}

#[test]
fn artifacts_that_do_not_fit_the_device() {
    let cuda = artifact(&MLP.replace("on cpu", "on cuda"), MLP_C, Constants::new());
    assert!(Executable::new(cuda, cpu(1)).err().unwrap().reason().contains("is for cuda, the device is cpu"));
    let e = Executable::new(artifact(MLP, "void other(void) {}", mlp().constants), cpu(1)).err().unwrap();
    assert!(e.reason().contains("no function 'add_one'"), "{e}");
    let mut ptx = mlp();
    ptx.images[0].kind = crate::artifact::ImageKind::Ptx;
    let e = Executable::new(ptx, cpu(1)).err().unwrap();
    assert!(e.reason().contains("ptx for x86-64; the CPU runs elf-x86_64"), "{e}");
}

const SCALAR: &str = "plan @s on cpu {
  input %x = b0
  output %y = b1
  buffer b0 : f64[] = input 0
  buffer b1 : f64[] = output 0
  arena 0 bytes
  kernel k0 = @sq in image 0 block 1 shared 0 \"mul\"
  launch k0(b0) -> (b1) symbols() grid(1)
}
";

#[test]
fn rank_zero() {
    let c = "void sq(double **b, const long *s, long begin, long end) { *b[1] = *b[0] * *b[0]; }";
    let y = load(SCALAR, c).run_host(&[HostTensor::scalar(3.0f64)]).unwrap();
    assert_eq!((y[0].shape(), y[0].to_f64()), (&[][..], vec![9.0]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn an_artifact_with_flipped_bits_is_refused_or_runs(at in any::<prop::sample::Index>(), bit in 0..8u8) {
        let good = artifact(HOST, "", Constants::new()).to_bytes().unwrap();
        let mut bytes = good.clone();
        bytes[at.index(good.len())] ^= 1 << bit;
        prop_assert!(Artifact::from_bytes(&bytes).is_err() || Artifact::from_bytes(&bytes).unwrap() == Artifact::from_bytes(&good).unwrap());
        prop_assert!(Artifact::from_bytes(&good[..at.index(good.len())]).is_err());
    }
}

#[test]
fn the_file_format_is_deterministic_and_versioned() {
    let (a, b) = (mlp().to_bytes().unwrap(), mlp().to_bytes().unwrap());
    assert_eq!(a, b);
    assert_eq!(Artifact::from_bytes(&a).unwrap(), mlp());
    let refused = |at: usize, value: u8| {
        let mut bytes = a.clone();
        bytes[at] = value;
        Artifact::from_bytes(&bytes).unwrap_err().to_string()
    };
    assert!(
        refused(8, 99)
            .contains("format version 99; this runtime reads version 4\n  next: run it with a newer")
    );
    assert!(refused(0, b'X').contains("not a Strata artifact"));
    assert!(refused(30, 0xAA).contains("header is corrupt"));
    assert!(refused(a.len() - 1, 0xAA).contains("section 'constants' is corrupt"));
    assert!(Artifact::from_bytes(&[]).unwrap_err().reason().contains("is empty"));
    let mut longer = a.clone();
    longer.push(0);
    assert!(Artifact::from_bytes(&longer).unwrap_err().reason().contains("its header says"));
}

const BLOCKS: &str = "plan @b on cpu {
  input %x = b0
  output %y = b2
  output %z = b4
  buffer b0 : f32[262144] = input 0
  buffer b1 : f32[262144] = block
  buffer b2 : f32[262144] = output 0
  buffer b3 : f32[4] = alias of b1 offset 8
  buffer b4 : f32[4] = output 1
  arena 0 bytes
  copy b0 -> b1
  copy b1 -> b2
  copy b3 -> b4
}
";

#[test]
fn large_memory_is_taken_late_and_given_back_early() {
    let exe = load(BLOCKS, "");
    let values: Vec<f32> = (0..262_144).map(|i| i as f32).collect();
    let x = f32s(&[262_144], &values);
    let view =
        TensorRef { ptr: x.bytes().as_ptr().into(), dtype: DType::F32, shape: &[262_144], strides: &[1] };
    let mut allocator = Counting(Vec::new(), Vec::new());
    let out = unsafe { exe.run_raw(&[view], &mut allocator, RunOptions::default()) }.unwrap();
    let expected = [
        "output 1 f32 [4] 16",
        "block b1 1048576",
        "release input 0",
        "output 0 f32 [262144] 1048576",
        "release b1",
    ];
    assert_eq!(allocator.0, expected);
    let first = |n: usize| unsafe { *out[n].ptr.as_host::<f32>().add(1) };
    assert_eq!((first(0), first(1)), (1.0, 9.0));
    let y = exe.run_host(&[x]).unwrap();
    assert_eq!((y[0].to_f64()[262_143], y[1].to_f64()), (262_143.0, vec![8.0, 9.0, 10.0, 11.0]));
}
