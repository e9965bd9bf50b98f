//! Named phases: places where a pipeline can be left and entered again. Their passes are those of a whole compilation.

use crate::compile::{self, Options};
use crate::driver::pipeline::{PipelineError, nearest};
use crate::driver::step::{Step, steps};
use crate::target::Target;

/// A phase: its name, and the pipeline that leads to it from the phase before.
#[derive(Clone, Debug)]
pub struct Phase {
    /// Name in `--compile-to` and `--compile-from`.
    pub name: &'static str,
    /// What the IR is then.
    pub summary: &'static str,
    /// The steps from the phase before.
    pub pipeline: String,
}

/// What the IR is at a phase.
fn summary(name: &str) -> &'static str {
    match name {
        "input" => "graph ops as imported",
        "graph" => "composites decomposed, constants folded, repetitions removed",
        "fused" => "an entry function that calls kernel functions",
        "tensor" => "kernel functions in linalg",
        "loop" => "kernel functions as scheduled loop nests",
        "llvm" => "kernels for the code generator",
        _ => "",
    }
}

/// The phases of a target, in order.
pub fn phases(target: &Target) -> Vec<Phase> {
    let input = ("input", String::new());
    let list = std::iter::once(input).chain(compile::phases(&Options::new(target.clone())));
    list.map(|(name, pipeline)| Phase { name, summary: summary(name), pipeline }).collect()
}

/// The steps from a phase (`None`: the input) to another (`None`: the last).
pub fn pipeline(target: &Target, from: Option<&str>, to: Option<&str>) -> Result<Vec<Step>, String> {
    let list = phases(target);
    let find = |name: &str| {
        list.iter().position(|p| p.name == name).ok_or_else(|| {
            let names: Vec<_> = list.iter().map(|p| p.name).collect();
            let close = nearest(name, names.iter().copied());
            let hint = close.first().map(|c| format!("; did you mean {c}?")).unwrap_or_default();
            format!("target {target} has no phase '{name}'{hint} (phases: {})", names.join(", "))
        })
    };
    let from = from.map_or(Ok(0), find)?;
    let to = to.map_or(Ok(list.len() - 1), find)?;
    if to < from {
        return Err(format!("phase '{}' comes before '{}'", list[to].name, list[from].name));
    }
    let text: Vec<_> = list[from + 1..=to].iter().map(|p| p.pipeline.as_str()).filter(|p| !p.is_empty()).collect();
    steps(&text.join(",")).map_err(|e: PipelineError| e.message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::step::pipeline_text;

    fn text(from: Option<&str>, to: Option<&str>) -> Result<String, String> {
        let target: Target = "nvptx:sm_90a".parse().unwrap();
        pipeline(&target, from, to).map(|s| pipeline_text(&s))
    }

    #[test]
    fn every_phase_has_a_summary_and_a_valid_pipeline() {
        for target in ["nvptx:sm_90a"] {
            let target = target.parse().unwrap();
            assert!(phases(&target).iter().all(|p| !p.summary.is_empty()), "{:?}", phases(&target));
            assert!(!pipeline(&target, None, None).unwrap().is_empty());
        }
    }

    #[test]
    fn a_range_of_phases_is_a_pipeline() {
        assert_eq!(text(Some("graph"), Some("fused")).unwrap(), "fuse,outline-kernels");
        assert!(text(Some("fused"), Some("loop")).unwrap().starts_with("graph-to-linalg"));
        assert_eq!(text(Some("fused"), Some("fused")).unwrap(), "");
        assert!(text(None, Some("fuse")).unwrap_err().contains("did you mean fused?"));
        assert!(text(Some("fused"), Some("graph")).unwrap_err().contains("comes before"));
    }
}
