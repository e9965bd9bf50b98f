//! What the importer says when it cannot go on.

use std::fmt;

/// Where every diagnostic about an operator sends the reader.
pub const REFERENCE_PAGE: &str = "docs/onnx-operators.md";

/// A reason, the place it concerns, and what to do next.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Diagnostic {
    /// The file, the node or the value it is about; empty only until someone who knows has filled it in.
    pub place: String,
    /// What is wrong.
    pub reason: String,
    /// What the reader can do about it.
    pub help: Option<String>,
}

impl Diagnostic {
    /// A diagnostic whose place the caller fills in.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { place: String::new(), reason: reason.into(), help: None }
    }

    /// Adds the next step.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Names the place, unless a more exact one is already known.
    pub fn at(mut self, place: impl Into<String>) -> Self {
        if self.place.is_empty() {
            self.place = place.into();
        }
        self
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.place.is_empty() {
            write!(f, "{}: ", self.place)?;
        }
        f.write_str(&self.reason)?;
        match &self.help {
            Some(help) => write!(f, "\n  help: {help}"),
            None => Ok(()),
        }
    }
}

/// The importer's result.
pub type Result<T> = std::result::Result<T, Diagnostic>;

/// Leaves the current function with a diagnostic made by `format!`.
macro_rules! fail {
    ($($arg:tt)*) => {
        return Err($crate::import::onnx::diagnostic::Diagnostic::new(format!($($arg)*)))
    };
}
pub(crate) use fail;
