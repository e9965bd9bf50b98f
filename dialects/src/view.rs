//! An op as plain data: what the op table, the interpreters and the lowerings look at.

use crate::attr::Attr;
use crate::spec::OpSpec;
use crate::types::TensorType;
use melior::ir::ValueLike;
use melior::ir::operation::OperationLike;
use strata_runtime::sym::Expr;

/// Name, operand types, result types and attributes of a graph op.
#[derive(Clone, Debug)]
pub struct OpView {
    /// The op's row in the table.
    pub spec: &'static OpSpec,
    /// Types of the operands.
    pub operands: Vec<TensorType>,
    /// Types of the results as stated; empty while they are being inferred.
    pub results: Vec<TensorType>,
    /// Attributes by name, in alphabetical order.
    pub attrs: Vec<(String, Attr)>,
}

impl OpView {
    /// The view of an op in the IR. Errors: not a graph op, or a type or attribute of a kind that graph ops do not use.
    pub fn new<'c: 'a, 'a>(op: &impl OperationLike<'c, 'a>) -> Result<Self, String> {
        let name = op.name();
        let name = name.as_string_ref().as_str().unwrap_or_default();
        let spec =
            crate::ops::lookup(name).ok_or_else(|| format!("'{name}' is not an op of the graph dialect"))?;
        let operands = op.operands().map(|v| TensorType::from_mlir(v.r#type())).collect::<Result<_, _>>()?;
        let results = op.results().map(|v| TensorType::from_mlir(v.r#type())).collect::<Result<_, _>>()?;
        let mut attrs: Vec<_> = op
            .attributes()
            .filter_map(|(id, a)| Some((id.as_string_ref().as_str().ok()?.to_owned(), Attr::from_mlir(a)?)))
            .collect();
        attrs.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(Self { spec, operands, results, attrs })
    }

    /// The attribute of that name.
    pub fn attr(&self, name: &str) -> Option<&Attr> {
        self.attrs.iter().find(|(n, _)| n == name).map(|(_, a)| a)
    }

    /// The integer attribute `name`. Panics where ODS should have refused the op: the attribute is missing or of another kind.
    pub fn int(&self, name: &str) -> i64 {
        match self.attr(name) {
            Some(Attr::Int(v)) => *v,
            other => self.wrong(name, "an integer", other),
        }
    }

    /// The number of the enum case `name`.
    pub fn case(&self, name: &str) -> i32 {
        match self.attr(name) {
            Some(Attr::Enum(v)) => *v,
            other => self.wrong(name, "an enum case", other),
        }
    }

    /// The list of integers `name`.
    pub fn ints(&self, name: &str) -> &[i64] {
        match self.attr(name) {
            Some(Attr::Ints(v)) => v,
            other => self.wrong(name, "a list of integers", other),
        }
    }

    /// The list of dimensions or positions `name`, as indices. Negative entries are refused by constraints before.
    pub fn indices(&self, name: &str) -> Vec<usize> {
        self.ints(name).iter().map(|&i| i as usize).collect()
    }

    /// The list of expressions `name`.
    pub fn dims(&self, name: &str) -> &[Expr] {
        match self.attr(name) {
            Some(Attr::Dims(v)) => v,
            other => self.wrong(name, "a list of expressions", other),
        }
    }

    /// The float `name`.
    pub fn float(&self, name: &str) -> f64 {
        match self.attr(name) {
            Some(Attr::Float(v)) => *v,
            other => self.wrong(name, "a float", other),
        }
    }

    /// The list of floats `name`.
    pub fn floats(&self, name: &str) -> &[f64] {
        match self.attr(name) {
            Some(Attr::Floats(v)) => v,
            other => self.wrong(name, "a list of floats", other),
        }
    }

    /// The truth value `name`.
    pub fn bool(&self, name: &str) -> bool {
        match self.attr(name) {
            Some(Attr::Bool(v)) => *v,
            other => self.wrong(name, "a truth value", other),
        }
    }

    /// The text (or symbol name) `name`.
    pub fn str(&self, name: &str) -> &str {
        match self.attr(name) {
            Some(Attr::Str(v) | Attr::Symbol(v)) => v,
            other => self.wrong(name, "a string", other),
        }
    }

    fn wrong(&self, name: &str, wanted: &str, found: Option<&Attr>) -> ! {
        panic!("{}: attribute '{name}' should be {wanted}, found {found:?}", self.spec.name)
    }

    /// The view with every symbol replaced by its value, so that all sizes are numbers.
    pub fn bind(&self, bindings: &[i64]) -> Result<Self, String> {
        let fix = |e: &Expr| {
            e.eval(bindings)
                .map(Expr::from)
                .ok_or_else(|| format!("{}: the size {e} has no value", self.spec.name))
        };
        let ty = |t: &TensorType| {
            Ok::<_, String>(TensorType {
                dtype: t.dtype,
                shape: t.shape.iter().map(fix).collect::<Result<_, _>>()?,
            })
        };
        Ok(Self {
            spec: self.spec,
            operands: self.operands.iter().map(ty).collect::<Result<_, _>>()?,
            results: self.results.iter().map(ty).collect::<Result<_, _>>()?,
            attrs: self
                .attrs
                .iter()
                .map(|(n, a)| {
                    Ok((
                        n.clone(),
                        match a {
                            Attr::Dims(v) => Attr::Dims(v.iter().map(fix).collect::<Result<_, String>>()?),
                            other => other.clone(),
                        },
                    ))
                })
                .collect::<Result<_, String>>()?,
        })
    }
}
