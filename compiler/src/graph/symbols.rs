//! The symbols of a function: the attribute `graph.symbols`.

use melior::Context;
use melior::ir::attribute::{ArrayAttribute, DictionaryAttribute, IntegerAttribute, StringAttribute};
use melior::ir::operation::OperationLike;
use melior::ir::r#type::IntegerType;
use melior::ir::{Attribute, Identifier};
use strata_runtime::sym::{Expr, Symbol};

/// The name of the attribute.
pub const ATTRIBUTE: &str = "graph.symbols";

/// A symbol of a function, with its definition where it stands for an expression over earlier symbols.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionSymbol {
    /// Name, range, divisor, hint.
    pub info: Symbol,
    /// What it stands for, where it is no input size.
    pub definition: Option<Expr>,
}

/// The symbols of a function, in order. A function without the attribute has none.
pub fn read<'c: 'a, 'a>(function: &impl OperationLike<'c, 'a>) -> Result<Vec<FunctionSymbol>, String> {
    let Ok(attribute) = function.attribute(ATTRIBUTE) else { return Ok(vec![]) };
    let list = ArrayAttribute::try_from(attribute).map_err(|_| format!("{ATTRIBUTE} is not a list"))?;
    (0..list.len())
        .map(|i| {
            let entry = list.element(i).map_err(|e| e.to_string())?;
            let entry = DictionaryAttribute::try_from(entry)
                .map_err(|_| format!("{ATTRIBUTE}[{i}] is not a dictionary"))?;
            let number = |key: &str| {
                entry.element_by_name(key).and_then(|a| IntegerAttribute::try_from(a).ok()).map(|a| a.value())
            };
            let name = entry.element_by_name("name").and_then(|a| StringAttribute::try_from(a).ok());
            let info = Symbol {
                name: name.map_or_else(|| format!("s{i}"), |s| s.value().to_owned()),
                min: number("min").unwrap_or(0),
                max: number("max").unwrap_or(i64::MAX),
                divisor: number("divisor").unwrap_or(1).max(1),
                hint: number("hint"),
            };
            let definition = match entry.element_by_name("def") {
                None => None,
                Some(a) => {
                    let text = StringAttribute::try_from(a)
                        .map_err(|_| format!("{ATTRIBUTE}[{i}]: def is not a string"))?;
                    let expr: Expr =
                        text.value().parse().map_err(|e| format!("{ATTRIBUTE}[{i}]: def: {e}"))?;
                    Some(expr)
                }
            };
            Ok(FunctionSymbol { info, definition })
        })
        .collect()
}

/// The attribute for a list of symbols; keys with default values are left out.
pub fn attribute<'c>(context: &'c Context, symbols: &[FunctionSymbol]) -> Attribute<'c> {
    let int = |v: i64| IntegerAttribute::new(IntegerType::new(context, 64).into(), v).into();
    let entries: Vec<Attribute> = symbols
        .iter()
        .map(|s| {
            let mut pairs: Vec<(Identifier, Attribute)> = Vec::new();
            let mut add = |key: &str, value| pairs.push((Identifier::new(context, key), value));
            if let Some(d) = &s.definition {
                add("def", StringAttribute::new(context, &d.to_string()).into());
            }
            if s.info.divisor != 1 {
                add("divisor", int(s.info.divisor));
            }
            if let Some(hint) = s.info.hint {
                add("hint", int(hint));
            }
            if s.info.max != i64::MAX {
                add("max", int(s.info.max));
            }
            if s.info.min != 0 {
                add("min", int(s.info.min));
            }
            add("name", StringAttribute::new(context, &s.info.name).into());
            DictionaryAttribute::new(context, &pairs).into()
        })
        .collect();
    ArrayAttribute::new(context, &entries).into()
}
