//! The walk over the graph: inputs and symbols, initializers, nodes in order, outputs.

use super::diagnostic::{Diagnostic, REFERENCE_PAGE, Result, fail};
use super::emit::{Emit, Value};
use super::model::Model;
use super::node::Node;
use super::proto::{GraphProto, TensorProto, ValueInfoProto};
use super::proto::{tensor_shape_proto::dimension::Value as Dim, type_proto};
use super::{table, tensor};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use strata_dialects::TensorType;
use strata_runtime::sym::{Expr, Symbol};

/// Integer tensors up to this size are followed element by element, in the hope that they describe a shape.
pub const MAX_KNOWN: usize = 1024;

/// A value of the ONNX graph: its type, and what is known of its content.
#[derive(Clone, Debug)]
pub struct Operand {
    /// The type.
    pub ty: TensorType,
    /// The value in the function under construction, once something needed it; shared by the copies of this operand.
    pub value: Rc<Cell<Option<Value>>>,
    /// The content, where it is stored in the model.
    pub data: Option<Rc<tensor::Tensor>>,
    /// The content of a small integer tensor, as expressions over the symbols.
    pub known: Option<Rc<[Expr]>>,
}

impl Operand {
    /// A value computed at run time.
    pub fn computed(value: Value, ty: TensorType) -> Self {
        Self { ty, value: Rc::new(Cell::new(Some(value))), data: None, known: None }
    }

    /// A tensor stored in the model; written into the function where it is first used.
    pub fn stored(tensor: tensor::Tensor) -> Self {
        let ty = TensorType::new(tensor.dtype, tensor.shape.iter().copied());
        let known = if tensor.len() <= MAX_KNOWN { tensor.to_i64() } else { None };
        let known = known.map(|v| v.into_iter().map(Expr::from).collect());
        Self { ty, value: Rc::default(), data: Some(Rc::new(tensor)), known }
    }

    /// An integer tensor whose elements are known expressions.
    pub fn known(dtype: strata_runtime::DType, shape: &[usize], elements: Vec<Expr>) -> Self {
        debug_assert_eq!(shape.iter().product::<usize>(), elements.len());
        let ty = TensorType::new(dtype, shape.iter().copied());
        Self { ty, value: Rc::default(), data: None, known: Some(elements.into()) }
    }

    /// The rank.
    pub fn rank(&self) -> usize {
        self.ty.shape.len()
    }

    /// The sizes.
    pub fn shape(&self) -> &[Expr] {
        &self.ty.shape
    }

    /// The content as numbers, if it is known and holds no symbol.
    pub fn numbers(&self) -> Option<Vec<i64>> {
        self.known.as_ref()?.iter().map(Expr::as_const).collect()
    }
}

/// The state of an import.
pub struct Importer<'a> {
    /// Where ops are written.
    pub emit: &'a mut dyn Emit,
    /// The function's symbols.
    pub symbols: Vec<Symbol>,
    /// The node being translated, for locations.
    pub at: String,
    model: &'a Model,
    values: BTreeMap<&'a str, Operand>,
}

/// Writes the model as one function.
pub fn import(model: &Model, emit: &mut dyn Emit) -> Result<()> {
    let mut importer =
        Importer { emit, symbols: Vec::new(), at: String::new(), model, values: BTreeMap::new() };
    importer.run()
}

impl<'a> Importer<'a> {
    fn run(&mut self) -> Result<()> {
        let graph = &self.model.graph;
        let stored: BTreeSet<&str> = graph.initializer.iter().map(TensorProto::name).collect();
        if let Some(sparse) = graph.sparse_initializer.first() {
            let name = sparse.values.as_ref().map_or("", |v| v.name());
            return Err(Diagnostic::new("sparse tensors are not supported")
                .help("store the tensor dense")
                .at(format!("initializer '{name}'")));
        }
        let mut arguments = Vec::new();
        for input in graph.input.iter().filter(|i| !stored.contains(i.name())) {
            let ty = self
                .input_type(input)
                .and_then(|ty| self.check_size(&ty).map(|()| ty))
                .map_err(|d| d.at(format!("graph input '{}'", input.name())))?;
            arguments.push((input.name().to_owned(), ty));
        }
        let name = if graph.name().is_empty() { "main" } else { graph.name() };
        let values = self.emit.begin(name, &self.symbols, &arguments)?;
        let inputs = graph.input.iter().filter(|i| !stored.contains(i.name()));
        for ((input, value), (_, ty)) in inputs.zip(values).zip(arguments) {
            self.define(input.name(), Operand::computed(value, ty))?;
        }
        for initializer in &graph.initializer {
            let place = || format!("initializer '{}'", initializer.name());
            let tensor = self.tensor(initializer).map_err(|d| d.at(place()))?;
            self.define(initializer.name(), Operand::stored(tensor)).map_err(|d| d.at(place()))?;
        }
        for (index, proto) in graph.node.iter().enumerate() {
            let node = Node::new(proto, index, self.model.opset);
            self.at.clone_from(&node.name);
            self.node(&node).map_err(|d| d.at(node.place()))?;
        }
        self.outputs(graph)
    }

    /// A tensor stored in the model.
    pub fn tensor(&self, proto: &TensorProto) -> Result<tensor::Tensor> {
        tensor::read(proto, self.model.folder.as_deref())
    }

    fn define(&mut self, name: &'a str, operand: Operand) -> Result<()> {
        if self.values.insert(name, operand).is_some() {
            fail!("the name '{name}' is defined twice");
        }
        Ok(())
    }

    fn node(&mut self, node: &Node<'a>) -> Result<()> {
        let domain = node.proto.domain();
        if !(domain.is_empty() || domain == "ai.onnx") {
            let local = self.model.functions.iter().any(|(d, n)| d == domain && n == node.op());
            let reason =
                format!("operator '{}' of the domain '{domain}' is not a standard ONNX operator", node.op());
            return Err(Diagnostic::new(reason).help(if local {
                "the model defines it as a function: inline it with `onnx.inliner.inline_local_functions`".to_owned()
            } else {
                format!("export without optimisations of a particular runtime; {REFERENCE_PAGE} lists what is supported")
            }));
        }
        let entry = table::find(node.op()).ok_or_else(|| {
            Diagnostic::new(format!("the operator '{}' is not supported", node.op()))
                .help(format!("{REFERENCE_PAGE} lists the supported operators and how to add one"))
        })?;
        if !entry.inputs.contains(&node.proto.input.len()) {
            let (given, want) = (node.proto.input.len(), &entry.inputs);
            fail!("{given} inputs, expected {} to {}", want.start(), want.end());
        }
        let results = (entry.translate)(self, node)?;
        for (i, name) in node.proto.output.iter().enumerate().filter(|(_, n)| !n.is_empty()) {
            let operand = results.get(i).cloned().ok_or_else(|| {
                Diagnostic::new(format!("output {i} ('{name}') of {} is not supported", node.op()))
                    .help("if nothing needs it, remove it from the node's outputs")
            })?;
            self.define(name, operand)?;
        }
        Ok(())
    }

    /// The `i`-th input, which must be given.
    pub fn input(&self, node: &Node<'_>, i: usize) -> Result<Operand> {
        match self.optional_input(node, i)? {
            Some(operand) => Ok(operand),
            None => fail!("input {i} is missing"),
        }
    }

    /// The `i`-th input, if it is given.
    pub fn optional_input(&self, node: &Node<'_>, i: usize) -> Result<Option<Operand>> {
        if !node.has_input(i) {
            return Ok(None);
        }
        let name = node.proto.input[i].as_str();
        match self.values.get(name) {
            Some(operand) => Ok(Some(operand.clone())),
            None => {
                let later = self.model.graph.node.iter().any(|n| n.output.iter().any(|o| o == name));
                let why = if later {
                    "is computed by a later node: the nodes are not in topological order"
                } else {
                    "is not defined by any input, initializer or node"
                };
                fail!("input {i} ('{name}') {why}")
            }
        }
    }

    fn input_type(&mut self, input: &ValueInfoProto) -> Result<TensorType> {
        let tensor = match input.r#type.as_ref().and_then(|t| t.value.as_ref()) {
            Some(type_proto::Value::TensorType(t)) => t,
            Some(_) => fail!("sequences, maps, optionals and sparse tensors are not supported"),
            None => fail!("the input has no type"),
        };
        let dtype = tensor::dtype(tensor.elem_type())?;
        let Some(shape) = &tensor.shape else {
            return Err(Diagnostic::new("the input's rank is unknown")
                .help("export with example inputs, or set the shape with `onnx.tools.update_model_dims`"));
        };
        if shape.dim.len() > tensor::MAX_RANK {
            fail!("rank {} (at most {} is accepted)", shape.dim.len(), tensor::MAX_RANK);
        }
        let mut sizes = Vec::new();
        for (axis, dim) in shape.dim.iter().enumerate() {
            let unnamed = || format!("{}_{axis}", input.name());
            sizes.push(match &dim.value {
                Some(Dim::DimValue(n)) if *n >= 0 => Expr::from(*n),
                // Older converters write an unknown size so.
                Some(Dim::DimValue(-1)) | None => self.symbol(unnamed()),
                Some(Dim::DimValue(n)) => fail!("dimension {axis} has the size {n}"),
                Some(Dim::DimParam(name)) if name.is_empty() => self.symbol(unnamed()),
                Some(Dim::DimParam(name)) => self.symbol(name.clone()),
            });
        }
        Ok(TensorType::new(dtype, sizes))
    }

    /// Equal names are equal sizes.
    fn symbol(&mut self, name: String) -> Expr {
        let i = self.symbols.iter().position(|s| s.name == name).unwrap_or_else(|| {
            self.symbols.push(Symbol::named(name));
            self.symbols.len() - 1
        });
        Expr::sym(i as u32)
    }

    fn outputs(&mut self, graph: &'a GraphProto) -> Result<()> {
        if graph.output.is_empty() {
            fail!("the graph has no outputs");
        }
        let mut results = Vec::new();
        for output in &graph.output {
            self.at = output.name().to_owned();
            let place = format!("graph output '{}'", output.name());
            let Some(operand) = self.values.get(output.name()).cloned() else {
                return Err(Diagnostic::new("is not defined by any input, initializer or node").at(place));
            };
            let value = self.value(&operand).map_err(|d| d.at(&place))?;
            self.check_output(output, &operand).map_err(|d| d.at(place))?;
            results.push((output.name().to_owned(), value));
        }
        self.emit.finish(&self.symbols, &results)
    }

    /// The declared type of an output is a promise of the exporter; a broken one means that something was misread.
    fn check_output(&self, output: &ValueInfoProto, operand: &Operand) -> Result<()> {
        let Some(type_proto::Value::TensorType(t)) = output.r#type.as_ref().and_then(|t| t.value.as_ref())
        else {
            return Ok(());
        };
        if t.elem_type() != 0 && tensor::dtype(t.elem_type())? != operand.ty.dtype {
            fail!("declared as {}, but computed as {}", tensor::dtype(t.elem_type())?, operand.ty);
        }
        let Some(shape) = &t.shape else { return Ok(()) };
        let wrong = shape.dim.len() != operand.rank()
            || shape.dim.iter().zip(operand.shape()).any(|(d, have)| match (&d.value, have.as_const()) {
                (Some(Dim::DimValue(want)), Some(have)) => *want >= 0 && *want != have,
                _ => false,
            });
        if wrong {
            let declared: Vec<String> = shape
                .dim
                .iter()
                .map(|d| match &d.value {
                    Some(Dim::DimValue(n)) => n.to_string(),
                    Some(Dim::DimParam(p)) => p.clone(),
                    None => "?".to_owned(),
                })
                .collect();
            fail!("declared with the sizes [{}], but computed as {}", declared.join(","), operand.ty);
        }
        Ok(())
    }
}
