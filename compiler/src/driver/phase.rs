//! Named phases: places where a pipeline can be left and entered again.

use crate::driver::pipeline::{PipelineError, nearest};
use crate::driver::step::{Step, steps};
use crate::target::Target;
use strata_runtime::plan::DeviceKind;

/// A phase: its name, and the pipeline that leads to it from the phase before.
#[derive(Clone, Copy, Debug)]
pub struct Phase {
    /// Name in `--compile-to` and `--compile-from`.
    pub name: &'static str,
    /// What the IR is then.
    pub summary: &'static str,
    /// The steps from the phase before.
    pub pipeline: &'static str,
}

const fn phase(name: &'static str, summary: &'static str, pipeline: &'static str) -> Phase {
    Phase { name, summary, pipeline }
}

const INPUT: Phase = phase("input", "graph ops as imported", "");
const GRAPH: Phase = phase(
    "graph",
    "composites decomposed, products and convolutions as libraries take them with their biases, constants folded, repetitions removed, no checks of indices that are known to be inside, few long rows reduced in parts (CPU)",
    "decompose-composites,legalize-library-calls,canonicalize,cse,drop-index-checks,fuse-epilogues,widen-sums,split-reductions",
);
const FUSED: Phase = phase("fused", "an entry function that calls kernel functions", "fuse,outline-kernels");
const TENSOR: Phase = phase("tensor", "kernels as linalg on tensors", "graph-to-linalg,cse");
const LOOP: Phase =
    phase("loop", "kernels as scheduled loops on memrefs", "linalg-to-loops,canonicalize,cse");
const GPU_LLVM: Phase =
    phase("llvm", "kernels as gpu modules with hardware math", "loop-to-gpu,math-to-nvvm");
const CPU_LLVM: Phase = phase("llvm", "kernels as functions of the LLVM dialect", "loop-to-cpu,expand-math");

static CPU: &[Phase] = &[INPUT, GRAPH, FUSED, TENSOR, LOOP, CPU_LLVM];
static GPU: &[Phase] = &[INPUT, GRAPH, FUSED, TENSOR, LOOP, GPU_LLVM];

/// The phases of a target, in order.
pub fn phases(target: &Target) -> &'static [Phase] {
    match target.device() {
        DeviceKind::Cpu => CPU,
        DeviceKind::Cuda => GPU,
    }
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
    let text: Vec<_> = list[from + 1..=to].iter().map(|p| p.pipeline).filter(|p| !p.is_empty()).collect();
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
    fn every_phase_has_a_valid_pipeline() {
        for target in ["cpu", "nvptx:sm_90a"] {
            assert!(!pipeline(&target.parse().unwrap(), None, None).unwrap().is_empty());
        }
    }

    #[test]
    fn a_range_of_phases_is_a_pipeline() {
        assert_eq!(text(Some("graph"), Some("fused")).unwrap(), "fuse,outline-kernels");
        assert_eq!(text(Some("fused"), Some("fused")).unwrap(), "");
        assert!(text(None, Some("fuse")).unwrap_err().contains("did you mean fused?"));
        assert!(text(Some("fused"), Some("graph")).unwrap_err().contains("comes before"));
    }
}
