//! Memory and copies.

use super::Bench;
use super::tensors::{Memory, Tensor, indices, numbers, permuted, row_major};
use crate::device::Stream;
use crate::device::cuda::memory;
use crate::dtype::DType;
use crate::error::{ErrorKind, Result, err};

pub fn run(b: &mut Bench) {
    b.check("memory: there and back", there_and_back);
    b.check("memory: too much is an error", too_much);
    b.check("streams and events", streams_and_events);
    for dtype in [DType::I8, DType::BF16, DType::F32, DType::F64] {
        b.check(format!("strided copies of {dtype}"), |b| strided(b, dtype));
    }
    b.check("strided copy, large", large);
}

fn wrong(what: &str) -> crate::Error {
    err!(Device, "{what}").next("report this as a bug, with the whole self-test")
}

fn there_and_back(b: &Bench) -> Result<String> {
    let stream = b.stream();
    for bytes in [0usize, 1, 255, 256, 1 << 20, (64 << 20) + 3] {
        let data: Vec<u8> = (0..bytes).map(|i| (i * 7 % 251) as u8).collect();
        let (first, second) = (b.device.alloc(bytes, stream)?, b.device.alloc(bytes, stream)?);
        if first.0 == 0 || !first.0.is_multiple_of(256) || first == second {
            return Err(wrong(&format!("an allocation of {bytes} bytes at {first}")));
        }
        let mut back = vec![0; bytes];
        // SAFETY: both allocations have that many bytes and are freed once, after their last use.
        unsafe {
            b.device.copy_from_host(first, &data, stream)?;
            b.device.copy(second, first, bytes, stream)?;
            memory::fill(b.gpu()?.context(), first, 0xAB, bytes, stream)?;
            b.device.copy_to_host(&mut back, second, stream)?;
            if back != data {
                return Err(wrong(&format!("{bytes} bytes came back different")));
            }
            b.device.copy_to_host(&mut back, first, stream)?;
            b.device.free(first, bytes, stream);
            b.device.free(second, bytes, stream);
        }
        if back.iter().any(|&x| x != 0xAB) {
            return Err(wrong(&format!("a fill of {bytes} bytes missed some")));
        }
    }
    // The default stream of an embedder.
    let ptr = b.device.alloc(16, Stream(0))?;
    let mut back = [0; 16];
    // SAFETY: 16 bytes, freed once.
    unsafe {
        b.device.copy_from_host(ptr, &[9; 16], Stream(0))?;
        b.device.copy_to_host(&mut back, ptr, Stream(0))?;
        b.device.free(ptr, 16, Stream(0));
    }
    if back != [9; 16] {
        return Err(wrong("the default stream lost bytes"));
    }
    Ok("6 sizes".into())
}

fn too_much(b: &Bench) -> Result<String> {
    match b.device.alloc(1 << 46, b.stream()) {
        Err(e) if e.kind() == ErrorKind::Memory => Ok(e.reason().to_string()),
        Err(e) => Err(wrong(&format!("an error of another kind: {e}"))),
        Ok(_) => Err(wrong("64 TiB were allocated")),
    }
}

fn streams_and_events(b: &Bench) -> Result<String> {
    let stream = b.stream();
    // SAFETY: our stream is live.
    unsafe { b.gpu()?.context().check_lent(stream) }?;
    // SAFETY: the default stream is always live.
    unsafe { b.gpu()?.context().check_lent(Stream(0)) }?;
    let memory = Memory::new(b, 256 << 20)?;
    let start = b.device.record(stream)?;
    // SAFETY: the memory is ours and that long.
    unsafe { memory::fill(b.gpu()?.context(), memory.ptr(), 1, memory.bytes(), stream) }?;
    let end = b.device.record(stream)?;
    let ns = b.device.elapsed_ns(&start, &end)?;
    if ns == 0 {
        return Err(wrong("filling 256 MiB took no time"));
    }
    Ok(format!("filling 256 MiB took {} us", ns / 1000))
}

pub fn strided(b: &Bench, dtype: DType) -> Result<String> {
    let mut cases = 0;
    let mut case = |shape: &[i64], to: &[i64], from: &[i64]| -> Result<()> {
        // The source's memory holds each element once, also where the view repeats it.
        let unique: Vec<i64> = shape.iter().zip(from).map(|(n, s)| if *s == 0 { 1 } else { *n }).collect();
        let values = numbers(7, unique.iter().product::<i64>() as usize);
        let values: Vec<f64> = values.iter().map(|v| dtype.round(v * 100.0)).collect();
        let mut source = Tensor::of(b, dtype, &unique, from, &values)?;
        let packed = row_major(&unique);
        let pick = |index: &[i64]| {
            let at: i64 = (0..shape.len()).map(|d| if from[d] == 0 { 0 } else { index[d] * packed[d] }).sum();
            values[at as usize]
        };
        let want: Vec<f64> = indices(shape).map(|i| pick(&i)).collect();
        source.shape = shape.into();
        let target = Tensor::poison(b, dtype, shape, to)?;
        // SAFETY: both tensors are ours.
        unsafe { b.device.copy_strided(&target.view(), &source.view(), b.stream()) }?;
        target
            .compare(b, &want, |_| 0.0)
            .map_err(|e| e.at(format!("copying {shape:?} from {from:?} to {to:?}")))?;
        cases += 1;
        Ok(())
    };
    let orders3: [[usize; 3]; 4] = [[0, 1, 2], [2, 1, 0], [1, 0, 2], [0, 2, 1]];
    for shape in [[1, 1, 1], [3, 5, 7], [2, 6, 1024], [2, 33, 64]] {
        for to in orders3 {
            for from in orders3 {
                for gap in [0, 3, 16] {
                    case(&shape, &permuted(&shape, &to, gap), &permuted(&shape, &from, 16 - gap))?;
                }
            }
        }
    }
    case(&[], &[], &[])?;
    case(&[0, 4], &[4, 1], &[4, 1])?;
    case(&[300], &[1], &[0])?;
    case(&[300], &[2], &[-1])?;
    case(&[20, 300], &[300, 1], &[0, 1])?;
    case(&[20, 300], &[300, 1], &[1, 0])?;
    case(&[20, 300], &[1, 20], &[-300, -1])?;
    case(&[6, 5, 4096], &[5 * 5000, 5000, 1], &[7 * 4100, 4100, 1])?;
    let shape = [2, 3, 2, 3, 2, 3, 2, 3];
    case(&shape, &row_major(&shape), &permuted(&shape, &[7, 6, 5, 4, 3, 2, 1, 0], 0))?;
    Ok(format!("{cases} cases"))
}

/// More elements than one wave of blocks, transposed.
fn large(b: &Bench) -> Result<String> {
    let shape = [2048, 1536];
    let values: Vec<f64> = (0..2048 * 1536).map(f64::from).collect();
    let source = Tensor::of(b, DType::I32, &shape, &[1, 2048], &values)?;
    let target = Tensor::poison(b, DType::I32, &shape, &[1536, 1])?;
    // SAFETY: both tensors are ours.
    unsafe { b.device.copy_strided(&target.view(), &source.view(), b.stream()) }?;
    target.compare(b, &values, |_| 0.0)?;
    Ok("3145728 elements".into())
}
