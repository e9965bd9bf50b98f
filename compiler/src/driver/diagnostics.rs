//! Diagnostics as data: collected from MLIR's engine and from failing passes, shown with the source line.

use crate::driver::pass::Failure;
use melior::Context;
use melior::diagnostic::{DiagnosticHandlerId, DiagnosticSeverity};
use melior::ir::Location;
use serde::Serialize;
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The work stopped.
    Error,
    /// Worth a look.
    Warning,
    /// What was done.
    Remark,
    /// Belongs to another diagnostic.
    Note,
}

impl Severity {
    /// `error`, `warning`, `remark`, `note`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Remark => "remark",
            Self::Note => "note",
        }
    }
}

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Position {
    /// The file as it was named.
    pub file: String,
    /// From 1.
    pub line: usize,
    /// From 1.
    pub column: usize,
}

impl Position {
    /// Reads `file:line:column`.
    pub fn parse(text: &str) -> Option<Self> {
        let (rest, column) = text.rsplit_once(':')?;
        let (file, line) = rest.rsplit_once(':')?;
        Some(Self { file: file.to_owned(), line: line.parse().ok()?, column: column.parse().ok()? })
    }

    /// The file position of a location: the innermost of names, call sites and fusions.
    pub fn of(location: Location<'_>) -> Option<Self> {
        Self::parse(&crate::ir::location_text(location))
    }
}

/// A message for the user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// Where, if known.
    pub position: Option<Position>,
    /// What.
    pub message: String,
    /// What belongs to it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Diagnostic>,
}

impl Diagnostic {
    /// An error.
    pub fn error(position: Option<Position>, message: impl Into<String>) -> Self {
        Self { severity: Severity::Error, position, message: message.into(), notes: Vec::new() }
    }

    /// With a note.
    #[must_use]
    pub fn note(mut self, position: Option<Position>, message: impl Into<String>) -> Self {
        self.notes.push(Self {
            severity: Severity::Note,
            position,
            message: message.into(),
            notes: Vec::new(),
        });
        self
    }

    /// The failure of a pass.
    pub fn from_failure(failure: &Failure) -> Self {
        let error = Self::error(Position::parse(&failure.location), failure.message.clone());
        if failure.next.is_empty() { error } else { error.note(None, failure.next.clone()) }
    }

    fn from_mlir(d: &melior::diagnostic::Diagnostic<'_>) -> Self {
        Self {
            severity: match d.severity() {
                DiagnosticSeverity::Error => Severity::Error,
                DiagnosticSeverity::Warning => Severity::Warning,
                DiagnosticSeverity::Remark => Severity::Remark,
                DiagnosticSeverity::Note => Severity::Note,
            },
            position: Position::of(d.location()),
            message: d.to_string(),
            notes: (0..d.note_count()).filter_map(|i| Some(Self::from_mlir(&d.note(i).ok()?))).collect(),
        }
    }

    /// Text for a terminal; lines of `source` are shown where the position is in it.
    pub fn render(&self, source: &Source) -> String {
        self.render_below(source, None)
    }

    /// The line is left out where `shown`, the position of the diagnostic above, is on it too.
    fn render_below(&self, source: &Source, shown: Option<&Position>) -> String {
        let mut out = format!("{self}\n");
        if let Some(p) = &self.position
            && p.file == source.name
            && Some(p) != shown
            && let Some(line) = source.line(p.line)
        {
            let before: String = line
                .chars()
                .take(p.column.saturating_sub(1))
                .map(|c| if c == '\t' { '\t' } else { ' ' })
                .collect();
            out += &format!("{line}\n{before}^\n");
        }
        for note in &self.notes {
            out += &note.render_below(source, self.position.as_ref());
        }
        out
    }
}

/// `file:line:column: error: message`, without the source line and notes.
impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(p) = &self.position {
            write!(f, "{}:{}:{}: ", p.file, p.line, p.column)?;
        }
        write!(f, "{}: {}", self.severity.name(), self.message)
    }
}

/// A program's text under the name that its locations carry. A part of a split file starts with as many empty lines as
/// the file has before it, so that positions are those of the file.
#[derive(Clone, Debug)]
pub struct Source {
    /// The file as it was named.
    pub name: String,
    /// Text, or bytecode.
    pub bytes: Vec<u8>,
}

impl Source {
    /// The text; empty for bytecode.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.bytes).unwrap_or_default()
    }

    fn line(&self, number: usize) -> Option<&str> {
        self.text().lines().nth(number.checked_sub(1)?).filter(|l| !l.is_empty())
    }

    /// The parts between lines `// -----`, each with the positions of the whole.
    pub fn split(&self) -> Vec<Self> {
        let mut parts = vec![String::new()];
        for (number, line) in self.text().split_inclusive('\n').enumerate() {
            if line.trim() == "// -----" {
                parts.push("\n".repeat(number + 1));
            } else {
                parts.last_mut().expect("starts with one part").push_str(line);
            }
        }
        parts.into_iter().map(|text| Self { name: self.name.clone(), bytes: text.into_bytes() }).collect()
    }
}

/// Collects the diagnostics of a context while it lives.
pub struct Collector<'c> {
    context: &'c Context,
    id: Option<DiagnosticHandlerId>,
    found: Rc<RefCell<Vec<Diagnostic>>>,
}

impl<'c> Collector<'c> {
    /// Starts collecting.
    pub fn new(context: &'c Context) -> Self {
        let found = Rc::new(RefCell::new(Vec::new()));
        let sink = Rc::clone(&found);
        let id = context.attach_diagnostic_handler(move |d| {
            sink.borrow_mut().push(Diagnostic::from_mlir(&d));
            true
        });
        Self { context, id: Some(id), found }
    }

    /// What was found since the last call, in order.
    pub fn take(&self) -> Vec<Diagnostic> {
        self.found.take()
    }

    /// Whether an error was found since the last `take`.
    pub fn has_error(&self) -> bool {
        self.found.borrow().iter().any(|d| d.severity == Severity::Error)
    }
}

impl Drop for Collector<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            self.context.detach_diagnostic_handler(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_keep_the_positions_of_the_file() {
        let source = Source { name: "a".into(), bytes: b"x\ny\n// -----\nz\n".to_vec() };
        let parts = source.split();
        assert_eq!(parts.len(), 2);
        assert_eq!(parts[1].line(4), Some("z"));
        assert_eq!(parts[0].text(), "x\ny\n");
    }

    #[test]
    fn rendering_shows_line_and_caret() {
        let source = Source { name: "a.mlir".into(), bytes: b"one\n\ttwo three\n".to_vec() };
        let d = Diagnostic::error(Position::parse("a.mlir:2:6"), "bad").note(None, "because");
        insta::assert_snapshot!(d.render(&source), @r"
        a.mlir:2:6: error: bad
        	two three
        	    ^
        note: because
        ");
    }

    #[test]
    fn mlir_diagnostics_have_positions_and_notes() {
        let context = strata_dialects::context();
        let collector = Collector::new(&context);
        let text = b"func.func @f(%a: tensor<2xf32>) -> tensor<2xf32> {\n  %b = \"graph.exp\"(%a) : (tensor<2xf32>) -> tensor<3xf32>\n  return %a : tensor<2xf32>\n}";
        assert!(strata_dialects::tool::parse_module(&context, text, "in.mlir").is_none());
        let found = collector.take();
        assert!(!found.is_empty());
        assert_eq!(found[0].position, Position::parse("in.mlir:2:8"));
    }
}
