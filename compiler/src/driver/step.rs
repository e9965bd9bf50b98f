//! Steps: what a pipeline becomes, one pass each, numbered from 1.

use crate::driver::pass::Pass;
use crate::driver::pipeline::{Element, PipelineError, nearest, options, parse};
use crate::driver::{registry, upstream};
use std::collections::BTreeMap;
use std::fmt;

/// One step of a pipeline.
#[derive(Clone)]
pub struct Step {
    /// The pass's name.
    pub name: String,
    /// The ops that enclose it in the pipeline, outermost first, without the module itself.
    pub anchors: Vec<String>,
    /// What runs.
    pub kind: StepKind,
}

/// What a step runs.
#[derive(Clone)]
pub enum StepKind {
    /// A pass of Strata's own, with every declared option.
    Own(&'static Pass, BTreeMap<String, String>),
    /// An upstream pass, run by a pass manager of its own: the text of its options.
    Upstream(String),
}

impl Step {
    /// The pass with its options, without anchors. Options at their defaults are left out.
    fn leaf(&self) -> String {
        let options = match &self.kind {
            StepKind::Upstream(options) => options.clone(),
            StepKind::Own(pass, values) => {
                let differs =
                    |o: &&crate::driver::pass::PassOption| values.get(o.name).is_some_and(|v| v != o.default);
                let list = pass.options.iter().filter(differs);
                list.map(|o| format!("{}={}", o.name, quoted(&values[o.name]))).collect::<Vec<_>>().join(" ")
            }
        };
        if options.is_empty() { self.name.clone() } else { format!("{}{{{options}}}", self.name) }
    }

    /// The step as a pipeline for the whole module: `func.func(cse)`.
    pub fn text(&self) -> String {
        self.anchors.iter().rev().fold(self.leaf(), |inner, op| format!("{op}({inner})"))
    }

    /// Whether the pass is Strata's own.
    pub fn is_own(&self) -> bool {
        matches!(self.kind, StepKind::Own(..))
    }
}

fn quoted(value: &str) -> String {
    if value.contains(char::is_whitespace) { format!("\"{value}\"") } else { value.to_owned() }
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

/// The pipeline of some steps, as `--passes=` takes it.
pub fn pipeline_text(steps: &[Step]) -> String {
    steps.iter().map(Step::text).collect::<Vec<_>>().join(",")
}

/// The steps of a pipeline's text. Errors: bad syntax, an unknown pass, an unknown option, an own pass below the module.
pub fn steps(text: &str) -> Result<Vec<Step>, PipelineError> {
    let mut out = Vec::new();
    collect(&parse(text)?, &mut Vec::new(), &mut out)?;
    Ok(out)
}

fn collect(
    elements: &[Element],
    anchors: &mut Vec<String>,
    out: &mut Vec<Step>,
) -> Result<(), PipelineError> {
    for element in elements {
        match element {
            Element::Anchor { op, elements } => {
                anchors.push(op.clone());
                collect(elements, anchors, out)?;
                anchors.pop();
            }
            Element::Pass { name, options, at } => out.push(step(name, options, *at, anchors)?),
        }
    }
    Ok(())
}

fn step(name: &str, text: &str, at: usize, anchors: &[String]) -> Result<Step, PipelineError> {
    let fail = |message: String| Err(PipelineError::new(message, at));
    let made = |kind| Ok(Step { name: name.to_owned(), anchors: anchors.to_vec(), kind });
    if let Some(pass) = registry::lookup(name) {
        if let Some(op) = anchors.last() {
            return fail(format!(
                "the pass '{name}' works on the whole module; write it outside of '{op}(…)'"
            ));
        }
        return match own_options(pass, text) {
            Ok(values) => made(StepKind::Own(pass, values)),
            Err(message) => fail(message),
        };
    }
    let Some(known) = upstream::lookup(name) else {
        let names = registry::PASSES.iter().map(|p| p.name).chain(upstream::all().map(|p| p.name));
        return fail(unknown_pass(name, names));
    };
    let given = match options(text) {
        Ok(given) => given,
        Err(message) => return fail(message),
    };
    for (key, _) in given {
        if !known.options.contains(&key.as_str()) {
            return fail(unknown_option(name, &key, &known.options));
        }
    }
    made(StepKind::Upstream(text.to_owned()))
}

fn own_options(pass: &Pass, text: &str) -> Result<BTreeMap<String, String>, String> {
    let mut values: BTreeMap<String, String> =
        pass.options.iter().map(|o| (o.name.to_owned(), o.default.to_owned())).collect();
    for (key, value) in options(text)? {
        match values.get_mut(&key) {
            Some(slot) => *slot = value,
            None => {
                let known: Vec<_> = pass.options.iter().map(|o| o.name).collect();
                return Err(unknown_option(pass.name, &key, &known));
            }
        }
    }
    Ok(values)
}

/// What is said of a name that none of `names` is.
pub fn unknown_pass(name: &str, names: impl Iterator<Item = &'static str>) -> String {
    let close = nearest(name, names);
    let hint = if close.is_empty() {
        "`strata opt --list-passes` lists the passes".to_owned()
    } else {
        format!("did you mean {}?", close.join(", "))
    };
    format!("unknown pass '{name}'; {hint}")
}

/// What is said of an option that a pass does not have.
pub fn unknown_option(pass: &str, key: &str, known: &[&str]) -> String {
    let known =
        if known.is_empty() { "it has none".to_owned() } else { format!("known: {}", known.join(", ")) };
    format!("the pass '{pass}' has no option '{key}'; {known}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_single_passes_with_their_anchors() {
        let list = steps("builtin.module(func.func(cse,canonicalize{max-iterations=3}),symbol-dce)").unwrap();
        let text: Vec<_> = list.iter().map(Step::text).collect();
        assert_eq!(text, ["func.func(cse)", "func.func(canonicalize{max-iterations=3})", "symbol-dce"]);
        assert_eq!(steps(&pipeline_text(&list)).unwrap().len(), 3);
    }

    #[test]
    fn own_options_have_defaults() {
        let list = steps("test-fail,test-fail{message=\"x y\"}").unwrap();
        let StepKind::Own(_, values) = &list[0].kind else { panic!("an own pass") };
        assert_eq!(values["message"], "test-fail fails");
        assert_eq!(list[0].text(), "test-fail");
        assert_eq!(list[1].text(), "test-fail{message=\"x y\"}");
    }

    #[test]
    fn errors_name_what_is_known() {
        let message = |text| steps(text).unwrap_err().message;
        assert_eq!(message("canonicalise"), "unknown pass 'canonicalise'; did you mean canonicalize?");
        assert_eq!(
            message("qqqqqqqq"),
            "unknown pass 'qqqqqqqq'; `strata opt --list-passes` lists the passes"
        );
        assert_eq!(message("test-fail{text=1}"), "the pass 'test-fail' has no option 'text'; known: message");
        assert!(message("canonicalize{nope=1}").contains("no option 'nope'; known: disable-patterns"));
        assert_eq!(
            message("func.func(test-fail)"),
            "the pass 'test-fail' works on the whole module; write it outside of 'func.func(…)'"
        );
    }
}
