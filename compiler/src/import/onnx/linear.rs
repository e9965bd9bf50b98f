//! Matrix products.

use super::diagnostic::{Result, fail};
use super::emit::Attr;
use super::facts;
use super::importer::{Importer, Operand};
use super::node::Node;
use strata_dialects::TensorType;

impl Importer<'_> {
    /// A product of tensors: batch dimensions first, then the free ones of the left, then of the right.
    fn dot_general(
        &mut self,
        a: &Operand,
        b: &Operand,
        (a_batch, b_batch): (&[i64], &[i64]),
        (a_contracting, b_contracting): (i64, i64),
    ) -> Result<Operand> {
        self.same_dtype(a, b)?;
        let (k, l) = (&a.shape()[a_contracting as usize], &b.shape()[b_contracting as usize]);
        if k != l && facts::eq(k, l, &self.symbols) != Some(true) {
            fail!("the contracted sizes of {} and {} differ: {k} and {l}", a.ty, b.ty);
        }
        let free = |x: &Operand, batch: &[i64], contracting: i64| -> Vec<_> {
            (0..x.rank() as i64)
                .filter(|d| !batch.contains(d) && *d != contracting)
                .map(|d| x.shape()[d as usize].clone())
                .collect()
        };
        let mut shape: Vec<_> = a_batch.iter().map(|&d| a.shape()[d as usize].clone()).collect();
        shape.extend(free(a, a_batch, a_contracting));
        shape.extend(free(b, b_batch, b_contracting));
        let attributes = [
            ("lhs_batch", Attr::Ints(a_batch.to_vec())),
            ("rhs_batch", Attr::Ints(b_batch.to_vec())),
            ("lhs_contracting", Attr::Ints(vec![a_contracting])),
            ("rhs_contracting", Attr::Ints(vec![b_contracting])),
        ];
        self.op("dot_general", &[a, b], &attributes, TensorType::new(a.ty.dtype, shape))
    }
}

/// MatMul with numpy's meaning: vectors are promoted, leading dimensions broadcast.
pub fn matmul(im: &mut Importer<'_>, node: &Node<'_>) -> Result<Vec<Operand>> {
    let (a, b) = (im.input(node, 0)?, im.input(node, 1)?);
    if a.rank() == 0 || b.rank() == 0 {
        fail!("a scalar has no matrix product ({} and {})", a.ty, b.ty);
    }
    let (m, n) = (a.rank() - 1, b.rank().saturating_sub(2));
    if b.rank() <= 2 {
        // One right side for all rows: no batch dimension is needed, whatever the left's rank.
        return Ok(vec![im.dot_general(&a, &b, (&[], &[]), (m as i64, 0))?]);
    }
    if a.rank() == 1 {
        let out = im.dot_general(&b, &a, (&[], &[]), (n as i64, 0))?;
        return Ok(vec![out]);
    }
    let batch = im.broadcast_shape(&[&a.shape()[..a.rank() - 2], &b.shape()[..n]])?;
    let spread = |im: &mut Importer<'_>, x: &Operand| {
        let shape = [&batch[..], &x.shape()[x.rank() - 2..]].concat();
        im.broadcast_to(x, &shape)
    };
    let (a, b) = (spread(im, &a)?, spread(im, &b)?);
    let r = batch.len() as i64;
    let dims: Vec<i64> = (0..r).collect();
    Ok(vec![im.dot_general(&a, &b, (&dims, &dims), (r + 1, r))?])
}

/// Gemm: `alpha * a * b + beta * c`, either transposed.
pub fn gemm(im: &mut Importer<'_>, node: &Node<'_>) -> Result<Vec<Operand>> {
    let (a, b) = (im.input(node, 0)?, im.input(node, 1)?);
    if a.rank() != 2 || b.rank() != 2 {
        fail!("the operands are {} and {}, not matrices", a.ty, b.ty);
    }
    let contracting = (i64::from(!node.flag("transA", false)?), i64::from(node.flag("transB", false)?));
    let mut out = im.dot_general(&a, &b, (&[], &[]), contracting)?;
    let (alpha, beta) = (node.float_or("alpha", 1.0)?, node.float_or("beta", 1.0)?);
    if alpha != 1.0 {
        out = im.binary_scalar("mul", &out, alpha)?;
    }
    if let Some(c) = im.optional_input(node, 2)?.filter(|_| beta != 0.0) {
        let mut c = im.broadcast_to(&c, &out.ty.shape)?;
        if beta != 1.0 {
            c = im.binary_scalar("mul", &c, beta)?;
        }
        out = im.binary("add", &out, &c)?;
    }
    Ok(vec![out])
}
