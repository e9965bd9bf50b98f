//! Reading the text form of plans.

use super::lexer::{Lexer, Token};
use super::*;
use crate::error::{Error, Result};
use std::str::FromStr;

impl FromStr for Plan {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        parse(text)
    }
}

/// The plan that a text describes. The plan is not verified.
pub fn parse(text: &str) -> Result<Plan> {
    let mut p = Lexer::new(text)?;
    p.expect_word("plan")?;
    let name = p.name("@")?;
    p.expect_word("on")?;
    let device = if p.accept_word("cpu") {
        DeviceKind::Cpu
    } else if p.accept_word("cuda") {
        DeviceKind::Cuda
    } else {
        return Err(p.error("a device, 'cpu' or 'cuda'"));
    };
    p.expect("{")?;
    let mut plan = Plan {
        name,
        device,
        symbols: Vec::new(),
        inputs: Vec::new(),
        outputs: Vec::new(),
        buffers: Vec::new(),
        kernels: Vec::new(),
        arena: Expr::default(),
        steps: Vec::new(),
    };
    while !p.accept("}") {
        item(&mut p, &mut plan)?;
    }
    match p.peek() {
        Token::End => Ok(plan),
        _ => Err(p.error("the end of the text")),
    }
}

fn item(p: &mut Lexer, plan: &mut Plan) -> Result<()> {
    let Token::Word(word) = p.peek().clone() else {
        return Err(p.error("a line of the plan, or '}'"));
    };
    let known = "symbol, input, output, buffer, arena, kernel, launch, product, convolution, copy, host";
    if !known.split(", ").any(|k| k == word) {
        return Err(p.error(format_args!("one of {known}")));
    }
    p.next();
    match word.as_str() {
        "symbol" => {
            expect_id(p, 's', plan.symbols.len())?;
            plan.symbols.push(symbol(p)?);
        }
        "input" => {
            let name = p.name("%")?;
            p.expect("=")?;
            plan.inputs.push(Input { name, buffer: buffer_id(p)? });
        }
        "output" => {
            let name = p.name("%")?;
            p.expect("=")?;
            plan.outputs.push(Output { name, buffer: buffer_id(p)? });
        }
        "buffer" => {
            expect_id(p, 'b', plan.buffers.len())?;
            p.expect(":")?;
            plan.buffers.push(buffer(p)?);
        }
        "arena" => {
            plan.arena = p.expr()?;
            p.expect_word("bytes")?;
        }
        "kernel" => {
            expect_id(p, 'k', plan.kernels.len())?;
            p.expect("=")?;
            plan.kernels.push(kernel(p)?);
        }
        "launch" => plan.steps.push(launch(p)?),
        "product" => plan.steps.push(Step::Product(product(p)?)),
        "convolution" => plan.steps.push(Step::Convolution(convolution(p)?)),
        "copy" => {
            let from = buffer_id(p)?;
            p.expect("->")?;
            plan.steps.push(Step::Copy { from, to: buffer_id(p)? });
        }
        _ => plan.steps.push(Step::HostCall(host_call(p)?)),
    }
    Ok(())
}

/// Definitions are numbered in order; a gap would change what the numbers mean.
fn expect_id(p: &mut Lexer, letter: char, number: usize) -> Result<()> {
    let here = p.error(format_args!("{letter}{number}: definitions are numbered in order"));
    if p.numbered(letter, "a number")? as usize == number { Ok(()) } else { Err(here) }
}

fn buffer_id(p: &mut Lexer) -> Result<BufferId> {
    p.numbered('b', "a buffer such as b0").map(BufferId)
}

fn exprs(p: &mut Lexer, open: &str, close: &str) -> Result<Vec<Expr>> {
    p.list(open, close, Lexer::expr)
}

fn loc(p: &mut Lexer) -> Result<String> {
    if !p.accept_word("loc") {
        return Ok(String::new());
    }
    p.expect("(")?;
    let text = p.text("a location in quotes")?;
    p.expect(")")?;
    Ok(text)
}

fn symbol(p: &mut Lexer) -> Result<PlanSymbol> {
    let name = p.text("the symbol's name in quotes")?;
    p.expect_word("in")?;
    p.expect("[")?;
    let min = p.integer("the smallest value")?;
    p.expect(",")?;
    let max = if p.accept_word("inf") { i64::MAX } else { p.integer("the largest value, or inf")? };
    p.expect("]")?;
    let divisor = if p.accept_word("step") { p.integer("a divisor")? } else { 1 };
    let hint = if p.accept_word("hint") { Some(p.integer("a typical value")?) } else { None };
    p.expect("=")?;
    let of_input = |p: &mut Lexer| -> Result<(u32, u32)> {
        let dim = p.unsigned("a dimension")?;
        p.expect_word("of")?;
        p.expect_word("input")?;
        Ok((p.unsigned("the number of an input")?, dim))
    };
    let binding = if p.accept_word("dim") {
        let (input, dim) = of_input(p)?;
        Binding::InputDim { input, dim }
    } else if p.accept_word("stride") {
        let (input, dim) = of_input(p)?;
        Binding::InputStride { input, dim }
    } else if p.accept_word("scalar") {
        Binding::Scalar(p.unsigned("the number of an argument")?)
    } else {
        Binding::Defined(p.expr()?)
    };
    Ok(PlanSymbol { info: Symbol { name, min, max, divisor, hint }, binding })
}

fn buffer(p: &mut Lexer) -> Result<Buffer> {
    let here = p.error(format_args!("an element type, one of {}", DType::ALL.map(DType::name).join(", ")));
    let dtype = p.word("an element type")?.parse().map_err(|_| here)?;
    let shape = exprs(p, "[", "]")?;
    let strides = if p.accept_word("strides") { Some(exprs(p, "[", "]")?) } else { None };
    let place = if p.accept_word("in") {
        if p.accept_word("constants") {
            p.expect_word("at")?;
            Place::Constant { offset: p.unsigned("an offset in bytes")? }
        } else {
            p.expect_word("arena")?;
            p.expect_word("at")?;
            Place::Arena(p.expr()?)
        }
    } else {
        p.expect("=")?;
        if p.accept_word("input") {
            Place::Input(p.unsigned("the number of an input")?)
        } else if p.accept_word("output") {
            Place::Output(p.unsigned("the number of an output")?)
        } else if p.accept_word("block") {
            Place::Block
        } else {
            p.expect_word("alias")?;
            p.expect_word("of")?;
            let of = buffer_id(p)?;
            p.expect_word("offset")?;
            Place::Alias { of, offset: p.expr()? }
        }
    };
    Ok(Buffer { dtype, shape, strides, place })
}

fn kernel(p: &mut Lexer) -> Result<Kernel> {
    let name = p.name("@")?;
    p.expect_word("in")?;
    p.expect_word("image")?;
    let image = p.unsigned("the number of an image")?;
    p.expect_word("block")?;
    let block = p.unsigned("threads a block")?;
    p.expect_word("shared")?;
    let shared_bytes = p.unsigned("bytes of shared memory")?;
    let summary = p.text("what the kernel computes, in quotes")?;
    let mut checks = Vec::new();
    if p.accept_word("checks") {
        checks = p.list("(", ")", |p| {
            Ok(Check { message: p.text("what a check says, in quotes")?, location: loc(p)? })
        })?;
    }
    Ok(Kernel { name, image, summary, block, shared_bytes, checks })
}

fn launch(p: &mut Lexer) -> Result<Step> {
    let kernel = p.numbered('k', "a kernel such as k0")?;
    let operands = p.list("(", ")", buffer_id)?;
    p.expect("->")?;
    let results = p.list("(", ")", buffer_id)?;
    p.expect_word("symbols")?;
    let symbols = exprs(p, "(", ")")?;
    p.expect_word("grid")?;
    let grid = exprs(p, "(", ")")?;
    Ok(Step::Launch { kernel, operands, results, symbols, grid, location: loc(p)? })
}

fn matrix(p: &mut Lexer) -> Result<Matrix> {
    let buffer = buffer_id(p)?;
    let here = p.error("three strides: <batch, row, column>");
    let strides: [Expr; 3] = exprs(p, "<", ">")?.try_into().map_err(|_| here)?;
    let [batch_stride, row_stride, col_stride] = strides;
    Ok(Matrix { buffer, batch_stride, row_stride, col_stride })
}

fn product(p: &mut Lexer) -> Result<Product> {
    let out = matrix(p)?;
    p.expect("=")?;
    let lhs = matrix(p)?;
    p.expect_word("by")?;
    let rhs = matrix(p)?;
    let mut size = |name: &str| -> Result<Expr> {
        p.expect_word(name)?;
        p.expr()
    };
    let (batch, m, n, k) = (size("batch")?, size("m")?, size("n")?, size("k")?);
    let bias = if p.accept_word("bias") { Some(buffer_id(p)?) } else { None };
    let epilogue = if p.accept_word("epilogue") {
        if p.accept_word("relu") {
            Epilogue::Relu
        } else if p.accept_word("gelu_tanh") {
            Epilogue::GeluTanh
        } else {
            return Err(p.error("'relu' or 'gelu_tanh'"));
        }
    } else {
        Epilogue::None
    };
    Ok(Product { lhs, rhs, out, bias, epilogue, m, n, k, batch, location: loc(p)? })
}

fn convolution(p: &mut Lexer) -> Result<Convolution> {
    let out = buffer_id(p)?;
    p.expect("=")?;
    let input = buffer_id(p)?;
    p.expect_word("by")?;
    let weight = buffer_id(p)?;
    p.expect_word("stride")?;
    let stride = p.list("[", "]", |p| p.integer("a stride"))?;
    p.expect_word("padding")?;
    let padding = p.list("[", "]", |p| {
        p.expect("(")?;
        let before = p.integer("the padding before")?;
        p.expect(",")?;
        let after = p.integer("the padding after")?;
        p.expect(")")?;
        Ok((before, after))
    })?;
    p.expect_word("dilation")?;
    let dilation = p.list("[", "]", |p| p.integer("a dilation"))?;
    p.expect_word("groups")?;
    let groups = p.integer("the number of groups")?;
    Ok(Convolution { input, weight, out, stride, padding, dilation, groups, location: loc(p)? })
}

fn host_call(p: &mut Lexer) -> Result<HostCall> {
    let name = p.name("@")?;
    let inputs = p.list("(", ")", buffer_id)?;
    p.expect_word("symbols")?;
    let symbols = exprs(p, "(", ")")?;
    p.expect("->")?;
    let outputs = p.list("(", ")", buffer_id)?;
    p.expect_word("reason")?;
    let reason = p.text("why the op has no lowering, in quotes")?;
    let payload = if p.accept_word("payload") { p.text("a payload in quotes")? } else { String::new() };
    Ok(HostCall { name, payload, inputs, symbols, outputs, reason, location: loc(p)? })
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
