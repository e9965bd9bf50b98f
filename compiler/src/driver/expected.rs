//! `--verify-diagnostics`: comments `// expected-error@+1 {{text}}` say which diagnostics must come, as in mlir-opt.

use crate::driver::diagnostics::{Diagnostic, Position, Severity, Source};

struct Expectation {
    severity: Severity,
    /// The line it is for; `None`: any line, or none.
    line: Option<usize>,
    text: String,
    /// Where the comment is.
    comment: usize,
    met: bool,
}

/// Compares what came with what `source` expects. The result is what is wrong; empty means all is well.
pub fn verify(source: &Source, found: &[Diagnostic]) -> Vec<Diagnostic> {
    let mut wrong = Vec::new();
    let mut expected = Vec::new();
    let mut designators = std::collections::BTreeMap::new();
    for (i, line) in source.text().lines().enumerate() {
        parse_line(source, i + 1, line, &mut designators, &mut expected, &mut wrong);
    }
    for diagnostic in found {
        check(source, diagnostic, &mut expected, &mut wrong);
        for note in &diagnostic.notes {
            // A note that nobody expects is no error: mlir-opt wants them all, but most are context.
            match_one(source, note, &mut expected);
        }
    }
    for e in expected.iter().filter(|e| !e.met) {
        let at = Position { file: source.name.clone(), line: e.line.unwrap_or(e.comment), column: 1 };
        wrong.push(Diagnostic::error(
            Some(at),
            format!("expected {} \"{}\" was not produced", e.severity.name(), e.text),
        ));
    }
    wrong
}

fn check(source: &Source, d: &Diagnostic, expected: &mut [Expectation], wrong: &mut Vec<Diagnostic>) {
    if !match_one(source, d, expected) {
        wrong.push(Diagnostic::error(
            d.position.clone(),
            format!("unexpected {}: {}", d.severity.name(), d.message),
        ));
    }
}

fn match_one(source: &Source, d: &Diagnostic, expected: &mut [Expectation]) -> bool {
    let line = d.position.as_ref().filter(|p| p.file == source.name).map(|p| p.line);
    let hit = expected.iter_mut().find(|e| {
        !e.met
            && e.severity == d.severity
            && (e.line.is_none() || e.line == line)
            && d.message.contains(&e.text)
    });
    hit.map(|e| e.met = true).is_some()
}

fn parse_line(
    source: &Source,
    number: usize,
    line: &str,
    designators: &mut std::collections::BTreeMap<String, usize>,
    expected: &mut Vec<Expectation>,
    wrong: &mut Vec<Diagnostic>,
) {
    let Some((_, comment)) = line.split_once("//") else { return };
    // `// @name` names a line for `expected-error@name`.
    if let Some(name) = comment.trim().strip_prefix('@').filter(|n| !n.contains(' ')) {
        designators.insert(name.to_owned(), number);
    }
    let mut rest = comment;
    while let Some(at) = rest.find("expected-") {
        rest = &rest[at + "expected-".len()..];
        let kinds = [Severity::Error, Severity::Warning, Severity::Remark, Severity::Note];
        let Some(severity) = kinds.into_iter().find(|k| rest.starts_with(k.name())) else { continue };
        rest = &rest[severity.name().len()..];
        let mut bad = |message: &str| {
            let at = Position { file: source.name.clone(), line: number, column: 1 };
            wrong.push(Diagnostic::error(Some(at), message.to_owned()));
        };
        let (Some(open), Some(close)) = (rest.find("{{"), rest.find("}}")) else {
            return bad("expected '{{text}}' behind expected-…");
        };
        let place = rest[..open].trim();
        let line = match place.strip_prefix('@') {
            None if place.is_empty() => Some(number),
            Some("above") => (1..number).rev().find(|&n| !is_comment(source, n)),
            Some("below") => (number + 1..=source.text().lines().count()).find(|&n| !is_comment(source, n)),
            Some("unknown") => None,
            Some(offset) => match offset.parse::<isize>() {
                Ok(n) if offset.starts_with(['+', '-']) => number.checked_add_signed(n),
                _ => match designators.get(offset) {
                    Some(n) => Some(*n),
                    None => return bad(&format!("'@{offset}' is neither an offset nor a named line above")),
                },
            },
            None => return bad(&format!("'{place}' is not a place; write @+1, @-1, @below or @unknown")),
        };
        expected.push(Expectation {
            severity,
            line,
            text: rest[open + 2..close].to_owned(),
            comment: number,
            met: false,
        });
        rest = &rest[close + 2..];
    }
}

fn is_comment(source: &Source, number: usize) -> bool {
    source.text().lines().nth(number - 1).is_some_and(|l| l.trim_start().starts_with("//"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(text: &str, found: &[Diagnostic]) -> Vec<String> {
        let source = Source { name: "a".into(), bytes: text.as_bytes().to_vec() };
        verify(&source, found).iter().map(Diagnostic::to_string).collect()
    }

    fn error(line: usize, message: &str) -> Diagnostic {
        Diagnostic::error(Position::parse(&format!("a:{line}:3")), message)
    }

    #[test]
    fn places_are_offsets_names_and_neighbours() {
        assert!(outcome("// expected-error@+1 {{bad}}\nx\n", &[error(2, "very bad")]).is_empty());
        assert!(outcome("x // expected-error {{bad}}\n", &[error(1, "bad")]).is_empty());
        assert!(outcome("x\n// expected-error@above {{bad}}\n", &[error(1, "bad")]).is_empty());
        assert!(outcome("// expected-error@below {{bad}}\n// note\nx\n", &[error(3, "bad")]).is_empty());
        assert!(outcome("// expected-error@unknown {{bad}}\n", &[Diagnostic::error(None, "bad")]).is_empty());
        assert!(outcome("x // @here\n\n// expected-error@here {{bad}}\n", &[error(1, "bad")]).is_empty());
        assert!(
            outcome("// expected-error@+1 {{a}} expected-error@+1 {{b}}\n", &[error(2, "b"), error(2, "a")])
                .is_empty()
        );
    }

    #[test]
    fn what_differs_is_said() {
        assert_eq!(
            outcome("// expected-error@+1 {{bad}}\nx\n", &[error(3, "bad")]),
            ["a:3:3: error: unexpected error: bad", "a:2:1: error: expected error \"bad\" was not produced"]
        );
        assert_eq!(outcome("", &[error(1, "new")]), ["a:1:3: error: unexpected error: new"]);
        assert_eq!(
            outcome("// expected-error {bad}\n", &[]),
            ["a:1:1: error: expected '{{text}}' behind expected-…"]
        );
    }
}
