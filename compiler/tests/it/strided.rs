//! Arguments whose elements lie apart: random layouts, and tensors in them.

use crate::interp_cases::Gen;
use melior::Context;
use melior::ir::attribute::{ArrayAttribute, DictionaryAttribute};
use melior::ir::operation::{OperationMutLike, OperationRefMut};
use melior::ir::{Identifier, Module};
use std::sync::Arc;
use strata_dialects::TensorType;
use strata_dialects::affine::{dims_attribute, to_affine};
use strata_dialects::reference::RefTensor;
use strata_runtime::device::{Device, DevicePtr, TensorRef};
use strata_runtime::exec::DeviceTensor;
use strata_runtime::sym::Expr;

/// Strides for a type: the dimensions in any order in memory, with gaps; `None` where they would not be affine.
pub fn random_strides(context: &Context, ty: &TensorType, g: &mut Gen) -> Option<Vec<Expr>> {
    let rank = ty.rank();
    let mut order: Vec<usize> = (0..rank).collect();
    (1..rank).rev().for_each(|i| order.swap(i, g.below(i + 1)));
    let mut strides = vec![Expr::from(0); rank];
    let mut step = Expr::from(1 + g.below(2));
    for d in order {
        strides[d] = step.clone();
        step = step * ty.shape[d].clone() + Expr::from(g.below(3));
        to_affine(context, &step)?;
    }
    Some(strides)
}

/// Writes the strides of the arguments to the function's attributes.
pub fn set_strides(context: &Context, module: &Module<'_>, strides: &[Option<Vec<Expr>>]) {
    let function = strata_compiler::ir::functions(module)[0];
    let of = |s: &Option<Vec<Expr>>| {
        let pairs: Vec<_> = s
            .iter()
            .map(|s| (Identifier::new(context, "graph.strides"), dims_attribute(context, s).expect("affine")))
            .collect();
        DictionaryAttribute::new(context, &pairs).into()
    };
    let list: Vec<_> = strides.iter().map(of).collect();
    // SAFETY: no other handle changes the op meanwhile.
    let mut function = unsafe { OperationRefMut::from_raw(function.to_raw()) };
    function.set_attribute("arg_attrs", ArrayAttribute::new(context, &list).into());
}

/// A tensor of the host device in a layout of its own.
pub struct Strided {
    shape: Vec<i64>,
    strides: Vec<i64>,
    bytes: Vec<u64>,
}

impl Strided {
    /// Spreads the elements of `t`; what lies between them is not a number.
    pub fn new(t: &RefTensor, strides: &[i64]) -> Self {
        let shape: Vec<i64> = t.shape.iter().map(|&n| n as i64).collect();
        let size = t.dtype.size();
        let last: i64 = shape.iter().zip(strides).map(|(n, s)| (n - 1).max(0) * s).sum();
        let mut bytes = vec![u64::MAX; (last as usize + 1) * size / 8 + 1];
        let dense = t.to_bytes();
        // SAFETY: plain bytes.
        let place =
            unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast::<u8>(), bytes.len() * 8) };
        for (i, element) in dense.chunks(size).enumerate() {
            let at = strata_dialects::reference::unflatten(i, &t.shape);
            let offset: i64 = at.iter().zip(strides).map(|(&i, s)| i as i64 * s).sum();
            place[offset as usize * size..][..size].copy_from_slice(element);
        }
        Self { shape, strides: strides.to_vec(), bytes }
    }

    /// A row-major tensor.
    pub fn contiguous(t: &RefTensor) -> Self {
        let mut strides = vec![1; t.shape.len()];
        for d in (1..t.shape.len()).rev() {
            strides[d - 1] = strides[d] * t.shape[d] as i64;
        }
        Self::new(t, &strides)
    }

    /// A view of it for a call.
    pub fn tensor(&self, device: &Arc<dyn Device>, t: &RefTensor) -> DeviceTensor {
        let ptr = DevicePtr(self.bytes.as_ptr() as u64);
        let view = TensorRef { ptr, dtype: t.dtype, shape: &self.shape, strides: &self.strides };
        // SAFETY: the host device reads host memory, and `self` is kept by the caller.
        unsafe { DeviceTensor::borrowed(device, &view) }
    }
}
