//! Convolutions as cuDNN describes them: pure arithmetic, no GPU.

use crate::device::{ResolvedConvolution, TensorRef};
use crate::dtype::DType;
use crate::error::{Result, err};

/// A tensor as cuDNN takes it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tensor {
    /// `n, c, spatial…`.
    pub dims: Vec<i32>,
    /// In elements.
    pub strides: Vec<i32>,
}

/// The order of a packed tensor in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Format {
    /// Channels before the spatial dimensions.
    ChannelsFirst,
    /// Channels innermost.
    ChannelsLast,
}

/// Everything that decides which cuDNN kernel runs: the key of the cache. Holds no address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConvProblem {
    /// Element type of all three tensors.
    pub dtype: DType,
    /// Input.
    pub input: Tensor,
    /// Sizes of the weight.
    pub weight: Vec<i32>,
    /// How the weight lies in memory.
    pub format: Format,
    /// Result.
    pub out: Tensor,
    /// Zeros on both sides, per spatial dimension.
    pub padding: Vec<i32>,
    /// Step per spatial dimension.
    pub stride: Vec<i32>,
    /// Distance between weight elements, per spatial dimension.
    pub dilation: Vec<i32>,
    /// Groups.
    pub groups: i32,
}

fn unsupported(reason: String, next: &str) -> crate::Error {
    err!(Unsupported, "no library path for this convolution: {reason}").next(next)
}

/// Maps a convolution. Errors of kind `Unsupported` mean that the library cannot do it as it stands.
pub fn problem(c: &ResolvedConvolution<'_>) -> Result<ConvProblem> {
    let dtype = c.out.dtype;
    if [c.input.dtype, c.weight.dtype] != [dtype; 2] || !dtype.is_float() {
        return Err(unsupported(
            format!(
                "{} * {} -> {dtype}; the library does f64, f32, f16, bf16, all alike",
                c.input.dtype, c.weight.dtype
            ),
            "cast first, or use an own kernel",
        ));
    }
    check_shapes(c)?;
    let format = weight_format(c)?;
    let mut padding = Vec::new();
    for (d, &(before, after)) in c.padding.iter().enumerate() {
        if before != after || before < 0 {
            return Err(unsupported(
                format!("padding of {before} before and {after} after in spatial dimension {d}"),
                "pad the input in a kernel first, then convolve without padding",
            ));
        }
        padding.push(before);
    }
    // One spatial dimension becomes two, the first of size 1.
    let flat = c.input.shape.len() == 3;
    let per_dim = |list: &[i64], filler: i64| -> Result<Vec<i32>> {
        flat.then_some(filler).into_iter().chain(list.iter().copied()).map(narrow).collect()
    };
    Ok(ConvProblem {
        dtype,
        input: tensor(&c.input, "input", format)?,
        weight: with_height(c.weight.shape, 1).into_iter().map(narrow).collect::<Result<_>>()?,
        format,
        out: tensor(&c.out, "result", format)?,
        padding: per_dim(&padding, 0)?,
        stride: per_dim(c.stride, 1)?,
        dilation: per_dim(c.dilation, 1)?,
        groups: narrow(c.groups)?,
    })
}

fn check_shapes(c: &ResolvedConvolution<'_>) -> Result<()> {
    let (x, w, y) = (c.input.shape, c.weight.shape, c.out.shape);
    let spatial = x.len().wrapping_sub(2);
    if !(1..=3).contains(&spatial) {
        return Err(unsupported(
            format!("{} dimensions; the library does 3 to 5", x.len()),
            "use an own kernel",
        ));
    }
    let broken = |reason: String| {
        Err(err!(Device, "a convolution that does not fit together: {reason}")
            .next("report this plan as a bug"))
    };
    if [w.len(), y.len()] != [x.len(); 2]
        || [c.stride.len(), c.padding.len(), c.dilation.len()] != [spatial; 3]
        || [&c.input, &c.weight, &c.out].iter().any(|t| t.strides.len() != t.shape.len())
    {
        return broken(format!("input {x:?}, weight {w:?}, result {y:?} differ in rank"));
    }
    if c.groups < 1 || x[1] != w[1] * c.groups || w[0] % c.groups != 0 || y[0] != x[0] || y[1] != w[0] {
        return broken(format!("input {x:?}, weight {w:?}, result {y:?} in {} groups", c.groups));
    }
    for d in 0..spatial {
        let (before, after) = c.padding[d];
        if c.stride[d] < 1 || c.dilation[d] < 1 {
            return broken(format!(
                "stride {} and dilation {} in spatial dimension {d}",
                c.stride[d], c.dilation[d]
            ));
        }
        let reach = (w[d + 2] - 1) * c.dilation[d] + 1;
        let want = (x[d + 2] + before + after - reach) / c.stride[d] + 1;
        if y[d + 2] != want {
            return broken(format!("the result has {} in spatial dimension {d}, not {want}", y[d + 2]));
        }
    }
    Ok(())
}

/// How the weight lies in memory. Where both orders fit, the input's decides.
fn weight_format(c: &ResolvedConvolution<'_>) -> Result<Format> {
    let fits = |t: &TensorRef<'_>, f| is_packed(t.shape, t.strides, f);
    let first = fits(&c.weight, Format::ChannelsFirst);
    let last = fits(&c.weight, Format::ChannelsLast);
    match (first, last) {
        (true, false) => Ok(Format::ChannelsFirst),
        (false, true) => Ok(Format::ChannelsLast),
        (true, true) if fits(&c.input, Format::ChannelsFirst) => Ok(Format::ChannelsFirst),
        (true, true) if fits(&c.input, Format::ChannelsLast) => Ok(Format::ChannelsLast),
        (true, true) => Ok(Format::ChannelsFirst),
        (false, false) => Err(unsupported(
            format!("a weight {:?} with strides {:?}", c.weight.shape, c.weight.strides),
            "copy the weight to a contiguous buffer first",
        )),
    }
}

/// Strides of a packed tensor.
fn packed(shape: &[i64], format: Format) -> Vec<i64> {
    let mut strides = vec![0; shape.len()];
    let mut run = 1;
    let spatial = (2..shape.len()).rev();
    let order: Vec<usize> = match format {
        Format::ChannelsFirst => spatial.chain([1, 0]).collect(),
        Format::ChannelsLast => std::iter::once(1).chain(spatial).chain([0]).collect(),
    };
    for d in order {
        strides[d] = run;
        run *= shape[d].max(1);
    }
    strides
}

fn is_packed(shape: &[i64], strides: &[i64], format: Format) -> bool {
    let want = packed(shape, format);
    (0..shape.len()).all(|d| shape[d] == 1 || strides[d] == want[d])
}

/// `n, c, w` to `n, c, filler, w`; others as they are.
fn with_height(list: &[i64], filler: i64) -> Vec<i64> {
    match list {
        &[n, c, w] => vec![n, c, filler, w],
        other => other.to_vec(),
    }
}

fn tensor(t: &TensorRef<'_>, name: &str, preferred: Format) -> Result<Tensor> {
    let other = match preferred {
        Format::ChannelsFirst => Format::ChannelsLast,
        Format::ChannelsLast => Format::ChannelsFirst,
    };
    let dims = with_height(t.shape, 1);
    // The stride of a dimension of size 1 may be anything, but cuDNN recognises an order by all of them: restore it.
    let strides = match [preferred, other].into_iter().find(|&f| is_packed(t.shape, t.strides, f)) {
        Some(format) => packed(&dims, format),
        None => with_height(t.strides, t.strides.last().zip(t.shape.last()).map_or(1, |(s, n)| s * n)),
    };
    if let Some(d) = (0..dims.len()).find(|&d| dims[d] > 1 && strides[d] < 1) {
        return Err(unsupported(
            format!(
                "the {name} repeats or runs backwards: shape {:?}, strides {:?} (dimension {d})",
                t.shape, t.strides
            ),
            "copy it to a contiguous buffer first",
        ));
    }
    let strides: Vec<i64> = strides.iter().map(|s| (*s).max(1)).collect();
    Ok(Tensor {
        dims: dims.into_iter().map(narrow).collect::<Result<_>>()?,
        strides: strides.into_iter().map(narrow).collect::<Result<_>>()?,
    })
}

fn narrow(n: i64) -> Result<i32> {
    i32::try_from(n).map_err(|_| {
        unsupported(
            format!("a size or stride of {n}; the library counts in 32 bits"),
            "split the batch, or use an own kernel",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::DevicePtr;

    fn t<'a>(shape: &'a [i64], strides: &'a [i64]) -> TensorRef<'a> {
        TensorRef { ptr: DevicePtr(256), dtype: DType::F32, shape, strides }
    }

    #[test]
    fn channels_first_and_last() {
        let x = t(&[2, 3, 8, 8], &[192, 64, 8, 1]);
        let w = t(&[4, 3, 3, 3], &[27, 9, 3, 1]);
        let y = t(&[2, 4, 8, 8], &[256, 64, 8, 1]);
        let base = ResolvedConvolution {
            input: x,
            weight: w,
            out: y,
            stride: &[1, 1],
            padding: &[(1, 1), (1, 1)],
            dilation: &[1, 1],
            groups: 1,
        };
        let p = problem(&base).unwrap();
        assert_eq!(
            (p.format, &p.input.strides[..], &p.padding[..]),
            (Format::ChannelsFirst, &[192, 64, 8, 1][..], &[1, 1][..])
        );
        let last = ResolvedConvolution {
            input: t(&[2, 3, 8, 8], &[192, 1, 24, 3]),
            weight: t(&[4, 3, 3, 3], &[27, 1, 9, 3]),
            out: t(&[2, 4, 8, 8], &[256, 1, 32, 4]),
            ..base.clone()
        };
        let p = problem(&last).unwrap();
        assert_eq!((p.format, &p.out.strides[..]), (Format::ChannelsLast, &[256, 1, 32, 4][..]));

        let e = problem(&ResolvedConvolution { padding: &[(1, 1), (0, 2)], ..base.clone() }).unwrap_err();
        insta::assert_snapshot!(e.to_string(), @r"
        no library path for this convolution: padding of 0 before and 2 after in spatial dimension 1
          next: pad the input in a kernel first, then convolve without padding
        ");
        let e = problem(&ResolvedConvolution { weight: t(&[4, 3, 3, 3], &[1, 4, 12, 36]), ..base.clone() });
        assert_eq!(e.unwrap_err().kind(), crate::ErrorKind::Unsupported);
        let e = problem(&ResolvedConvolution { input: t(&[2, 3, 8, 8], &[0, 64, 8, 1]), ..base.clone() });
        assert_eq!(e.unwrap_err().kind(), crate::ErrorKind::Unsupported);
        let e = problem(&ResolvedConvolution { stride: &[2, 1], ..base.clone() });
        assert_eq!(e.unwrap_err().kind(), crate::ErrorKind::Device);
        let e = problem(&ResolvedConvolution { groups: 2, ..base });
        assert_eq!(e.unwrap_err().kind(), crate::ErrorKind::Device);
    }

    #[test]
    fn one_dimension_becomes_two() {
        let p = problem(&ResolvedConvolution {
            input: t(&[1, 4, 10], &[999, 10, 1]),
            weight: t(&[6, 2, 3], &[6, 3, 1]),
            out: t(&[1, 6, 4], &[24, 4, 1]),
            stride: &[2],
            padding: &[(0, 0)],
            dilation: &[1],
            groups: 2,
        })
        .unwrap();
        assert_eq!(p.input, Tensor { dims: vec![1, 4, 1, 10], strides: vec![40, 10, 10, 1] });
        assert_eq!(p.weight, [6, 2, 1, 3]);
        assert_eq!((p.stride, p.padding, p.dilation), (vec![1, 2], vec![0, 0], vec![1, 1]));
    }

    #[test]
    fn pointwise_weight_follows_the_input() {
        let of = |x: TensorRef<'static>| {
            problem(&ResolvedConvolution {
                input: x,
                weight: t(&[4, 3, 1, 1], &[3, 1, 1, 1]),
                out: t(&[1, 4, 5, 5], &[100, 1, 20, 4]),
                stride: &[1, 1],
                padding: &[(0, 0), (0, 0)],
                dilation: &[1, 1],
                groups: 1,
            })
            .unwrap()
        };
        assert_eq!(of(t(&[1, 3, 5, 5], &[75, 1, 15, 3])).format, Format::ChannelsLast);
        assert_eq!(of(t(&[1, 3, 5, 5], &[75, 25, 5, 1])).format, Format::ChannelsFirst);
        // A gap between rows: neither order, the strides go through as they are.
        let gapped = of(t(&[1, 3, 5, 5], &[90, 30, 6, 1]));
        assert_eq!(gapped.input.strides, [90, 30, 6, 1]);
    }
}
