//! Linking, loading, launching, graphs: through kernels of our own.

use super::Bench;
use super::tensors::Tensor;
use crate::artifact::{Image, ImageKind};
use crate::device::cuda::link::{self, CubinCache, LinkOptions, NoCache, Ptx};
use crate::device::{Launch, Module};
use crate::dtype::DType;
use crate::error::{ErrorKind, Result, err};
use crate::plan::Kernel;
use std::collections::BTreeMap;
use std::sync::Mutex;

pub fn run(b: &mut Bench) {
    b.check("kernel: linked, launched", affine);
    b.check("kernel: cubin image, two kernels", cubin_image);
    b.check("kernel: 96 KiB of shared memory", shared_memory);
    b.check("kernel: clusters", clusters);
    b.check("linking in parallel, and the cache", in_parallel);
    b.check("linking: faulty PTX", faulty_ptx);
    b.check("loading: what cannot be", refusals);
    b.check("CUDA graph: record and replay", graph);
}

fn wrong(what: impl std::fmt::Display) -> crate::Error {
    err!(Device, "{what}").next("report this as a bug, with the whole self-test")
}

const HEAD: &str = ".version 7.0\n.target sm_70\n.address_size 64\n";

/// `out[i] = in[i] * scale + shift` on i64, one element a thread; `shift` tells kernels apart.
fn affine_ptx(name: &str) -> String {
    format!(
        ".visible .entry {name}(.param .u64 in, .param .u64 out, .param .u64 n, .param .u64 scale, .param .u64 shift)
{{
  .reg .pred %p;
  .reg .b32 %r<4>;
  .reg .b64 %i, %n, %in, %out, %x, %a, %b, %offset;
  mov.u32 %r0, %ctaid.x;
  mov.u32 %r1, %ntid.x;
  mov.u32 %r2, %tid.x;
  mad.wide.u32 %i, %r0, %r1, 0;
  cvt.u64.u32 %offset, %r2;
  add.u64 %i, %i, %offset;
  ld.param.u64 %n, [n];
  setp.ge.u64 %p, %i, %n;
  @%p bra END;
  ld.param.u64 %in, [in];
  ld.param.u64 %out, [out];
  ld.param.u64 %a, [scale];
  ld.param.u64 %b, [shift];
  cvta.to.global.u64 %in, %in;
  cvta.to.global.u64 %out, %out;
  shl.b64 %offset, %i, 3;
  add.u64 %in, %in, %offset;
  add.u64 %out, %out, %offset;
  ld.global.u64 %x, [%in];
  mad.lo.s64 %x, %x, %a, %b;
  st.global.u64 [%out], %x;
END:
  ret;
}}
"
    )
}

/// Each block of 256 threads writes its 8-byte elements in reverse, through the far end of dynamic shared memory.
const REVERSE: &str = ".extern .shared .align 16 .b8 scratch[];
.visible .entry reverse(.param .u64 in, .param .u64 out, .param .u64 start)
{
  .reg .b32 %r<4>;
  .reg .b64 %in, %out, %x, %s, %t, %offset;
  mov.u32 %r0, %tid.x;
  ld.param.u64 %in, [in];
  ld.param.u64 %out, [out];
  ld.param.u64 %s, [start];
  cvta.to.global.u64 %in, %in;
  cvta.to.global.u64 %out, %out;
  mul.wide.u32 %offset, %r0, 8;
  add.u64 %in, %in, %offset;
  add.u64 %out, %out, %offset;
  ld.global.u64 %x, [%in];
  mov.u64 %t, scratch;
  add.u64 %s, %s, %t;
  add.u64 %t, %s, %offset;
  st.shared.u64 [%t], %x;
  bar.sync 0;
  mov.u32 %r1, 255;
  sub.u32 %r1, %r1, %r0;
  mul.wide.u32 %offset, %r1, 8;
  add.u64 %t, %s, %offset;
  ld.shared.u64 %x, [%t];
  st.global.u64 [%out], %x;
  ret;
}
";

/// Thread 0 of each block writes its rank in the cluster and the cluster's size.
const RANK: &str = ".version 7.8
.target sm_90
.address_size 64
.visible .entry rank(.param .u64 out)
{
  .reg .pred %p;
  .reg .b32 %r<5>;
  .reg .b64 %out, %offset;
  mov.u32 %r0, %tid.x;
  setp.ne.u32 %p, %r0, 0;
  @%p bra END;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %cluster_ctarank;
  mov.u32 %r3, %cluster_nctarank;
  ld.param.u64 %out, [out];
  cvta.to.global.u64 %out, %out;
  mul.wide.u32 %offset, %r1, 8;
  add.u64 %out, %out, %offset;
  st.global.v2.u32 [%out], {%r2, %r3};
END:
  ret;
}
";

fn image(kind: ImageKind, bytes: &[u8]) -> Image {
    Image { kind, target: "sm_70".into(), bytes: bytes.into() }
}

fn kernel(name: &str, block: u32, shared_bytes: u32) -> Kernel {
    Kernel { name: name.into(), image: 0, summary: "self-test".into(), block, shared_bytes, checks: vec![] }
}

fn counting(n: i64) -> Vec<f64> {
    (0..n).map(|i| (i * 37 % 1000 - 500) as f64).collect()
}

/// Launches an affine kernel over `n` elements and compares.
fn check_affine(b: &Bench, module: &dyn Module, at: usize, n: i64, scale: i64, shift: i64) -> Result<()> {
    let input = Tensor::of(b, DType::I64, &[n], &[1], &counting(n))?;
    let out = Tensor::poison(b, DType::I64, &[n], &[1])?;
    let launch = Launch {
        buffers: &[input.ptr(), out.ptr()],
        symbols: &[n, scale, shift],
        grid: [(n as u64).div_ceil(128), 1, 1],
    };
    // SAFETY: the kernel takes these arguments and stays below `n`.
    unsafe { module.launch(at, &launch, b.stream()) }?;
    let want: Vec<f64> = counting(n).iter().map(|x| x * scale as f64 + shift as f64).collect();
    out.compare(b, &want, |_| 0.0).map(drop)
}

fn affine(b: &Bench) -> Result<String> {
    let text = format!("{HEAD}{}", affine_ptx("affine"));
    let k = kernel("affine", 128, 0);
    let loaded = b.gpu()?.load_all(&[(&image(ImageKind::Ptx, text.as_bytes()), &[&k])])?;
    let module = &loaded[0];
    for n in [1, 127, 128, 129, 1_000_003] {
        check_affine(b, module, 0, n, -3, 1 << 40)?;
    }
    let none = Launch { buffers: &[], symbols: &[], grid: [0, 1, 1] };
    // SAFETY: an empty grid runs nothing.
    unsafe { module.launch(0, &none, b.stream()) }?;
    let f = &module.functions()[0];
    let (registers, local, blocks) = (f.registers()?, f.local_bytes()?, f.occupancy()?);
    if registers == 0 || local != 0 || blocks == 0 {
        return Err(wrong(format!(
            "{registers} registers, {local} bytes local, {blocks} blocks a multiprocessor"
        )));
    }
    Ok(format!("{registers} registers, {blocks} blocks a multiprocessor"))
}

fn cubin_image(b: &Bench) -> Result<String> {
    let text = format!("{HEAD}{}{}", affine_ptx("one"), affine_ptx("two"));
    let options = LinkOptions { line_info: true, ..Default::default() };
    let cubin = link::link(b.gpu()?.context(), &Ptx { name: "pair", text: &text }, &options)?;
    let (one, two) = (kernel("one", 128, 0), kernel("two", 128, 0));
    let module = b.device.load(&image(ImageKind::Cubin, &cubin.bytes), &[&two, &one])?;
    check_affine(b, &*module, 0, 1000, 2, 5)?;
    check_affine(b, &*module, 1, 1000, 7, -5)?;
    let listed: Vec<String> =
        cubin.resources.iter().map(|r| format!("{} {} registers", r.kernel, r.registers)).collect();
    // Some drivers give no log: then there is nothing to read, and reports say so.
    if listed.is_empty() {
        return Ok(format!("{} bytes; the driver says nothing of registers", cubin.bytes.len()));
    }
    if cubin.resources.len() != 2 || cubin.resources.iter().any(|r| r.registers == 0) {
        return Err(wrong(format!("the assembler's log was not understood: {listed:?}")));
    }
    Ok(format!("{} bytes; {}", cubin.bytes.len(), listed.join(", ")))
}

fn shared_memory(b: &Bench) -> Result<String> {
    let bytes: u32 = 96 << 10;
    let text = format!("{HEAD}{REVERSE}");
    let ptx = image(ImageKind::Ptx, text.as_bytes());
    let module = b.device.load(&ptx, &[&kernel("reverse", 256, bytes)])?;
    let input = Tensor::of(b, DType::I64, &[256], &[1], &counting(256))?;
    let out = Tensor::poison(b, DType::I64, &[256], &[1])?;
    let start = i64::from(bytes) - 256 * 8;
    let launch = Launch { buffers: &[input.ptr(), out.ptr()], symbols: &[start], grid: [1; 3] };
    // SAFETY: the kernel uses the last 2 KiB of its shared memory and 256 elements.
    unsafe { module.launch(0, &launch, b.stream()) }?;
    let want: Vec<f64> = counting(256).into_iter().rev().collect();
    out.compare(b, &want, |_| 0.0)?;
    match b.device.load(&ptx, &[&kernel("reverse", 256, 1 << 20)]) {
        Err(e) if e.to_string().contains("shared memory") => Ok("and 1 MiB is refused".into()),
        Err(e) => Err(wrong(format!("1 MiB of shared memory gave another error: {e}"))),
        Ok(_) => Err(wrong("1 MiB of shared memory was accepted")),
    }
}

fn clusters(b: &Bench) -> Result<String> {
    let (major, minor) = b.gpu()?.context().info().capability;
    if major < 9 {
        return Ok(format!("sm_{major}{minor} has none"));
    }
    let loaded =
        b.gpu()?.load_all(&[(&image(ImageKind::Ptx, RANK.as_bytes()), &[&kernel("rank", 64, 0)])])?;
    let out = Tensor::poison(b, DType::I32, &[12, 2], &[2, 1])?;
    let launch = Launch { buffers: &[out.ptr()], symbols: &[], grid: [12, 1, 1] };
    let f = &loaded[0].functions()[0];
    // SAFETY: the kernel writes two numbers a block.
    unsafe { f.launch_cluster(&launch, 4, b.stream()) }?;
    let want: Vec<f64> = (0..12).flat_map(|i| [f64::from(i % 4), 4.0]).collect();
    out.compare(b, &want, |_| 0.0)?;
    // SAFETY: as above; refused before it runs.
    match unsafe { f.launch_cluster(&launch, 5, b.stream()) } {
        Err(_) => Ok("3 of 4 blocks".into()),
        Ok(()) => Err(wrong("12 blocks in clusters of 5 were accepted")),
    }
}

#[derive(Default)]
struct Kept(Mutex<BTreeMap<String, Vec<u8>>>);

impl CubinCache for Kept {
    fn get(&self, key: &str) -> Option<Vec<u8>> {
        self.0.lock().ok()?.get(key).cloned()
    }
    fn put(&self, key: &str, cubin: &[u8]) {
        if let Ok(mut kept) = self.0.lock() {
            kept.insert(key.into(), cubin.into());
        }
    }
}

fn in_parallel(b: &Bench) -> Result<String> {
    let names: Vec<String> = (0..24).map(|i| format!("k{i}")).collect();
    let texts: Vec<String> = names.iter().map(|n| format!("{HEAD}{}", affine_ptx(n))).collect();
    let modules: Vec<Ptx<'_>> = names.iter().zip(&texts).map(|(name, text)| Ptx { name, text }).collect();
    let (context, options) = (b.gpu()?.context(), LinkOptions::default());
    let kept = Kept::default();
    let many = link::link_all(context, &modules, &options, 8, &kept)?;
    let one = link::link_all(context, &modules, &options, 1, &NoCache)?;
    let cached = link::link_all(context, &modules, &options, 8, &kept)?;
    for (i, name) in names.iter().enumerate() {
        if many[i] != one[i] {
            return Err(wrong(format!("'{name}' differs between one thread and many")));
        }
        if many[i].bytes != cached[i].bytes || !cached[i].resources.is_empty() {
            return Err(wrong(format!("'{name}' did not come from the cache")));
        }
        let module = b.device.load(&image(ImageKind::Cubin, &many[i].bytes), &[&kernel(name, 128, 0)])?;
        check_affine(b, &*module, 0, 100, i as i64, 1)?;
    }
    Ok("24 modules, 8 threads".into())
}

fn faulty_ptx(b: &Bench) -> Result<String> {
    let text = format!("{HEAD}{}", affine_ptx("affine").replace("shl.b64", "shl.b65"));
    let e =
        match link::link(b.gpu()?.context(), &Ptx { name: "faulty", text: &text }, &LinkOptions::default()) {
            Ok(_) => return Err(wrong("faulty PTX was accepted")),
            Err(e) => e,
        };
    let said = e.to_string();
    if e.kind() != ErrorKind::Artifact || !said.contains("shl.b65") {
        return Err(wrong(format!("the error does not show the line: {said}")));
    }
    // Errors do not spoil what follows.
    affine(b)?;
    Ok(e.reason().lines().nth(1).unwrap_or_default().trim().to_string())
}

fn refusals(b: &Bench) -> Result<String> {
    let text = format!("{HEAD}{}", affine_ptx("affine"));
    let good = image(ImageKind::Ptx, text.as_bytes());
    let cases: [(&str, Image, Kernel); 5] = [
        ("a kernel that is not there", good.clone(), kernel("other", 128, 0)),
        ("blocks of 2048 threads", good.clone(), kernel("affine", 2048, 0)),
        ("blocks of no threads", good, kernel("affine", 0, 0)),
        ("a damaged cubin", image(ImageKind::Cubin, b"\x7fELF nonsense"), kernel("affine", 128, 0)),
        ("an image for the CPU", image(ImageKind::ElfX86_64, b"\x7fELF"), kernel("affine", 128, 0)),
    ];
    for (what, image, kernel) in &cases {
        match b.device.load(image, &[kernel]) {
            Ok(_) => return Err(wrong(format!("{what} was accepted"))),
            Err(e) if e.next_step().is_empty() => return Err(wrong(format!("{what}: no next step: {e}"))),
            Err(_) => {}
        }
    }
    affine(b)?;
    Ok(format!("{} cases", cases.len()))
}

fn graph(b: &Bench) -> Result<String> {
    let text = format!("{HEAD}{}", affine_ptx("affine"));
    let module = b.device.load(&image(ImageKind::Ptx, text.as_bytes()), &[&kernel("affine", 128, 0)])?;
    let n = 1000;
    let (x, y) =
        (Tensor::of(b, DType::I64, &[n], &[1], &counting(n))?, Tensor::poison(b, DType::I64, &[n], &[1])?);
    let work = || {
        let launch = Launch { buffers: &[x.ptr(), y.ptr()], symbols: &[n, 1, 3], grid: [8, 1, 1] };
        // SAFETY: the kernel stays below `n`; the copy is of that many elements.
        unsafe {
            module.launch(0, &launch, b.stream())?;
            b.device.copy_strided(&x.view(), &y.view(), b.stream())
        }
    };
    work()?;
    let graph = b.gpu()?.record_graph(b.stream(), work)?;
    for _ in 0..10 {
        // SAFETY: both tensors still live.
        unsafe { graph.launch(b.stream()) }?;
    }
    // Recording runs nothing: one plain run and ten replays.
    let want: Vec<f64> = counting(n).iter().map(|v| v + 33.0).collect();
    x.compare(b, &want, |_| 0.0)?;
    // What cannot be recorded is an error, and the stream works on.
    match b.gpu()?.record_graph(b.stream(), || b.device.synchronize(b.stream())) {
        Ok(_) => return Err(wrong("a wait was recorded")),
        Err(e) if e.next_step().is_empty() => return Err(wrong(format!("no next step: {e}"))),
        Err(_) => {}
    }
    work()?;
    let want: Vec<f64> = counting(n).iter().map(|v| v + 36.0).collect();
    x.compare(b, &want, |_| 0.0)?;
    if graph.nodes() != 2 {
        return Err(wrong(format!("{} nodes instead of 2", graph.nodes())));
    }
    Ok("2 nodes, 10 replays".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_assembler_accepts_the_kernels() {
        let Some(ptxas) = crate::device::cuda::copy::tests::ptxas() else { return };
        let folder = tempfile::tempdir().unwrap();
        let affine = format!("{HEAD}{}{}", affine_ptx("one"), affine_ptx("two"));
        let faulty = affine.replace("shl.b64", "shl.b65");
        let reverse = format!("{HEAD}{REVERSE}");
        for (name, text, good) in [
            ("affine", affine.as_str(), true),
            ("reverse", &reverse, true),
            ("rank", RANK, true),
            ("faulty", &faulty, false),
        ] {
            let source = folder.path().join("kernel.ptx");
            std::fs::write(&source, text).unwrap();
            let out = std::process::Command::new(&ptxas)
                .args(["-v", "-arch", "sm_90a", "-o"])
                .arg(folder.path().join("kernel.cubin"))
                .arg(&source)
                .output()
                .unwrap();
            assert_eq!(out.status.success(), good, "{name}: {}", String::from_utf8_lossy(&out.stderr));
        }
    }
}
