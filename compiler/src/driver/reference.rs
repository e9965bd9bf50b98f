//! The reference page of the graph dialect, made from the op table; the examples are those of the dialect's own lit test.

use std::fmt::Write;
use strata_dialects::ops::THEMES;
use strata_dialects::{Lowering, OpSpec};

/// Where examples come from: a program that the tests parse, verify and print.
const EXAMPLES: &str = include_str!("../../../lit-tests/graph/ops.mlir");

/// The first line of the examples that holds the op.
pub fn example(op: &OpSpec) -> Option<&'static str> {
    let is_op = |line: &&str| {
        let op_at = line.find(op.name);
        op_at.is_some_and(|at| {
            line[at + op.name.len()..].starts_with([' ', '(']) && !line.trim_start().starts_with("//")
        })
    };
    EXAMPLES.lines().find(is_op).map(str::trim)
}

/// The page.
pub fn graph_page() -> String {
    let mut out = String::from(
        "# The graph dialect\n\nPure tensor programs with symbolic dimensions. This page is made from the op table by\n\
         `strata opt --list-ops --markdown`; do not edit it.\n\n\
         Every op rounds its results to their element type. Constraints carry the labels that diagnostics show, `[C1]`; `[type]` means\n\
         that the stated result type is not the inferred one. Programs and their symbols: see `ARCHITECTURE.md`.\n",
    );
    for (theme, rows) in THEMES {
        let links: Vec<_> =
            rows.iter().map(|r| format!("[{}](#graph{})", r.mnemonic(), anchor(r.mnemonic()))).collect();
        let _ = write!(out, "\n* **{theme}**: {}", links.join(", "));
    }
    out.push('\n');
    for (theme, rows) in THEMES {
        let _ = write!(out, "\n## {}\n", capitalised(theme));
        for row in *rows {
            section(&mut out, row);
        }
    }
    out
}

fn anchor(mnemonic: &str) -> String {
    mnemonic.replace('.', "")
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |c| c.to_uppercase().chain(chars).collect())
}

fn section(out: &mut String, row: &OpSpec) {
    let _ = write!(out, "\n### {}\n\n{}\n", row.name, row.semantics);
    if let Some(line) = example(row) {
        let _ = write!(out, "\n```mlir\n{line}\n```\n");
    }
    let counterpart = |dialect: &str, name: Option<&str>| name.map(|n| format!("{dialect}: `{n}`"));
    let lowering = match row.lowering {
        Lowering::Pointwise { .. } => "pointwise",
        Lowering::Structural => "structural",
        Lowering::Composite(_) => "composite",
        Lowering::Plan => "part of the plan",
    };
    let facts: Vec<_> = [
        counterpart("StableHLO", row.stablehlo),
        counterpart("ATen", row.aten),
        Some(format!("lowering: {lowering}")),
    ]
    .into_iter()
    .flatten()
    .collect();
    let _ = write!(out, "\n{}.\n", facts.join(" · "));
    if !row.constraints.is_empty() {
        out.push('\n');
        for c in row.constraints {
            let _ = writeln!(out, "* {}: {}.", c.0, c.1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_op_has_an_example() {
        let missing: Vec<_> = strata_dialects::ops::all().filter(|op| example(op).is_none()).collect();
        assert!(missing.is_empty(), "add them to lit-tests/graph/ops.mlir: {missing:?}");
    }

    #[test]
    fn the_committed_page_is_up_to_date() {
        let committed = include_str!("../../../docs/dialects/graph.md");
        assert!(committed == graph_page(), "run: strata opt --list-ops --markdown > docs/dialects/graph.md");
    }
}
