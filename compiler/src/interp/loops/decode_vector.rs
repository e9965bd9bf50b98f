//! Decoding of `vector` ops on one-dimensional vectors.

use super::super::affine::Affine;
use super::super::decode::{affine_attribute, element_of};
use super::super::scalar::ScalarOp;
use super::code::{Access, Number, Place, What};
use super::decode::{Decoder, Step, attribute, integers, operand, result};
use super::decode_memory::{position, segments};
use crate::ir::name;
use melior::ir::ValueLike;
use melior::ir::attribute::{ArrayAttribute, BoolAttribute, IntegerAttribute};
use melior::ir::operation::{OperationLike, OperationRef};

fn lanes(p: Place) -> Vec<usize> {
    (p.at..p.at + p.lanes).collect()
}

fn array(op: &OperationRef<'_, '_>, key: &str) -> Step<Vec<i64>> {
    let a = ArrayAttribute::try_from(attribute(op, key)?).map_err(|e| e.to_string())?;
    (0..a.len())
        .map(|i| {
            let e = a.element(i).map_err(|e| e.to_string())?;
            if let Ok(b) = BoolAttribute::try_from(e) {
                return Ok(i64::from(b.value()));
            }
            IntegerAttribute::try_from(e).map(|v| v.value()).map_err(|e| e.to_string())
        })
        .collect()
}

impl Decoder {
    pub(super) fn vector_op(&mut self, op: &OperationRef<'_, '_>) -> Step<What> {
        let n = op.operand_count();
        let pick = |d: &mut Self, from: Vec<usize>| -> Step<What> {
            Ok(What::Pick { from, to: d.define(result(op)?)? })
        };
        match name(op) {
            "vector.load" => {
                let access = self.access(op, operand(op, 0)?, 1, n)?;
                Ok(What::Load { access, to: self.define(result(op)?)? })
            }
            "vector.store" => {
                let from = self.place(operand(op, 0)?)?;
                Ok(What::Store { access: self.access(op, operand(op, 1)?, 2, n)?, from })
            }
            "vector.maskedload" => {
                let mut access = self.access(op, operand(op, 0)?, 1, n - 2)?;
                access.lanes.mask = Some(self.place(operand(op, n - 2)?)?);
                access.lanes.other = Some(self.place(operand(op, n - 1)?)?);
                Ok(What::Load { access, to: self.define(result(op)?)? })
            }
            "vector.maskedstore" => {
                let mut access = self.access(op, operand(op, 0)?, 1, n - 2)?;
                access.lanes.mask = Some(self.place(operand(op, n - 2)?)?);
                Ok(What::Store { access, from: self.place(operand(op, n - 1)?)? })
            }
            "vector.transfer_read" => {
                let s = segments(op)?;
                let mut access = self.access(op, operand(op, 0)?, 1, 1 + s[1])?;
                access.lanes.other = Some(self.place(operand(op, 1 + s[1])?)?);
                self.transfer(op, &mut access, (s[3] > 0).then_some(n - 1))?;
                Ok(What::Load { access, to: self.define(result(op)?)? })
            }
            "vector.transfer_write" => {
                let s = segments(op)?;
                let from = self.place(operand(op, 0)?)?;
                let mut access = self.access(op, operand(op, 1)?, 2, 2 + s[2])?;
                self.transfer(op, &mut access, (s[3] > 0).then_some(n - 1))?;
                Ok(What::Store { access, from })
            }
            "vector.broadcast" => {
                let from = self.place(operand(op, 0)?)?;
                let to = self.define(result(op)?)?;
                let source =
                    (0..to.lanes).map(|i| if from.lanes == 1 { from.at } else { from.at + i }).collect();
                Ok(What::Pick { from: source, to })
            }
            "vector.extract" => {
                let from = self.place(operand(op, 0)?)?;
                match position(self, op, 1)? {
                    None => pick(self, lanes(from)),
                    Some(Number::Static(i)) if (i as usize) < from.lanes => {
                        pick(self, vec![from.at + i as usize])
                    }
                    Some(Number::Static(i)) => Err(format!("lane {i} of a vector of {}", from.lanes)),
                    Some(Number::Register(index)) => {
                        Ok(What::Extract { from, index, to: self.define(result(op)?)?.at })
                    }
                }
            }
            "vector.insert" => {
                let (value, into) = (self.place(operand(op, 0)?)?, self.place(operand(op, 1)?)?);
                match position(self, op, 2)? {
                    None => pick(self, lanes(value)),
                    Some(Number::Static(i)) if (i as usize) < into.lanes => {
                        let mut from = lanes(into);
                        from[i as usize] = value.at;
                        pick(self, from)
                    }
                    Some(Number::Static(i)) => Err(format!("lane {i} of a vector of {}", into.lanes)),
                    Some(Number::Register(index)) => {
                        Ok(What::Insert { value: value.at, into, index, to: self.define(result(op)?)? })
                    }
                }
            }
            "vector.shuffle" => {
                let (a, b) = (self.place(operand(op, 0)?)?, self.place(operand(op, 1)?)?);
                let both = [lanes(a), lanes(b)].concat();
                let from = integers(op, "mask")?
                    .into_iter()
                    // -1 leaves a lane undefined: any will do.
                    .map(|i| {
                        both.get(i.max(0) as usize)
                            .copied()
                            .ok_or_else(|| format!("lane {i} of {}", both.len()))
                    })
                    .collect::<Step<_>>()?;
                pick(self, from)
            }
            "vector.interleave" => {
                let (a, b) = (self.place(operand(op, 0)?)?, self.place(operand(op, 1)?)?);
                pick(self, (0..a.lanes).flat_map(|i| [a.at + i, b.at + i]).collect())
            }
            "vector.from_elements" => {
                let parts = self.places(0..n, op)?;
                pick(self, parts.iter().map(|p| p.at).collect())
            }
            "vector.to_elements" => {
                let from = self.place(operand(op, 0)?)?;
                // Results are defined one after another, so their registers are consecutive.
                let mut to = None;
                for i in 0..op.result_count() {
                    let p = self.define(op.result(i).map_err(|e| e.to_string())?.into())?;
                    to.get_or_insert(p.at);
                }
                Ok(What::Pick { from: lanes(from), to: Place { at: to.unwrap_or(0), lanes: from.lanes } })
            }
            "vector.extract_strided_slice" => {
                let from = self.place(operand(op, 0)?)?;
                let (offset, size) = (array(op, "offsets")?[0] as usize, array(op, "sizes")?[0] as usize);
                pick(self, lanes(from)[offset..offset + size].to_vec())
            }
            "vector.insert_strided_slice" => {
                let (part, into) = (self.place(operand(op, 0)?)?, self.place(operand(op, 1)?)?);
                let offset = array(op, "offsets")?[0] as usize;
                let mut from = lanes(into);
                from[offset..offset + part.lanes].copy_from_slice(&lanes(part));
                pick(self, from)
            }
            "vector.reduction" => {
                let v = operand(op, 0)?;
                let text = attribute(op, "kind")?.to_string();
                let kind = text.trim_start_matches("#vector.kind<").trim_end_matches('>');
                let dtype = element_of(v.r#type())?;
                let f = ScalarOp::combiner(kind, dtype, self.rounding)
                    .ok_or_else(|| format!("a reduction '{kind}' of elements of {dtype}"))?;
                let from = self.place(v)?;
                let acc = if n > 1 { Some(self.register(operand(op, 1)?)?) } else { None };
                Ok(What::Reduce { op: f, from, acc, to: self.define(result(op)?)?.at })
            }
            "vector.step" => Ok(What::Step { to: self.define(result(op)?)? }),
            "vector.create_mask" => {
                let count = self.register(operand(op, 0)?)?;
                Ok(What::Mask { count, to: self.define(result(op)?)? })
            }
            "vector.constant_mask" => {
                let count = self.number_register(integers(op, "mask_dim_sizes")?[0]);
                Ok(What::Mask { count, to: self.define(result(op)?)? })
            }
            other => Err(format!("'{other}' is not an op of the loop level that the interpreter knows")),
        }
    }

    /// What the attributes of a transfer say about its lanes.
    fn transfer(&self, op: &OperationRef<'_, '_>, access: &mut Access, mask: Option<usize>) -> Step<()> {
        access.lanes.mask = mask.map(|i| self.place(operand(op, i)?)).transpose()?;
        access.lanes.clip = array(op, "in_bounds")?.first() != Some(&1);
        match affine_attribute(op, "permutation_map")?.as_slice() {
            [Affine::Operand(d)] => access.lanes.dim = *d,
            [Affine::Constant(0)] => access.lanes.broadcast = true,
            _ => return Err("a transfer that is not along one dimension".into()),
        }
        Ok(())
    }
}
