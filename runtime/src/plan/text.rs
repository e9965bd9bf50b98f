//! The text form of plans; `docs/plan.md` has the grammar. [`parse`] reads it back to the same plan.

use super::*;
use std::fmt::{self, Display, Formatter};

/// `a, b, c`.
struct List<'a, T>(&'a [T]);

impl<T: Display> Display for List<'_, T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (i, x) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{x}")?;
        }
        Ok(())
    }
}

/// A string in quotes, escaped as in JSON.
struct Quoted<'a>(&'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self.0).map_err(|_| fmt::Error)?)
    }
}

/// A name after its sigil: bare if it is a word, else in quotes.
struct Name<'a>(&'a str);

impl Display for Name<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if super::lexer::is_word(self.0) { f.write_str(self.0) } else { Quoted(self.0).fmt(f) }
    }
}

struct Loc<'a>(&'a str);

impl Display for Loc<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, " loc({})", Quoted(self.0)) }
    }
}

impl Display for BufferId {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "b{}", self.0)
    }
}

impl Display for Plan {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "plan @{} on {} {{", Name(&self.name), self.device)?;
        for (i, s) in self.symbols.iter().enumerate() {
            writeln!(f, "  symbol s{i} {s}")?;
        }
        for i in &self.inputs {
            writeln!(f, "  input %{} = {}", Name(&i.name), i.buffer)?;
        }
        for o in &self.outputs {
            writeln!(f, "  output %{} = {}", Name(&o.name), o.buffer)?;
        }
        for (i, b) in self.buffers.iter().enumerate() {
            writeln!(f, "  buffer b{i} : {b}")?;
        }
        writeln!(f, "  arena {} bytes", self.arena)?;
        for (i, k) in self.kernels.iter().enumerate() {
            writeln!(f, "  kernel k{i} = {k}")?;
        }
        for s in &self.steps {
            writeln!(f, "  {s}")?;
        }
        f.write_str("}\n")
    }
}

impl Display for PlanSymbol {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Symbol { name, min, max, divisor, hint } = &self.info;
        write!(f, "{} in [{min}, ", Quoted(name))?;
        if *max == i64::MAX {
            f.write_str("inf]")?
        } else {
            write!(f, "{max}]")?
        }
        if *divisor != 1 {
            write!(f, " step {divisor}")?;
        }
        if let Some(hint) = hint {
            write!(f, " hint {hint}")?;
        }
        match &self.binding {
            Binding::InputDim { input, dim } => write!(f, " = dim {dim} of input {input}"),
            Binding::InputStride { input, dim } => write!(f, " = stride {dim} of input {input}"),
            Binding::Scalar(n) => write!(f, " = scalar {n}"),
            Binding::Defined(e) => write!(f, " = {e}"),
        }
    }
}

impl Display for Buffer {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.dtype, List(&self.shape))?;
        if let Some(s) = &self.strides {
            write!(f, " strides [{}]", List(s))?;
        }
        match &self.place {
            Place::Input(n) => write!(f, " = input {n}"),
            Place::Output(n) => write!(f, " = output {n}"),
            Place::Arena(at) => write!(f, " in arena at {at}"),
            Place::Constant { offset } => write!(f, " in constants at {offset}"),
            Place::Alias { of, offset } => write!(f, " = alias of {of} offset {offset}"),
            Place::Block => write!(f, " = block"),
        }
    }
}

impl Display for Kernel {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { name, image, summary, block, shared_bytes, checks } = self;
        write!(
            f,
            "@{} in image {image} block {block} shared {shared_bytes} {}",
            Name(name),
            Quoted(summary)
        )?;
        if checks.is_empty() { Ok(()) } else { write!(f, " checks({})", List(checks)) }
    }
}

impl Display for Check {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", Quoted(&self.message), Loc(&self.location))
    }
}

impl Display for Step {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Launch { kernel, operands, results, symbols, grid, location } => {
                write!(f, "launch k{kernel}({}) -> ({})", List(operands), List(results))?;
                write!(f, " symbols({}) grid({}){}", List(symbols), List(grid), Loc(location))
            }
            Self::Product(p) => p.fmt(f),
            Self::Convolution(c) => c.fmt(f),
            Self::Copy { from, to } => write!(f, "copy {from} -> {to}"),
            Self::HostCall(h) => h.fmt(f),
        }
    }
}

impl Display for Matrix {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}<{}, {}, {}>", self.buffer, self.batch_stride, self.row_stride, self.col_stride)
    }
}

impl Epilogue {
    /// The name in text; nothing for none.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Relu => "relu",
            Self::GeluTanh => "gelu_tanh",
        }
    }
}

impl Display for Product {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { lhs, rhs, out, bias, epilogue, m, n, k, batch, location } = self;
        write!(f, "product {out} = {lhs} by {rhs} batch {batch} m {m} n {n} k {k}")?;
        if let Some(b) = bias {
            write!(f, " bias {b}")?;
        }
        if *epilogue != Epilogue::None {
            write!(f, " epilogue {}", epilogue.name())?;
        }
        Loc(location).fmt(f)
    }
}

impl Display for Convolution {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { input, weight, out, stride, padding, dilation, groups, location } = self;
        let padding: Vec<String> = padding.iter().map(|(a, b)| format!("({a}, {b})")).collect();
        write!(
            f,
            "convolution {out} = {input} by {weight} stride [{}] padding [{}]",
            List(stride),
            List(&padding)
        )?;
        write!(f, " dilation [{}] groups {groups}{}", List(dilation), Loc(location))
    }
}

impl Display for HostCall {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { name, payload, inputs, symbols, outputs, reason, location } = self;
        write!(
            f,
            "host @{}({}) symbols({}) -> ({})",
            Name(name),
            List(inputs),
            List(symbols),
            List(outputs)
        )?;
        write!(f, " reason {}", Quoted(reason))?;
        if !payload.is_empty() {
            write!(f, " payload {}", Quoted(payload))?;
        }
        Loc(location).fmt(f)
    }
}
