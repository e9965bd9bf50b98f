//! Convolution and pooling.

use super::diagnostic::{Result, fail};
use super::emit::Attr;
use super::importer::{Importer, Operand};
use super::node::Node;
use strata_dialects::TensorType;
use strata_runtime::sym::Expr;

/// Amounts in windows beyond this are taken for a damaged file.
const MAX_AMOUNT: i64 = 1 << 24;

/// How a window moves over the spatial dimensions.
struct Window {
    kernel: Vec<i64>,
    strides: Vec<i64>,
    dilations: Vec<i64>,
    /// Before and after each dimension.
    low: Vec<i64>,
    high: Vec<i64>,
    /// What `high` holds beyond the node's own padding, so that the last window is not cut off (`ceil_mode`).
    extra: Vec<i64>,
}

impl Window {
    fn read(node: &Node<'_>, kernel: Vec<i64>, x: &Operand) -> Result<Self> {
        let n = kernel.len();
        let list = |name: &str, default: i64, length: usize| -> Result<Vec<i64>> {
            let list = node.ints(name)?.map_or_else(|| vec![default; length], <[i64]>::to_vec);
            if list.len() != length || list.iter().any(|a| !(default..MAX_AMOUNT).contains(a)) {
                fail!("attribute '{name}' is {list:?}, for {n} spatial dimensions");
            }
            Ok(list)
        };
        if kernel.iter().any(|k| !(1..MAX_AMOUNT).contains(k)) {
            fail!("the window's sizes are {kernel:?}");
        }
        let (strides, dilations) = (list("strides", 1, n)?, list("dilations", 1, n)?);
        let pads = list("pads", 0, 2 * n)?;
        let (mut low, mut high) = (pads[..n].to_vec(), pads[n..].to_vec());
        let mode = node.string_or("auto_pad", "NOTSET")?;
        for d in 0..n {
            match mode {
                "NOTSET" => {}
                "VALID" => (low[d], high[d]) = (0, 0),
                "SAME_UPPER" | "SAME_LOWER" => {
                    let reach = dilations[d] * (kernel[d] - 1) + 1;
                    let total = match (x.shape()[d + 2].as_const(), strides[d]) {
                        (Some(size), s) if size < 1 << 40 => {
                            ((size + s - 1) / s - 1).max(0) * s + reach - size
                        }
                        (None, 1) => reach - 1,
                        _ => fail!("auto_pad '{mode}' of dimension {} of {} is not known", d + 2, x.ty),
                    };
                    let (total, lower) = (total.max(0), mode == "SAME_LOWER");
                    low[d] = if lower { (total + 1) / 2 } else { total / 2 };
                    high[d] = total - low[d];
                }
                other => fail!("auto_pad is '{other}'"),
            }
        }
        Ok(Self { kernel, strides, dilations, low, high, extra: vec![0; n] })
    }

    /// The number of positions along each spatial dimension.
    fn positions(&self, x: &Operand) -> Vec<Expr> {
        (0..self.kernel.len())
            .map(|d| {
                let reach = self.dilations[d] * (self.kernel[d] - 1) + 1;
                let span = x.shape()[d + 2].clone() + (self.low[d] + self.high[d] - reach).into();
                span.floor_div(&self.strides[d].into()) + 1.into()
            })
            .collect()
    }

    /// Lets a last, partly covered window count (`ceil_mode`), unless it would begin in the padding after the data.
    fn round_up(&mut self, x: &Operand) -> Result<()> {
        for d in 0..self.kernel.len() {
            let Some(size) = x.shape()[d + 2].as_const().filter(|s| *s < 1 << 40) else {
                fail!("ceil_mode over the symbolic dimension {} of {}", d + 2, x.ty);
            };
            let (stride, reach) = (self.strides[d], self.dilations[d] * (self.kernel[d] - 1) + 1);
            let span = size + self.low[d] + self.high[d] - reach;
            let mut last = (span + stride - 1).div_euclid(stride);
            if last * stride >= size + self.low[d] {
                last -= 1;
            }
            let needed = last * stride + reach - size - self.low[d];
            self.extra[d] = (needed - self.high[d]).max(0);
            self.high[d] += self.extra[d];
        }
        Ok(())
    }

    /// The lists of the op, with `leading` dimensions before the spatial ones that nothing moves over.
    fn attributes(&self, leading: usize) -> Vec<(&'static str, Attr)> {
        let full = |still: i64, list: &[i64]| Attr::Ints([&vec![still; leading][..], list].concat());
        vec![
            ("strides", full(1, &self.strides)),
            ("low", full(0, &self.low)),
            ("high", full(0, &self.high)),
            ("dilation", full(1, &self.dilations)),
        ]
    }

    fn reduce(&self, im: &mut Importer<'_>, kind: &'static str, x: &Operand) -> Result<Operand> {
        let shape = [&x.shape()[..2], &self.positions(x)].concat();
        let mut attributes = self.attributes(2);
        attributes.push(("window", Attr::Ints([&[1, 1], &self.kernel[..]].concat())));
        attributes.push(("kind", Attr::Keyword(kind)));
        im.op("reduce_window", &[x], &attributes, TensorType::new(x.ty.dtype, shape))
    }
}

fn spatial(x: &Operand) -> Result<usize> {
    match x.rank() {
        3..=5 => Ok(x.rank() - 2),
        _ => fail!("the operand {} does not have 1 to 3 spatial dimensions", x.ty),
    }
}

/// Conv.
pub fn conv(im: &mut Importer<'_>, node: &Node<'_>) -> Result<Vec<Operand>> {
    let (x, weight) = (im.input(node, 0)?, im.input(node, 1)?);
    let n = spatial(&x)?;
    if weight.rank() != x.rank() {
        fail!("the weight {} does not fit {}", weight.ty, x.ty);
    }
    im.same_dtype(&x, &weight)?;
    let w: Option<Vec<i64>> = weight.shape().iter().map(Expr::as_const).collect();
    let Some(w) = w else { fail!("the weight {} has a symbolic size", weight.ty) };
    let kernel = w[2..].to_vec();
    if node.ints("kernel_shape")?.is_some_and(|k| k != kernel) {
        fail!("kernel_shape differs from the sizes of the weight {}", weight.ty);
    }
    let groups = node.int_or("group", 1)?;
    let fits = (1..MAX_AMOUNT).contains(&groups) && w[0] % groups == 0;
    if !fits || x.shape()[1] != Expr::from(w[1]) * Expr::from(groups) {
        fail!("{} with the weight {} in {groups} groups", x.ty, weight.ty);
    }
    let window = Window::read(node, kernel, &x)?;
    let mut shape = vec![x.shape()[0].clone(), w[0].into()];
    shape.extend(window.positions(&x));
    let mut attributes = window.attributes(0);
    attributes.push(("groups", Attr::Int(groups)));
    debug_assert_eq!(shape.len(), n + 2);
    let mut out = im.op("convolution", &[&x, &weight], &attributes, TensorType::new(x.ty.dtype, shape))?;
    if let Some(bias) = im.optional_input(node, 2)? {
        if bias.rank() != 1 || bias.shape()[0].as_const() != Some(w[0]) {
            fail!("the bias {} does not fit {} channels", bias.ty, w[0]);
        }
        let bias = im.broadcast(&bias, &[1], out.ty.shape.clone())?;
        out = im.binary("add", &out, &bias)?;
    }
    Ok(vec![out])
}

fn pool_window(im: &Importer<'_>, node: &Node<'_>) -> Result<(Operand, Window)> {
    let x = im.input(node, 0)?;
    let n = spatial(&x)?;
    let kernel = match node.ints("kernel_shape")? {
        Some(kernel) if kernel.len() == n => kernel.to_vec(),
        _ => fail!("kernel_shape is missing or does not fit {}", x.ty),
    };
    let mut window = Window::read(node, kernel, &x)?;
    if (0..n).any(|d| window.low[d].max(window.high[d]) > window.dilations[d] * (window.kernel[d] - 1)) {
        fail!("the padding is wider than the window, so that a window would hold no element");
    }
    if node.flag("ceil_mode", false)? {
        window.round_up(&x)?;
    }
    Ok((x, window))
}

/// MaxPool.
pub fn max_pool(im: &mut Importer<'_>, node: &Node<'_>) -> Result<Vec<Operand>> {
    if node.flag("storage_order", false)? && node.has_output(1) {
        fail!("storage_order = 1 is not supported");
    }
    let (x, window) = pool_window(im, node)?;
    Ok(vec![window.reduce(im, "max", &x)?])
}

/// AveragePool: a window's sum by the number of elements in it, which differs at the borders unless padding counts.
pub fn average_pool(im: &mut Importer<'_>, node: &Node<'_>) -> Result<Vec<Operand>> {
    let (x, window) = pool_window(im, node)?;
    let sum = window.reduce(im, "sum", &x)?;
    let include = node.flag("count_include_pad", false)?;
    let none = |v: &[i64]| v.iter().all(|&p| p == 0);
    let full: f64 = window.kernel.iter().map(|&k| k as f64).product();
    if none(&window.extra) && (include || none(&window.low) && none(&window.high)) {
        return Ok(vec![im.binary_scalar("div", &sum, full)?]);
    }
    // The count is the same for every image and channel: the sum of ones in the same windows.
    let mut shape = x.shape().to_vec();
    (shape[0], shape[1]) = (1.into(), 1.into());
    let mut ones = im.splat(x.ty.dtype, shape, 1.0)?;
    let mut counted = Window { high: window.high.clone(), ..window };
    if include {
        let own: Vec<i64> = counted.high.iter().zip(&counted.extra).map(|(h, e)| h - e).collect();
        let one = im.scalar(x.ty.dtype, 1.0);
        let low = [&[0, 0], &counted.low[..]].concat();
        ones = im.pad(&ones, &one, low, [&[0, 0], &own[..]].concat())?;
        counted.low.fill(0);
        counted.high.clone_from(&counted.extra);
    }
    let count = counted.reduce(im, "sum", &ones)?;
    Ok(vec![im.spread_binary("div", &sum, &count)?])
}

/// GlobalAveragePool.
pub fn global_average_pool(im: &mut Importer<'_>, node: &Node<'_>) -> Result<Vec<Operand>> {
    let x = im.input(node, 0)?;
    spatial(&x)?;
    let axes: Vec<usize> = (2..x.rank()).collect();
    let mean = im.mean(&x, &axes)?;
    Ok(vec![im.keep_dims(&mean, &axes, x.shape())?])
}

/// GlobalMaxPool.
pub fn global_max_pool(im: &mut Importer<'_>, node: &Node<'_>) -> Result<Vec<Operand>> {
    let x = im.input(node, 0)?;
    spatial(&x)?;
    let axes: Vec<usize> = (2..x.rank()).collect();
    let largest = im.reduce("max", &x, &axes)?;
    Ok(vec![im.keep_dims(&largest, &axes, x.shape())?])
}
