//! The plan of a module whose kernels are compiled: the entry function's ops become steps over buffers.

mod call;
mod facts;
mod product;

use crate::driver::pass::Failure;
use crate::graph::arena::{Interval, place};
use crate::graph::product_layout::contiguous;
use crate::graph::symbols;
use crate::graph::{MEMORY, entry};
use crate::ir;
pub use facts::KernelFacts;
use melior::ir::attribute::{ArrayAttribute, DictionaryAttribute, IntegerAttribute, StringAttribute};
use melior::ir::operation::{OperationLike, OperationRef};
use melior::ir::{BlockLike, Module, Value, ValueLike};
use std::collections::{BTreeMap, BTreeSet};
use strata_dialects::affine::dims_of;
use strata_dialects::{Attr, OpView, TensorType};
use strata_runtime::artifact::Constants;
use strata_runtime::exec::LARGE;
use strata_runtime::plan::*;
use strata_runtime::sym::Expr;

/// What the plan needs to know of a compiled kernel.
#[derive(Clone, Debug)]
pub struct KernelInfo {
    /// Symbol name in its image.
    pub symbol: String,
    /// Index of the image in the artifact.
    pub image: u32,
    /// What its graph ops say.
    pub facts: KernelFacts,
    /// Threads a block.
    pub block: u32,
    /// Dynamic shared memory in bytes.
    pub shared_bytes: u32,
    /// What it checks, by the number that it reports.
    pub checks: Vec<Check>,
    /// Blocks or tasks, over the kernel's symbols.
    pub grid: Vec<Expr>,
}

/// The plan of the entry function, and the constants it reads.
pub fn build(
    module: &Module<'_>,
    kernels: &BTreeMap<String, KernelInfo>,
    device: DeviceKind,
) -> Result<(Plan, Constants), Failure> {
    let function = entry(module)
        .ok_or_else(|| Failure::new(module.as_operation().location(), "the module has no entry function"))?;
    let mut planner = Planner::new(function, kernels, device)?;
    planner.steps()?;
    planner.finish()
}

struct Planner<'c, 'm, 'k> {
    function: OperationRef<'c, 'm>,
    kernels: &'k BTreeMap<String, KernelInfo>,
    /// Names of the kernels that are called, by index in the plan.
    called: Vec<String>,
    /// The buffer of each value, by the value's address.
    known: BTreeMap<usize, BufferId>,
    /// Values that are returned as they are, through views: their memory belongs to the caller. Value → result number.
    results: BTreeMap<usize, u32>,
    /// The views between these and what is returned, likewise: a copy that one of them needs belongs to the caller too.
    returned_views: BTreeMap<usize, u32>,
    /// The tickets of the kernels that count blocks, and their type.
    tickets: Option<(BufferId, TensorType)>,
    /// Arena buffer → placed later.
    pending: BTreeSet<BufferId>,
    plan: Plan,
    constants: Constants,
}

fn key(value: Value<'_, '_>) -> usize {
    value.to_raw().ptr as usize
}

/// Attribute `name` of the `i`-th argument (`arg_attrs`) or result (`res_attrs`) of a function.
fn element_attr<'c>(
    function: &OperationRef<'c, '_>,
    list: &str,
    i: usize,
    name: &str,
) -> Option<melior::ir::Attribute<'c>> {
    let list = ArrayAttribute::try_from(function.attribute(list).ok()?).ok()?;
    DictionaryAttribute::try_from(list.element(i).ok()?).ok()?.element_by_name(name)
}

/// What the model calls an argument or a result.
fn given_name(function: &OperationRef<'_, '_>, list: &str, i: usize) -> Option<String> {
    let name = element_attr(function, list, i, "graph.name")?;
    StringAttribute::try_from(name).ok().map(|s| s.value().to_owned())
}

impl<'c: 'm, 'm, 'k> Planner<'c, 'm, 'k> {
    fn new(
        function: OperationRef<'c, 'm>,
        kernels: &'k BTreeMap<String, KernelInfo>,
        device: DeviceKind,
    ) -> Result<Self, Failure> {
        let bad = |m: String| Failure::new(function.location(), m);
        let body = ir::body(&function).ok_or_else(|| bad("the entry function has no body".into()))?;
        let plan = Plan {
            name: ir::symbol_name(&function),
            device,
            symbols: vec![],
            inputs: vec![],
            outputs: vec![],
            buffers: vec![],
            kernels: vec![],
            arena: Expr::from(0),
            steps: vec![],
        };
        let mut it = Self {
            function,
            kernels,
            called: vec![],
            known: BTreeMap::new(),
            results: BTreeMap::new(),
            returned_views: BTreeMap::new(),
            tickets: None,
            pending: BTreeSet::new(),
            plan,
            constants: Constants::new(),
        };
        for i in 0..body.argument_count() {
            let argument = body.argument(i).expect("in range");
            let ty = TensorType::from_mlir(argument.r#type()).map_err(bad)?;
            let buffer = it.buffer(&ty, Place::Input(i as u32));
            let strides = element_attr(&function, "arg_attrs", i, "graph.strides").and_then(dims_of);
            it.plan.buffers[buffer.0 as usize].strides = strides;
            let name = given_name(&function, "arg_attrs", i).unwrap_or_else(|| format!("arg{i}"));
            it.plan.inputs.push(Input { name, buffer });
            it.known.insert(key(argument.into()), buffer);
        }
        it.bind_symbols()?;
        Ok(it)
    }

    fn bind_symbols(&mut self) -> Result<(), Failure> {
        let bad = |m: String| Failure::new(self.function.location(), m);
        let used = self.used_symbols()?;
        let declared = symbols::read(&self.function).map_err(bad)?;
        if let Some(unknown) = used.iter().find(|&&s| s as usize >= declared.len()) {
            let what = format!(
                "s{unknown} is used as a size, but the function's graph.symbols declares {} symbols",
                declared.len()
            );
            return Err(bad(what).next(
                "give the function attributes {graph.symbols = [{name = \"rows\", min = 1}]}, with an entry for each symbol",
            ));
        }
        for (i, s) in declared.into_iter().enumerate() {
            let wanted = Expr::sym(i as u32);
            let find = |list: fn(&Buffer) -> Option<&Vec<Expr>>| {
                self.plan.inputs.iter().enumerate().find_map(|(k, input)| {
                    let exprs = list(&self.plan.buffers[input.buffer.0 as usize])?;
                    exprs.iter().position(|e| *e == wanted).map(|d| (k as u32, d as u32))
                })
            };
            let binding = match s.definition {
                Some(e) => Binding::Defined(e),
                None => match (find(|b| Some(&b.shape)), find(|b| b.strides.as_ref())) {
                    (Some((input, dim)), _) => Binding::InputDim { input, dim },
                    (None, Some((input, dim))) => Binding::InputStride { input, dim },
                    // Nothing depends on it: any value of its range will do.
                    (None, None) if !used.contains(&(i as u32)) => Binding::Defined(Expr::from(s.info.min)),
                    (None, None) => {
                        return Err(bad(format!(
                            "symbol s{i} ('{}') is not the size of any input's dimension",
                            s.info.name
                        ))
                        .next("give it a definition (def = \"s0 * 2\") or use it as a size of an argument"));
                    }
                },
            };
            self.plan.symbols.push(PlanSymbol { info: s.info, binding });
        }
        Ok(())
    }

    /// The symbols that occur in the types and expressions of the entry function.
    fn used_symbols(&self) -> Result<BTreeSet<u32>, Failure> {
        let mut used = BTreeSet::new();
        let buffers = self.plan.buffers.iter().flat_map(|b| b.shape.iter().chain(b.strides.iter().flatten()));
        used.extend(buffers.flat_map(Expr::symbols).map(|s| s.0));
        for op in ir::ops(ir::body(&self.function).expect("checked")) {
            if !ir::name(&op).starts_with("graph.") {
                continue;
            }
            let view = OpView::new(&op).map_err(|m| Failure::new(op.location(), m))?;
            let types = view.operands.iter().chain(&view.results).flat_map(|t| &t.shape);
            let attrs =
                view.attrs.iter().filter_map(|(_, a)| if let Attr::Dims(d) = a { Some(d) } else { None });
            used.extend(types.chain(attrs.flatten()).flat_map(Expr::symbols).map(|s| s.0));
        }
        Ok(used)
    }

    fn buffer(&mut self, ty: &TensorType, place: Place) -> BufferId {
        self.plan.buffers.push(Buffer { dtype: ty.dtype, shape: ty.shape.clone(), strides: None, place });
        BufferId(self.plan.buffers.len() as u32 - 1)
    }

    /// A buffer for a value that a step writes: the caller's memory if it is returned, else a place in the arena.
    fn written(&mut self, value: Value<'c, 'm>) -> Result<BufferId, Failure> {
        let ty = TensorType::from_mlir(value.r#type()).map_err(|m| Failure::new(value.location(), m))?;
        let id = match self.results.get(&key(value)) {
            Some(&n) => self.buffer(&ty, Place::Output(n)),
            None => self.scratch(&ty),
        };
        self.known.insert(key(value), id);
        Ok(id)
    }

    fn scratch(&mut self, ty: &TensorType) -> BufferId {
        let id = self.buffer(ty, Place::Arena(Expr::from(0)));
        self.pending.insert(id);
        id
    }

    fn of(&self, value: Value<'c, 'm>) -> BufferId {
        *self.known.get(&key(value)).expect("values are defined before they are used")
    }

    fn get(&self, id: BufferId) -> &Buffer {
        &self.plan.buffers[id.0 as usize]
    }

    fn strides(&self, id: BufferId) -> Vec<Expr> {
        let b = self.get(id);
        b.strides.clone().unwrap_or_else(|| contiguous(&b.shape))
    }

    /// A buffer with the same elements in row-major order: itself, or a copy.
    fn dense(&mut self, id: BufferId) -> BufferId {
        self.dense_in(id, None)
    }

    /// The same; a copy is memory of the caller where it is for that result.
    fn dense_in(&mut self, id: BufferId, result: Option<u32>) -> BufferId {
        let b = self.get(id);
        if b.strides.as_ref().is_none_or(|s| *s == contiguous(&b.shape)) {
            return id;
        }
        let ty = TensorType { dtype: b.dtype, shape: b.shape.clone() };
        let to = match result {
            Some(n) => self.buffer(&ty, Place::Output(n)),
            None => self.scratch(&ty),
        };
        self.plan.steps.push(Step::Copy { from: id, to });
        to
    }

    /// The outputs; those that must have memory of their own and would share it are copied.
    fn returned(&mut self, terminator: &OperationRef<'c, 'm>) {
        let mut owners: BTreeMap<BufferId, i64> = BTreeMap::new();
        for (i, v) in terminator.operands().enumerate() {
            let mut buffer = self.of(v);
            let memory = element_attr(&self.function, "res_attrs", i, MEMORY)
                .and_then(|a| IntegerAttribute::try_from(a).ok())
                .map(|a| a.value());
            if let Some(memory) = memory {
                let root = self.root(buffer);
                let given = matches!(self.get(root).place, Place::Input(_) | Place::Constant { .. });
                if given || *owners.entry(root).or_insert(memory) != memory {
                    let b = self.get(buffer);
                    let ty = TensorType { dtype: b.dtype, shape: b.shape.clone() };
                    let to = self.buffer(&ty, Place::Output(i as u32));
                    self.plan.steps.push(Step::Copy { from: buffer, to });
                    buffer = to;
                }
            }
            let name = given_name(&self.function, "res_attrs", i).unwrap_or_else(|| format!("out{i}"));
            self.plan.outputs.push(Output { name, buffer });
        }
    }

    /// The buffer that holds another's memory.
    fn root(&self, mut id: BufferId) -> BufferId {
        while let Place::Alias { of, .. } = self.get(id).place {
            id = of;
        }
        id
    }

    /// Follows views from what is returned to the values that steps write: those belong to the caller.
    fn mark_results(&mut self, terminator: &OperationRef<'c, 'm>) {
        for (n, v) in terminator.operands().enumerate() {
            let mut value = v;
            while let Some(op) = strata_dialects::build::definition(value) {
                match ir::name(&op) {
                    "graph.reshape" | "graph.transpose" => {
                        self.returned_views.entry(key(value)).or_insert(n as u32);
                        value = op.operand(0).expect("views have an operand")
                    }
                    _ => break,
                }
            }
            self.results.entry(key(value)).or_insert(n as u32);
        }
    }

    fn steps(&mut self) -> Result<(), Failure> {
        let body = ir::body(&self.function).expect("checked");
        let ops = ir::ops(body);
        let terminator = *ops.last().expect("a terminator");
        self.mark_results(&terminator);
        for op in &ops {
            if ir::name(op) == "func.return" {
                self.returned(op);
                continue;
            }
            let view = OpView::new(op).map_err(|m| Failure::new(op.location(), m))?;
            self.step(*op, &view)?;
        }
        Ok(())
    }

    fn step(&mut self, op: OperationRef<'c, 'm>, view: &OpView) -> Result<(), Failure> {
        let location = ir::location_text(op.location());
        let operand = |it: &Self, i: usize| it.of(op.operand(i).expect("as viewed"));
        let result = || -> Value<'c, 'm> { op.result(0).expect("as viewed").into() };
        match view.spec.mnemonic() {
            "constant" => {
                let Some(Attr::Elements(e)) = view.attr("value") else { unreachable!("verified") };
                let (bytes, splat) = e
                    .bytes()
                    .ok_or_else(|| Failure::new(op.location(), "the constant's elements cannot be read"))?;
                let n = view.results[0].numel().as_const().unwrap_or(0) as usize;
                let bytes = if splat { bytes.repeat(n) } else { bytes };
                let offset = self.constants.push(&bytes);
                let id = self.buffer(&view.results[0], Place::Constant { offset });
                self.known.insert(key(result()), id);
            }
            "reshape" => {
                let from = operand(self, 0);
                let of = self.dense_in(from, self.returned_views.get(&key(result())).copied());
                self.alias(result(), &view.results[0], of, None);
            }
            "transpose" => {
                let of = operand(self, 0);
                let from = self.strides(of);
                let strides = view.indices("permutation").iter().map(|&d| from[d].clone()).collect();
                self.alias(result(), &view.results[0], of, Some(strides));
            }
            "call" => {
                let name = view.str("callee").to_owned();
                let info = self
                    .kernels
                    .get(&name)
                    .ok_or_else(|| Failure::new(op.location(), format!("kernel @{name} was not compiled")))?;
                let symbols = view.dims("symbols").to_vec();
                let grid =
                    info.grid.iter().map(|e| e.substitute(&|s| symbols[s.0 as usize].clone())).collect();
                let kernel = match self.called.iter().position(|n| *n == name) {
                    Some(k) => k,
                    None => {
                        self.called.push(name);
                        self.plan.kernels.push(Kernel {
                            name: info.symbol.clone(),
                            image: info.image,
                            summary: info.facts.summary.clone(),
                            block: info.block,
                            shared_bytes: info.shared_bytes,
                            checks: info.checks.clone(),
                        });
                        self.called.len() - 1
                    }
                };
                let starts = info.facts.starts.clone();
                let scratch = info.facts.scratch.clone();
                let mut operands: Vec<BufferId> = Vec::new();
                for (i, v) in op.operands().enumerate() {
                    let b = self.of(v);
                    // A copy is made anyway where the kernel changes it.
                    operands.push(if starts.iter().any(|s| s.operand == i) { b } else { self.dense(b) });
                }
                let mut results = Vec::new();
                for (i, r) in op.results().enumerate() {
                    results.push(match starts.iter().find(|s| s.result == i) {
                        Some(start) => self.changed(op, r.into(), start, &mut operands)?,
                        None => self.written(r.into())?,
                    });
                }
                for t in scratch {
                    let size = |e: &Expr| e.substitute(&|s| symbols[s.0 as usize].clone());
                    let shape = t.ty.shape.iter().map(size).collect();
                    let ty = TensorType { dtype: t.ty.dtype, shape };
                    results.push(if t.tickets { self.tickets(&ty) } else { self.scratch(&ty) });
                }
                self.plan.steps.push(Step::Launch {
                    kernel: kernel as u32,
                    operands,
                    results,
                    symbols,
                    grid,
                    location,
                });
            }
            "dot_general" | "linear" => self.product(op, view, location)?,
            "convolution" => {
                let list = |name: &str| view.ints(name).to_vec();
                let (input, weight) = (operand(self, 0), operand(self, 1));
                let out = self.written(result())?;
                self.plan.steps.push(Step::Convolution(Convolution {
                    input,
                    weight,
                    out,
                    stride: list("strides"),
                    padding: list("low").into_iter().zip(list("high")).collect(),
                    dilation: list("dilation"),
                    groups: view.int("groups"),
                    location,
                }));
            }
            "custom_call" => {
                let (inputs, outputs) = self.call_buffers(op, view)?;
                self.plan.steps.push(Step::HostCall(HostCall {
                    name: view.str("target").to_owned(),
                    payload: view.str("payload").to_owned(),
                    inputs,
                    symbols: view.dims("symbols").to_vec(),
                    outputs,
                    reason: view.str("reason").to_owned(),
                    location,
                }));
            }
            other => {
                return Err(Failure::new(
                    op.location(),
                    format!("graph.{other} is left in the entry function"),
                )
                .next("run the passes fuse and outline-kernels first"));
            }
        }
        Ok(())
    }

    fn alias(&mut self, value: Value<'c, 'm>, ty: &TensorType, of: BufferId, strides: Option<Vec<Expr>>) {
        let id = self.buffer(ty, Place::Alias { of, offset: Expr::from(0) });
        self.plan.buffers[id.0 as usize].strides = strides;
        self.known.insert(key(value), id);
    }

    /// Where a result is a view of what a step wrote, the caller's memory is the view's, and what was written an alias of it.
    fn own_results(&mut self) {
        for n in 0..self.plan.outputs.len() {
            let view = self.plan.outputs[n].buffer;
            let root = self.root(view);
            if root != view && self.get(root).place == Place::Output(n as u32) {
                self.plan.buffers[view.0 as usize].place = Place::Output(n as u32);
                self.plan.buffers[root.0 as usize].place = Place::Alias { of: view, offset: Expr::from(0) };
            }
        }
    }

    /// Places the arena's buffers by their lives.
    fn finish(mut self) -> Result<(Plan, Constants), Failure> {
        self.own_results();
        let mut life: BTreeMap<BufferId, (usize, usize)> = BTreeMap::new();
        for (i, step) in self.plan.steps.iter().enumerate() {
            let (reads, writes) = step.buffers();
            for b in reads.into_iter().chain(writes) {
                let entry = life.entry(self.root(b)).or_insert((i, i));
                entry.1 = i;
            }
        }
        // On a CPU the arena is kept from call to call, since fresh pages cost as much as what is done with them. A GPU's allocator
        // keeps pages itself: there a large buffer has memory of its own, which others have before and after.
        let typical = if self.plan.device == DeviceKind::Cpu { None } else { self.plan.typical() };
        let mut ids = Vec::new();
        let mut intervals = Vec::new();
        for id in self.pending.iter().copied().filter(|id| life.contains_key(id)) {
            let b = &mut self.plan.buffers[id.0 as usize];
            let bytes = b.shape.iter().cloned().product::<Expr>() * Expr::from(b.dtype.size());
            if typical.as_ref().and_then(|values| bytes.eval(values)).is_some_and(|n| n >= LARGE) {
                b.place = Place::Block;
                continue;
            }
            ids.push(id);
            intervals.push(Interval { first: life[&id].0, last: life[&id].1, bytes });
        }
        let (offsets, end) = place(&intervals);
        for (id, offset) in ids.iter().zip(offsets) {
            self.plan.buffers[id.0 as usize].place = Place::Arena(offset);
        }
        self.plan.arena = end;
        Ok((self.plan, self.constants))
    }
}
