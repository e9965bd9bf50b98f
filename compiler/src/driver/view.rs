//! `--view=FILE.svg`: a picture of every function: a box an op, in layers from the arguments down, coloured by kernel. The entry function
//! comes first, kernels stand beside each other below it.

use crate::graph::KERNEL;
use crate::ir;
use melior::ir::operation::{OperationLike, OperationPrintingFlags, OperationRef};
use melior::ir::{BlockLike, Module, Type, Value, ValueLike};
use std::collections::BTreeMap;
use std::fmt::Write;
use strata_dialects::TensorType;

const HEIGHT: i64 = 38;
const GAP: (i64, i64) = (16, 28);
const LETTER: i64 = 7;
/// Kernels stand beside each other up to this width.
const PAGE: i64 = 1600;
/// Most characters of a line in a box.
const LINE: usize = 36;
/// Passes over the layers that straighten edges.
const SWEEPS: usize = 12;
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
    let (mut body, mut page, mut bottom) = (String::new(), 200, 10);
    let (mut left, mut top) = (0, 10);
    for function in ir::functions(module) {
        let mut nodes = nodes(function);
        let name = format!("@{}", ir::symbol_name(&function));
        let width = place(&mut nodes).max(LETTER * name.chars().count() as i64 + 20) + GAP.0;
        if left > 0 && left + width > PAGE {
            (left, top) = (0, bottom + GAP.1);
        }
        let _ = writeln!(
            body,
            "<g transform=\"translate({left} {top})\">\n<text x=\"10\" y=\"14\" font-weight=\"bold\">{}</text>",
            escape(&name)
        );
        draw(&mut body, &nodes, 24);
        body += "</g>\n";
        let layers = nodes.iter().map(|n| n.layer + 1).max().unwrap_or(0) as i64;
        bottom = bottom.max(top + 24 + layers * (HEIGHT + GAP.1));
        left += width;
        page = page.max(left);
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{page}\" height=\"{bottom}\" font-family=\"monospace\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{body}</svg>\n"
    )
}

fn nodes<'c>(function: OperationRef<'c, '_>) -> Vec<Node> {
    let Some(block) = ir::body(&function) else { return Vec::new() };
    let mut at: BTreeMap<usize, usize> = BTreeMap::new();
    let mut nodes: Vec<Node> = Vec::new();
    let key = |v: Value<'c, '_>| v.to_raw().ptr as usize;
    let plain = if function.has_attribute(KERNEL) { colour(&ir::symbol_name(&function)) } else { "#f4f4f4" };
    for i in 0..block.argument_count() {
        let Ok(argument) = block.argument(i) else { continue };
        at.insert(key(argument.into()), nodes.len());
        nodes.push(Node {
            label: format!("argument {i}"),
            detail: short(argument.r#type()),
            colour: "#ffffff",
            from: Vec::new(),
            layer: 0,
            x: 0,
        });
    }
    for op in ir::ops(block) {
        let from: Vec<usize> = op.operands().filter_map(|v| at.get(&key(v)).copied()).collect();
        let layer = from.iter().map(|&n| nodes[n].layer + 1).max().unwrap_or(0);
        let results: Vec<_> = op.results().map(|r| short(r.r#type())).collect();
        for i in 0..op.result_count() {
            if let Ok(result) = op.result(i) {
                at.insert(key(result.into()), nodes.len());
            }
        }
        let group = op.attribute("graph.group").ok().map(|a| a.to_string());
        let callee = op.attribute("callee").ok().map(|a| a.to_string());
        let kernel = group.as_deref().or(callee.as_deref());
        nodes.push(Node {
            label: label(op),
            detail: cut(&results.join(", ")),
            colour: kernel.map_or(plain, colour),
            from,
            layer,
            x: 0,
        });
    }
    lower(&mut nodes);
    nodes
}

/// Every node stands just above its first reader: arguments, constants and their broadcasts are not all on top.
fn lower(nodes: &mut [Node]) {
    let mut readers = vec![usize::MAX; nodes.len()];
    for i in (0..nodes.len()).rev() {
        if readers[i] != usize::MAX {
            nodes[i].layer = readers[i] - 1;
        }
        for &f in &nodes[i].from {
            readers[f] = readers[f].min(nodes[i].layer);
        }
    }
}

/// What an op is, without operands and types: `reduce max dims = [1]`.
fn label(op: OperationRef<'_, '_>) -> String {
    let name = ir::name(&op);
    let flags = OperationPrintingFlags::new().elide_large_elements_attributes(4);
    let text = op.to_string_with_flags(flags).unwrap_or_default();
    let after = text.split_once(name).map_or("", |(_, rest)| rest.lines().next().unwrap_or(""));
    // What the colour says already.
    let (before, group) = after.split_once(" {graph.group = ").unwrap_or((after, ""));
    let after = format!("{before}{}", group.split_once('}').map_or("", |(_, rest)| rest));
    let end = [" : ", " ins(", " {", " symbols = "].iter().filter_map(|e| after.find(e)).min();
    let words = after[..end.unwrap_or(after.len())].split_whitespace();
    // A call's operands stick to its name.
    let words = words.map(|w| w.split_once("(%").map_or(w, |(callee, _)| callee));
    let kept: Vec<_> = words.filter(|w| !w.starts_with('%') && !w.starts_with("dense_resource")).collect();
    cut(format!("{} {}", name.trim_start_matches("graph."), kept.join(" ")).trim_end())
}

/// One colour a kernel, by the number in its name.
fn colour(kernel: &str) -> &'static str {
    let digits: String =
        kernel.chars().skip_while(|c| !c.is_ascii_digit()).take_while(char::is_ascii_digit).collect();
    COLOURS[digits.parse::<usize>().unwrap_or(0) % COLOURS.len()]
}

/// A type without what its readers know: `4x8xf32`, with the names of symbols where sizes are symbolic.
fn short(ty: Type<'_>) -> String {
    match TensorType::from_mlir(ty) {
        Ok(ty) => {
            let sizes: String = ty.shape.iter().map(|e| format!("{e}x")).collect();
            cut(&format!("{sizes}{}", ty.dtype))
        }
        Err(_) => cut(&ty.to_string()),
    }
}

/// At most a line.
fn cut(text: &str) -> String {
    if text.chars().count() <= LINE {
        return text.to_owned();
    }
    text.chars().take(LINE - 1).chain(['…']).collect()
}

/// Gives every node its place in its layer, near what it reads and what reads it, without overlaps. The result is the width.
fn place(nodes: &mut [Node]) -> i64 {
    let layers = nodes.iter().map(|n| n.layer + 1).max().unwrap_or(0);
    let mut readers = vec![Vec::new(); nodes.len()];
    for (i, node) in nodes.iter().enumerate() {
        node.from.iter().for_each(|&f| readers[f].push(i));
    }
    let rows: Vec<Vec<usize>> =
        (0..layers).map(|l| (0..nodes.len()).filter(|&i| nodes[i].layer == l).collect()).collect();
    for row in &rows {
        spread(nodes, row.iter().map(|&i| (0, i)).collect());
    }
    for sweep in 0..SWEEPS {
        let down = sweep % 2 == 0;
        for k in 0..layers {
            let row = &rows[if down { k } else { layers - 1 - k }];
            let wishes = row.iter().map(|&i| {
                let (first, second) =
                    if down { (&nodes[i].from, &readers[i]) } else { (&readers[i], &nodes[i].from) };
                let near = if first.is_empty() { second } else { first };
                let middles = near.iter().map(|&n| nodes[n].x + nodes[n].width() / 2).sum::<i64>();
                let middle = middles.checked_div(near.len() as i64);
                (middle.map_or(nodes[i].x, |m| m - nodes[i].width() / 2), i)
            });
            let wishes = wishes.collect();
            spread(nodes, wishes);
        }
    }
    let left = nodes.iter().map(|n| n.x).min().unwrap_or(0);
    nodes.iter_mut().for_each(|n| n.x += 10 - left);
    nodes.iter().map(|n| n.x + n.width()).max().unwrap_or(0) + 10
}

/// Sets the places of a row as near to what is wished as its boxes allow.
fn spread(nodes: &mut [Node], mut wishes: Vec<(i64, usize)>) {
    wishes.sort();
    let (mut free, mut moved) = (i64::MIN, 0);
    for &(wish, i) in &wishes {
        nodes[i].x = wish.max(free);
        moved += nodes[i].x - wish;
        free = nodes[i].x + nodes[i].width() + GAP.0;
    }
    // Boxes were only moved to the right; on average they stay where they wish to be.
    let back = moved.checked_div(wishes.len() as i64).unwrap_or(0);
    wishes.iter().for_each(|&(_, i)| nodes[i].x -= back);
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
        assert_eq!(nodes[2].label, "add");
        assert!(nodes[0].x + nodes[0].width() < nodes[1].x);
        assert_ne!(nodes[2].colour, nodes[3].colour);
        let svg = module_svg(&module);
        assert_eq!(svg.matches("<rect x=").count(), 6);
        assert_eq!(svg.matches("<path").count(), 6);
    }
}
