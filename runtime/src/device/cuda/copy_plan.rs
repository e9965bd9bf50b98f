//! How to copy between two strided layouts: pure arithmetic, no GPU.

use crate::device::TensorRef;
use crate::error::{Result, bail, err};

/// Dimensions that the copy kernel takes.
pub const MAX_RANK: usize = 8;

/// Rows shorter than this go through the kernel: the driver's pitched copies are slow on them.
const SHORTEST_ROW_BYTES: u64 = 512;

/// One dimension of a copy. Strides in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dim {
    /// Elements.
    pub size: u64,
    /// Bytes between elements of the destination.
    pub to: i64,
    /// Bytes between elements of the source.
    pub from: i64,
}

/// A way to copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyPlan {
    /// There are no elements.
    Nothing,
    /// Both are one run of bytes.
    Flat {
        /// Its length.
        bytes: u64,
    },
    /// Rows of bytes at a pitch, in slices.
    Rows {
        /// Bytes a row.
        width: u64,
        /// Rows a slice.
        height: u64,
        /// Slices.
        depth: u64,
        /// Bytes between rows, and rows between slices, of the destination.
        to: (u64, u64),
        /// The same of the source.
        from: (u64, u64),
    },
    /// The copy kernel.
    Kernel {
        /// Bytes an element: 1, 2, 4, 8 or 16.
        element: u64,
        /// Innermost first.
        dims: Vec<Dim>,
    },
}

/// Plans a copy of all elements. `max_pitch` is the GPU's limit for pitched copies.
pub fn plan(to: &TensorRef<'_>, from: &TensorRef<'_>, max_pitch: u64) -> Result<CopyPlan> {
    if to.shape != from.shape || to.dtype != from.dtype {
        bail!(
            Device,
            "cannot copy {:?} of {} to {:?} of {}: shapes and types must agree",
            from.shape,
            from.dtype,
            to.shape,
            to.dtype
        );
    }
    let element = to.dtype.size() as u64;
    let Some(dims) = dimensions(to, from, element as i64)? else { return Ok(CopyPlan::Nothing) };
    let dense = |d: &Dim, size: u64| d.to == size as i64 && d.from == size as i64;
    // The innermost run of bytes, if both sides have one.
    let (run, outer) = match dims.split_first() {
        None => (element, &[][..]),
        Some((first, rest)) if dense(first, element) => (first.size * element, rest),
        Some(_) => (0, &dims[..]),
    };
    if run > 0 && outer.is_empty() {
        return Ok(CopyPlan::Flat { bytes: run });
    }
    if run >= SHORTEST_ROW_BYTES
        && let Some(rows) = rows(run, outer, max_pitch)
    {
        return Ok(rows);
    }
    let (element, dims) = widen(element, dims, to.ptr.0 | from.ptr.0);
    if dims.len() > MAX_RANK {
        return Err(err!(Unsupported, "a copy of {} interleaved dimensions; at most {MAX_RANK}", dims.len())
            .next("split the copy, or use an own kernel"));
    }
    Ok(CopyPlan::Kernel { element, dims })
}

/// The dimensions that matter, innermost of the destination first, merged where both sides run on. `None`: no elements.
fn dimensions(to: &TensorRef<'_>, from: &TensorRef<'_>, element: i64) -> Result<Option<Vec<Dim>>> {
    let rank = to.shape.len();
    if to.strides.len() != rank || from.strides.len() != rank {
        bail!(Device, "a tensor of rank {rank} needs as many strides");
    }
    if to.shape.contains(&0) {
        return Ok(None);
    }
    let mut dims = Vec::with_capacity(rank);
    for d in (0..rank).rev().filter(|&d| to.shape[d] != 1) {
        if to.shape[d] < 0 {
            bail!(Device, "a size of {} in dimension {d}", to.shape[d]);
        }
        if to.strides[d] == 0 {
            bail!(Device, "the destination's dimension {d} has stride 0: its elements would overlap");
        }
        dims.push(Dim {
            size: to.shape[d] as u64,
            to: to.strides[d] * element,
            from: from.strides[d] * element,
        });
    }
    // Neighbouring threads should write neighbouring elements.
    dims.sort_by_key(|d| d.to.unsigned_abs());
    let mut merged: Vec<Dim> = Vec::with_capacity(dims.len());
    for d in dims {
        match merged.last_mut() {
            Some(last) if d.to == last.to * last.size as i64 && d.from == last.from * last.size as i64 => {
                last.size *= d.size;
            }
            _ => merged.push(d),
        }
    }
    Ok(Some(merged))
}

fn rows(width: u64, outer: &[Dim], max_pitch: u64) -> Option<CopyPlan> {
    let pitch = |stride: i64| u64::try_from(stride).ok().filter(|p| *p >= width && *p <= max_pitch);
    let (&row, slices) = outer.split_first()?;
    let (to, from) = (pitch(row.to)?, pitch(row.from)?);
    let (depth, to_rows, from_rows) = match slices {
        [] => (1, row.size, row.size),
        [slice] => {
            let rows = |stride: i64, pitch: u64| {
                let stride = u64::try_from(stride).ok()?;
                (stride.is_multiple_of(pitch) && stride / pitch >= row.size).then_some(stride / pitch)
            };
            (slice.size, rows(slice.to, to)?, rows(slice.from, from)?)
        }
        _ => return None,
    };
    Some(CopyPlan::Rows { width, height: row.size, depth, to: (to, to_rows), from: (from, from_rows) })
}

/// Moves several elements as one where runs, strides and addresses allow it.
fn widen(element: u64, mut dims: Vec<Dim>, addresses: u64) -> (u64, Vec<Dim>) {
    let Some((first, rest)) = dims.split_first() else { return (element, dims) };
    if first.to != element as i64 || first.from != element as i64 {
        return (element, dims);
    }
    let fits = |wide: u64| {
        (first.size * element).is_multiple_of(wide)
            && addresses.is_multiple_of(wide)
            && rest.iter().all(|d| d.to % wide as i64 == 0 && d.from % wide as i64 == 0)
    };
    let Some(wide) = [16, 8, 4, 2].into_iter().find(|&w| w > element && fits(w)) else {
        return (element, dims);
    };
    dims[0] = Dim { size: dims[0].size * element / wide, to: wide as i64, from: wide as i64 };
    if dims[0].size == 1 {
        dims.remove(0);
    }
    (wide, dims)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::DevicePtr;
    use crate::dtype::DType;
    use proptest::prelude::*;

    const PITCH: u64 = i32::MAX as u64;

    fn tensor<'a>(dtype: DType, shape: &'a [i64], strides: &'a [i64]) -> TensorRef<'a> {
        TensorRef { ptr: DevicePtr(4096), dtype, shape, strides }
    }

    fn of(dtype: DType, shape: &[i64], to: &[i64], from: &[i64]) -> CopyPlan {
        plan(&tensor(dtype, shape, to), &tensor(dtype, shape, from), PITCH).unwrap()
    }

    #[test]
    fn shapes_of_copies() {
        use DType::{BF16, F32};
        assert_eq!(of(F32, &[0, 4], &[4, 1], &[4, 1]), CopyPlan::Nothing);
        assert_eq!(of(F32, &[], &[], &[]), CopyPlan::Flat { bytes: 4 });
        assert_eq!(of(F32, &[3, 4], &[4, 1], &[4, 1]), CopyPlan::Flat { bytes: 48 });
        // The same permutation on both sides is still one run.
        assert_eq!(of(F32, &[3, 4], &[1, 3], &[1, 3]), CopyPlan::Flat { bytes: 48 });
        assert_eq!(
            of(F32, &[3, 256], &[300, 1], &[256, 1]),
            CopyPlan::Rows { width: 1024, height: 3, depth: 1, to: (1200, 3), from: (1024, 3) }
        );
        assert_eq!(
            of(F32, &[2, 3, 256], &[3000, 300, 1], &[1280, 256, 1]),
            CopyPlan::Rows { width: 1024, height: 3, depth: 2, to: (1200, 10), from: (1024, 5) }
        );
        // A broadcast row cannot be pitched, but moves sixteen bytes at a time.
        let dims = vec![Dim { size: 64, to: 16, from: 16 }, Dim { size: 3, to: 1024, from: 0 }];
        assert_eq!(of(F32, &[3, 256], &[256, 1], &[0, 1]), CopyPlan::Kernel { element: 16, dims });
        let dims = vec![Dim { size: 4, to: 2, from: 6 }, Dim { size: 3, to: 8, from: 2 }];
        assert_eq!(of(BF16, &[3, 4], &[4, 1], &[1, 3]), CopyPlan::Kernel { element: 2, dims });
    }

    #[test]
    fn impossible_copies() {
        let a = tensor(DType::F32, &[2, 3], &[3, 1]);
        assert!(plan(&tensor(DType::F32, &[3, 2], &[2, 1]), &a, PITCH).is_err());
        assert!(plan(&tensor(DType::I32, &[2, 3], &[3, 1]), &a, PITCH).is_err());
        assert!(plan(&tensor(DType::F32, &[2, 3], &[0, 1]), &a, PITCH).is_err());
        assert!(plan(&tensor(DType::F32, &[2, 3], &[1]), &a, PITCH).is_err());
    }

    /// Carries a plan out on host memory, element addresses relative to the tensors' own.
    fn execute(plan: &CopyPlan, to: &mut [u8], to_zero: i64, from: &[u8], from_zero: i64) {
        let mut move_bytes = |t: i64, f: i64, n: u64| {
            let (t, f, n) = ((to_zero + t) as usize, (from_zero + f) as usize, n as usize);
            to[t..t + n].copy_from_slice(&from[f..f + n]);
        };
        match plan {
            CopyPlan::Nothing => {}
            CopyPlan::Flat { bytes } => move_bytes(0, 0, *bytes),
            CopyPlan::Rows { width, height, depth, to, from } => {
                for z in 0..*depth {
                    for y in 0..*height {
                        let at = |(pitch, rows): (u64, u64)| ((z * rows + y) * pitch) as i64;
                        move_bytes(at(*to), at(*from), *width);
                    }
                }
            }
            CopyPlan::Kernel { element, dims } => {
                let total: u64 = dims.iter().map(|d| d.size).product();
                for mut i in 0..total {
                    let (mut t, mut f) = (0, 0);
                    for d in dims {
                        t += (i % d.size) as i64 * d.to;
                        f += (i % d.size) as i64 * d.from;
                        i /= d.size;
                    }
                    move_bytes(t, f, *element);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn copies_every_element(
            shape in prop::collection::vec(0i64..6, 0..5),
            long in prop::bool::ANY,
            order in any::<u64>(),
            gaps in prop::collection::vec(0i64..3, 5),
            kinds in prop::collection::vec(0u8..4, 5),
            bf16 in prop::bool::ANY,
        ) {
            let dtype = if bf16 { DType::BF16 } else { DType::F64 };
            let mut shape = shape;
            if long && let Some(last) = shape.last_mut() { *last *= 128; }
            let rank = shape.len();
            // A destination without overlap: dimensions in some order, with gaps.
            let mut positions: Vec<usize> = (0..rank).collect();
            positions.sort_by_key(|&d| (order >> (d * 4)) & 15);
            let mut to = vec![0; rank];
            let mut extent = 1;
            for &d in &positions {
                to[d] = extent + gaps[d] * i64::from(d != rank - 1);
                extent = to[d] * shape[d].max(1);
            }
            // A source with any strides, also zero and negative.
            let mut from = vec![0; rank];
            let (mut run, mut low, mut high) = (1, 0, 0);
            for d in (0..rank).rev() {
                from[d] = match kinds[d] { 0 => 0, 1 => -run, _ => run };
                run *= shape[d].max(1);
                let reach = from[d] * (shape[d] - 1).max(0);
                low += reach.min(0);
                high += reach.max(0);
            }
            let size = dtype.size() as i64;
            let to_bytes = ((extent + 1) * size) as usize;
            let source: Vec<u8> = (0..(high - low + 1) * size).map(|i| (i * 31 % 251) as u8).collect();
            let (t, f) = (tensor(dtype, &shape, &to), tensor(dtype, &shape, &from));
            let plan = plan(&t, &f, PITCH).unwrap();
            let mut got = vec![0xEE; to_bytes];
            execute(&plan, &mut got, 0, &source, -low * size);
            let mut want = vec![0xEE; to_bytes];
            let total: i64 = shape.iter().product();
            for mut i in 0..total {
                let (mut a, mut b) = (0, -low);
                for d in (0..rank).rev() {
                    a += i % shape[d] * to[d];
                    b += i % shape[d] * from[d];
                    i /= shape[d];
                }
                let (a, b, n) = ((a * size) as usize, (b * size) as usize, size as usize);
                want[a..a + n].copy_from_slice(&source[b..b + n]);
            }
            prop_assert_eq!(got, want);
        }
    }
}
