//! Decoding of `memref` and `loop` ops.

use super::super::body::Check;
use super::super::decode::element_of;
use super::super::scalar::ScalarOp;
use super::code::{Access, Lanes, Number, Place, Rearrange, What};
use super::decode::{Decoder, Step, attribute, integers, operand, result, sizes_of, vector_elements};
use crate::ir::name;
use crate::kernel::atomic::KINDS;
use melior::ir::attribute::{ArrayAttribute, IntegerAttribute};
use melior::ir::operation::{OperationLike, OperationRef};
use melior::ir::{Value, ValueLike};

/// The combiner of a kind of `memref.atomic_rmw`.
fn combiner(kind: &str) -> &str {
    match kind {
        "addf" | "addi" => "add",
        "mulf" | "muli" => "mul",
        "andi" => "and",
        "ori" => "or",
        "xori" => "xor",
        "maxs" => "maxsi",
        "mins" => "minsi",
        "maxu" => "maxui",
        "minu" => "minui",
        other => other,
    }
}

impl Decoder {
    /// An access to `memref` at the indices from operand `first` to `last`.
    ///
    /// A memref of vectors has the lanes as one more dimension here.
    pub fn access(
        &mut self,
        op: &OperationRef<'_, '_>,
        memref: Value<'_, '_>,
        first: usize,
        last: usize,
    ) -> Step<Access> {
        let mut at = (first..last).map(|i| self.register(operand(op, i)?)).collect::<Step<Vec<_>>>()?;
        let rank = sizes_of(memref.r#type()).len();
        if at.len() != rank {
            return Err(format!("{} indices into a memref of rank {rank}", at.len()));
        }
        if vector_elements(memref.r#type()).is_some() {
            at.push(self.number_register(0));
        }
        let aligned = match op.attribute("alignment").ok().and_then(|a| IntegerAttribute::try_from(a).ok()) {
            Some(bytes) => {
                Some(bytes.value() / element_of(memref.r#type())?.size() as i64).filter(|&n| n > 1)
            }
            None => None,
        };
        let lanes = Lanes { dim: at.len().saturating_sub(1), aligned, ..Lanes::default() };
        Ok(Access { memref: self.memref(memref)?, lanes, at })
    }

    pub(super) fn memory_op(&mut self, op: &OperationRef<'_, '_>) -> Step<Option<What>> {
        let n = op.operand_count();
        Ok(Some(match name(op) {
            "memref.load" => {
                let access = self.access(op, operand(op, 0)?, 1, n)?;
                What::Load { access, to: self.define(result(op)?)? }
            }
            "memref.store" => {
                let from = self.place(operand(op, 0)?)?;
                What::Store { access: self.access(op, operand(op, 1)?, 2, n)?, from }
            }
            "memref.alloca" | "memref.alloc" => self.alloca(op)?,
            "memref.dealloc" | "memref.prefetch" | "memref.assume_alignment" if op.result_count() == 0 => {
                return Ok(None);
            }
            "memref.cast" | "memref.memory_space_cast" | "memref.assume_alignment" => {
                self.view(op, Rearrange::Same)?
            }
            "memref.reinterpret_cast" => {
                let next = &mut 1;
                let offset = self.mixed(op, "static_offsets", next)?;
                let sizes = self.mixed(op, "static_sizes", next)?;
                let strides = self.mixed(op, "static_strides", next)?;
                let offset = *offset.first().ok_or("a reinterpret_cast without an offset")?;
                self.view(op, Rearrange::Reinterpret { offset, sizes, strides })?
            }
            "memref.subview" => {
                let next = &mut 1;
                let offsets = self.mixed(op, "static_offsets", next)?;
                let sizes = self.mixed(op, "static_sizes", next)?;
                let strides = self.mixed(op, "static_strides", next)?;
                let kept = kept_dims(&sizes, &sizes_of(result(op)?.r#type()))?;
                self.view(op, Rearrange::Part { offsets, sizes, strides, kept })?
            }
            "memref.collapse_shape" => self.view(op, Rearrange::Collapse(reassociation(op)?))?,
            "memref.expand_shape" => {
                let sizes = self.mixed(op, "static_output_shape", &mut 1)?;
                self.view(op, Rearrange::Expand(reassociation(op)?, sizes))?
            }
            "memref.dim" => {
                let (memref, dim) = (self.memref(operand(op, 0)?)?, self.register(operand(op, 1)?)?);
                What::Dim { memref, dim, to: self.define(result(op)?)?.at }
            }
            "memref.copy" => {
                What::Copy { from: self.memref(operand(op, 0)?)?, to: self.memref(operand(op, 1)?)? }
            }
            "memref.atomic_rmw" => self.atomic(op)?,
            "loop.all_reduce" => {
                let buffer = operand(op, 0)?;
                let kinds = ["add", "mul", "max", "min", "and", "or"];
                let number =
                    IntegerAttribute::try_from(attribute(op, "kind")?).map_err(|e| e.to_string())?.value();
                let kind =
                    kinds.get(number as usize).ok_or_else(|| format!("a combination of kind {number}"))?;
                let dtype = element_of(buffer.r#type())?;
                let f = ScalarOp::combiner(kind, dtype, self.rounding)
                    .ok_or_else(|| format!("'{kind}' does not combine elements of {dtype}"))?;
                What::AllReduce { op: f, memref: self.memref(buffer)? }
            }
            "loop.arrive" => What::Arrive {
                tickets: self.memref(operand(op, 0)?)?,
                at: self.register(operand(op, 1)?)?,
                count: self.register(operand(op, 2)?)?,
                to: self.define(result(op)?)?.at,
            },
            "loop.check_index" => What::CheckIndex {
                check: Check::of(op)?,
                from: self.place(operand(op, 0)?)?,
                size: self.register(operand(op, 1)?)?,
                to: self.define(result(op)?)?,
            },
            other => {
                return Err(format!("'{other}' is not an op of the loop level that the interpreter knows"));
            }
        }))
    }

    fn view(&mut self, op: &OperationRef<'_, '_>, how: Rearrange) -> Step<What> {
        let from = self.memref(operand(op, 0)?)?;
        Ok(What::View { how, from, to: self.define_memref(result(op)?) })
    }

    fn alloca(&mut self, op: &OperationRef<'_, '_>) -> Step<What> {
        let v = result(op)?;
        let mut next = 0;
        let sizes = sizes_of(v.r#type())
            .into_iter()
            .chain(vector_elements(v.r#type()).map(|n| Some(n as i64)))
            .map(|n| match n {
                Some(n) => Ok(Number::Static(n)),
                None => {
                    next += 1;
                    Ok(Number::Register(self.register(operand(op, next - 1)?)?))
                }
            })
            .collect::<Step<Vec<_>>>()?;
        self.program.sites += 1;
        Ok(What::Alloca { site: self.program.sites - 1, sizes, to: self.define_memref(v) })
    }

    fn atomic(&mut self, op: &OperationRef<'_, '_>) -> Step<What> {
        let number = IntegerAttribute::try_from(attribute(op, "kind")?).map_err(|e| e.to_string())?.value();
        let kind = KINDS.get(number as usize).ok_or_else(|| format!("an atomic of kind {number}"))?;
        let value = operand(op, 0)?;
        let dtype = element_of(value.r#type())?;
        let f = match *kind {
            "assign" => None,
            k => Some(
                ScalarOp::combiner(combiner(k), dtype, self.rounding)
                    .ok_or_else(|| format!("an atomic '{k}' on elements of {dtype}"))?,
            ),
        };
        let access = self.access(op, operand(op, 1)?, 2, op.operand_count())?;
        let value = self.register(value)?;
        let Place { at: to, .. } = self.define(result(op)?)?;
        Ok(What::Atomic { op: f, access, value, to })
    }
}

/// The dimensions of a subview that its type keeps: sizes of 1 may be dropped.
fn kept_dims(sizes: &[Number], wanted: &[Option<i64>]) -> Step<Vec<usize>> {
    let mut kept = Vec::new();
    let mut drop = sizes.len() - wanted.len().min(sizes.len());
    for (d, n) in sizes.iter().enumerate() {
        let fits = match (n, wanted.get(kept.len())) {
            (Number::Static(a), Some(Some(b))) => a == b,
            (Number::Register(_), Some(None)) => true,
            _ => false,
        };
        if drop > 0 && *n == Number::Static(1) && !(fits && sizes.len() - d == wanted.len() - kept.len()) {
            drop -= 1;
        } else {
            kept.push(d);
        }
    }
    if kept.len() == wanted.len() {
        Ok(kept)
    } else {
        Err("a subview whose dropped dimensions are not of size 1".into())
    }
}

fn reassociation(op: &OperationRef<'_, '_>) -> Step<Vec<Vec<usize>>> {
    let bad = |e: melior::Error| e.to_string();
    let a = ArrayAttribute::try_from(attribute(op, "reassociation")?).map_err(bad)?;
    (0..a.len())
        .map(|i| {
            let g = ArrayAttribute::try_from(a.element(i).map_err(bad)?).map_err(bad)?;
            (0..g.len())
                .map(|k| {
                    Ok(IntegerAttribute::try_from(g.element(k).map_err(bad)?).map_err(bad)?.value() as usize)
                })
                .collect()
        })
        .collect()
}

/// `operandSegmentSizes`.
pub(super) fn segments(op: &OperationRef<'_, '_>) -> Step<Vec<usize>> {
    use melior::ir::attribute::DenseI32ArrayAttribute;
    let a =
        DenseI32ArrayAttribute::try_from(attribute(op, "operandSegmentSizes")?).map_err(|e| e.to_string())?;
    (0..a.len()).map(|i| a.element(i).map(|n| n as usize).map_err(|e| e.to_string())).collect()
}

/// The one position of `vector.extract` and `vector.insert`: static, or the operand at `dynamic`.
pub(super) fn position(d: &mut Decoder, op: &OperationRef<'_, '_>, dynamic: usize) -> Step<Option<Number>> {
    let list = integers(op, "static_position")?;
    match list.as_slice() {
        [] => Ok(None),
        [_] => d.mixed(op, "static_position", &mut { dynamic }).map(|v| v.first().copied()),
        _ => Err("more than one position; vectors have one dimension here".into()),
    }
}
