//! `--view=FILE.svg`: a picture of every function: a box an op, in layers from the arguments down, coloured by kernel.

use crate::ir;
use melior::ir::operation::{OperationLike, OperationRef};
use melior::ir::{BlockLike, Module, Value, ValueLike};
use std::collections::BTreeMap;
use std::fmt::Write;

const HEIGHT: i64 = 38;
const GAP: (i64, i64) = (16, 40);
const LETTER: i64 = 7;
const COLOURS: [&str; 8] =
    ["#cfe3f7", "#d6efcf", "#fbe3c0", "#e8d5f2", "#f8d3d3", "#d0efef", "#f3f0bd", "#dedede"];

struct Node {
    label: String,
    detail: String,
    colour: &'static str,
    from: Vec<usize>,
    layer: usize,
    x: i64,
}

impl Node {
    fn width(&self) -> i64 {
        LETTER * self.label.chars().count().max(self.detail.chars().count()) as i64 + 16
    }
}

/// The picture of a program's text.
pub fn svg(text: &str) -> Result<String, String> {
    let context = strata_dialects::context();
    let module = strata_dialects::tool::parse_module(&context, text.as_bytes(), "result")
        .ok_or("error: --view: the result cannot be parsed again")?;
    Ok(module_svg(&module))
}

/// The picture of a module.
pub fn module_svg(module: &Module<'_>) -> String {
    let (mut body, mut width, mut top) = (String::new(), 200, 10);
    for function in ir::functions(module) {
        let mut nodes = nodes(function);
        let w = place(&mut nodes);
        let _ = writeln!(
            body,
            "<text x=\"10\" y=\"{}\" font-weight=\"bold\">@{}</text>",
            top + 14,
            escape(&ir::symbol_name(&function))
        );
        top += 24;
        draw(&mut body, &nodes, top);
        let layers = nodes.iter().map(|n| n.layer + 1).max().unwrap_or(0) as i64;
        top += layers * (HEIGHT + GAP.1);
        width = width.max(w + 20);
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{top}\" font-family=\"monospace\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{body}</svg>\n"
    )
}

fn nodes<'c>(function: OperationRef<'c, '_>) -> Vec<Node> {
    let Some(block) = ir::body(&function) else { return Vec::new() };
    let mut at: BTreeMap<usize, usize> = BTreeMap::new();
    let mut nodes: Vec<Node> = Vec::new();
    let key = |v: Value<'c, '_>| v.to_raw().ptr as usize;
    for i in 0..block.argument_count() {
        let Ok(argument) = block.argument(i) else { continue };
        at.insert(key(argument.into()), nodes.len());
        nodes.push(Node {
            label: format!("argument {i}"),
            detail: short(&argument.r#type().to_string()),
            colour: "#ffffff",
            from: Vec::new(),
            layer: 0,
            x: 0,
        });
    }
    for op in ir::ops(block) {
        let from: Vec<usize> = op.operands().filter_map(|v| at.get(&key(v)).copied()).collect();
        let layer = from.iter().map(|&n| nodes[n].layer + 1).max().unwrap_or(0);
        let detail = op.result(0).map_or(String::new(), |r| short(&r.r#type().to_string()));
        for i in 0..op.result_count() {
            if let Ok(result) = op.result(i) {
                at.insert(key(result.into()), nodes.len());
            }
        }
        let group = op.attribute("graph.group").ok().map(|a| a.to_string());
        let callee = op.attribute("callee").ok().map(|a| a.to_string());
        let label = format!(
            "{}{}",
            ir::name(&op).trim_start_matches("graph."),
            callee.clone().map(|c| format!(" {c}")).unwrap_or_default()
        );
        let kernel = group.as_deref().or(callee.as_deref());
        nodes.push(Node { label, detail, colour: kernel.map_or("#f4f4f4", colour), from, layer, x: 0 });
    }
    nodes
}

/// One colour a kernel, by the number in its name.
fn colour(kernel: &str) -> &'static str {
    let digits: String =
        kernel.chars().skip_while(|c| !c.is_ascii_digit()).take_while(char::is_ascii_digit).collect();
    COLOURS[digits.parse::<usize>().unwrap_or(0) % COLOURS.len()]
}

/// A type without what its readers know: `tensor<4x8xf32>` is `4x8xf32`, encodings are left out.
fn short(ty: &str) -> String {
    let inner = ty.strip_prefix("tensor<").and_then(|t| t.strip_suffix('>')).unwrap_or(ty);
    let mut text: String = inner.split(", #").next().unwrap_or(inner).chars().take(28).collect();
    if text.len() < inner.split(", #").next().unwrap_or(inner).len() {
        text.push('…');
    }
    text
}

/// Gives every node its place in its layer: where its operands are on average, without overlaps. The result is the width.
fn place(nodes: &mut [Node]) -> i64 {
    let layers = nodes.iter().map(|n| n.layer + 1).max().unwrap_or(0);
    let mut width = 0;
    for layer in 0..layers {
        let mut row: Vec<(i64, usize)> = (0..nodes.len())
            .filter(|&i| nodes[i].layer == layer)
            .map(|i| {
                let from = &nodes[i].from;
                let middle = |&f: &usize| nodes[f].x + nodes[f].width() / 2;
                let wish = from.iter().map(middle).sum::<i64>().checked_div(from.len() as i64);
                (wish.unwrap_or(0) - nodes[i].width() / 2, i)
            })
            .collect();
        row.sort();
        let mut free = 10;
        for (wish, i) in row {
            nodes[i].x = wish.max(free);
            free = nodes[i].x + nodes[i].width() + GAP.0;
        }
        width = width.max(free);
    }
    width
}

fn draw(out: &mut String, nodes: &[Node], top: i64) {
    let y = |layer: usize| top + layer as i64 * (HEIGHT + GAP.1);
    for node in nodes {
        for &f in &node.from {
            let (x1, y1) = (nodes[f].x + nodes[f].width() / 2, y(nodes[f].layer) + HEIGHT);
            let (x2, y2) = (node.x + node.width() / 2, y(node.layer));
            let bend = (y2 - y1) / 2;
            let _ = writeln!(
                out,
                "<path d=\"M{x1} {y1} C{x1} {} {x2} {} {x2} {y2}\" fill=\"none\" stroke=\"#888\"/>",
                y1 + bend,
                y2 - bend
            );
        }
    }
    for node in nodes {
        let (x, y, w) = (node.x, y(node.layer), node.width());
        let _ = writeln!(
            out,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{HEIGHT}\" rx=\"5\" fill=\"{}\" stroke=\"#555\"/>\n\
             <text x=\"{}\" y=\"{}\">{}</text>\n<text x=\"{}\" y=\"{}\" fill=\"#555\">{}</text>",
            node.colour,
            x + 8,
            y + 15,
            escape(&node.label),
            x + 8,
            y + 30,
            escape(&node.detail)
        );
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_do_not_overlap_and_edges_go_down() {
        let context = strata_dialects::context();
        let text = "func.func @f(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
            %0 = graph.add %a, %b {graph.group = 0 : i64} : tensor<4xf32>
            %1 = graph.exp %0 {graph.group = 1 : i64} : tensor<4xf32>
            %2 = graph.mul %0, %1 : tensor<4xf32>
            return %2 : tensor<4xf32>
        }";
        let module = strata_dialects::tool::parse_module(&context, text.as_bytes(), "t").unwrap();
        let mut nodes = nodes(ir::functions(&module)[0]);
        place(&mut nodes);
        assert_eq!(nodes.iter().map(|n| n.layer).collect::<Vec<_>>(), [0, 0, 1, 2, 3, 4]);
        assert!(nodes[0].x + nodes[0].width() < nodes[1].x);
        assert_ne!(nodes[2].colour, nodes[3].colour);
        let svg = module_svg(&module);
        assert_eq!(svg.matches("<rect x=").count(), 6);
        assert_eq!(svg.matches("<path").count(), 6);
    }
}
