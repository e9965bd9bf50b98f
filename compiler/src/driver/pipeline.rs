//! Pipelines as text: `a,b{x=1 y=foo}` or `builtin.module(func.func(cse,canonicalize{max-iterations=3}),a,symbol-dce)`,
//! own and upstream passes mixed.

use std::fmt;

/// An element of a pipeline: a pass with options, or an anchor with the elements under it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Element {
    /// `name{key=value …}`.
    Pass {
        /// The pass's name.
        name: String,
        /// The text between the braces.
        options: String,
        /// Byte offset of the name in the pipeline's text.
        at: usize,
    },
    /// `func.func(…)`.
    Anchor {
        /// The op's name.
        op: String,
        /// What runs on each such op.
        elements: Vec<Element>,
    },
}

/// What is wrong with a pipeline's text, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PipelineError {
    /// What is wrong, with a next step.
    pub message: String,
    /// Byte offset in the text.
    pub at: usize,
}

impl PipelineError {
    pub(crate) fn new(message: impl Into<String>, at: usize) -> Self {
        Self { message: message.into(), at }
    }

    /// The message with the pipeline and a caret under the place.
    pub fn render(&self, text: &str) -> String {
        let column = text.get(..self.at).unwrap_or(text).chars().count();
        format!("--passes:1:{}: error: {}\n{text}\n{}^", column + 1, self.message, " ".repeat(column))
    }
}

/// Parses a pipeline. An outermost `builtin.module(…)` or `any(…)` is the module itself and is dropped.
pub fn parse(text: &str) -> Result<Vec<Element>, PipelineError> {
    let mut parser = Parser { text, at: 0 };
    let mut elements = parser.list()?;
    if parser.at < text.len() {
        return Err(PipelineError::new("this ')' closes nothing", parser.at));
    }
    if let [Element::Anchor { op, elements: inner }] = elements.as_mut_slice()
        && matches!(op.as_str(), "builtin.module" | "any")
    {
        return Ok(std::mem::take(inner));
    }
    Ok(elements)
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
}

impl Parser<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn skip_space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    /// Elements up to a `)` or the end.
    fn list(&mut self) -> Result<Vec<Element>, PipelineError> {
        let mut elements = Vec::new();
        loop {
            self.skip_space();
            if self.rest().is_empty() || self.rest().starts_with(')') {
                return Ok(elements);
            }
            elements.push(self.element()?);
            self.skip_space();
            match self.rest().chars().next() {
                None | Some(')') => {}
                Some(',') => self.at += 1,
                Some(c) => {
                    return Err(PipelineError::new(format!("expected ',' or ')', found '{c}'"), self.at));
                }
            }
        }
    }

    fn element(&mut self) -> Result<Element, PipelineError> {
        let at = self.at;
        let end = self.rest().find([',', '(', ')', '{', '}']).unwrap_or(self.rest().len());
        let name = self.rest()[..end].trim().to_owned();
        if name.is_empty() || name.contains(char::is_whitespace) {
            return Err(PipelineError::new("expected the name of a pass", at));
        }
        self.at += end;
        if self.rest().starts_with('(') {
            let open = self.at;
            self.at += 1;
            let elements = self.list()?;
            if !self.rest().starts_with(')') {
                return Err(PipelineError::new("this '(' is not closed", open));
            }
            self.at += 1;
            return Ok(Element::Anchor { op: name, elements });
        }
        let options = if self.rest().starts_with('{') { self.braces()? } else { String::new() };
        Ok(Element::Pass { name, options, at })
    }

    /// The text between balanced braces.
    fn braces(&mut self) -> Result<String, PipelineError> {
        let (open, mut depth) = (self.at, 0);
        for (i, c) in self.rest().char_indices() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                let inner = self.rest()[1..i].trim().to_owned();
                self.at += i + 1;
                return Ok(inner);
            }
        }
        Err(PipelineError::new("this '{' is not closed", open))
    }
}

/// Splits `x=1 list=2,3 text="a b" flag` in keys and values; a key alone is `true`. Braces and quotes hold spaces together.
pub fn options(text: &str) -> Result<Vec<(String, String)>, String> {
    let (mut words, mut word, mut depth, mut quoted) = (Vec::new(), String::new(), 0, false);
    for c in text.chars() {
        match c {
            '"' => quoted = !quoted,
            '{' | '[' if !quoted => depth += 1,
            '}' | ']' if !quoted => depth -= 1,
            _ => {}
        }
        if c.is_whitespace() && !quoted && depth == 0 {
            words.push(std::mem::take(&mut word));
        } else {
            word.push(c);
        }
    }
    words.push(word);
    if quoted || depth != 0 {
        return Err(format!("quotes or brackets are not closed in '{text}'"));
    }
    Ok(words
        .into_iter()
        .filter(|w| !w.is_empty())
        .map(|w| {
            let (key, value) = w.split_once('=').unwrap_or((&w, "true"));
            let plain = value.strip_prefix('"').and_then(|v| v.strip_suffix('"')).unwrap_or(value);
            (key.to_owned(), plain.to_owned())
        })
        .collect())
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pass { name, options, .. } if options.is_empty() => f.write_str(name),
            Self::Pass { name, options, .. } => write!(f, "{name}{{{options}}}"),
            Self::Anchor { op, elements } => {
                let list: Vec<_> = elements.iter().map(Self::to_string).collect();
                write!(f, "{op}({})", list.join(","))
            }
        }
    }
}

/// The names out of `known` that look most like `name`, best first, at most three.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let limit = (name.chars().count() / 3).max(2);
    let mut close: Vec<_> = known
        .into_iter()
        .filter_map(|k| {
            let d = distance(name, k);
            let part = name.len() > 2 && (k.contains(name) || (k.len() > 2 && name.contains(k)));
            (d <= limit || part).then_some((if part { d.min(limit) } else { d }, k))
        })
        .collect();
    close.sort();
    close.dedup();
    close.into_iter().take(3).map(|(_, k)| k).collect()
}

/// Levenshtein's distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let change = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(text: &str) -> String {
        parse(text).unwrap().iter().map(Element::to_string).collect::<Vec<_>>().join(",")
    }

    #[test]
    fn text_round_trips() {
        assert_eq!(round("a, b{x=1 y=foo} ,c"), "a,b{x=1 y=foo},c");
        assert_eq!(
            round(
                "builtin.module(func.func(cse,canonicalize{max-iterations=3}),my-pass{size=64},symbol-dce)"
            ),
            "func.func(cse,canonicalize{max-iterations=3}),my-pass{size=64},symbol-dce"
        );
        assert_eq!(round("gpu.module(x{a={b c}}),y"), "gpu.module(x{a={b c}}),y");
        assert_eq!(round(""), "");
    }

    #[test]
    fn errors_point_at_the_place() {
        let error = |text| {
            let e = parse(text).unwrap_err();
            (e.at, e.message)
        };
        assert_eq!(error("a,func.func(b"), (11, "this '(' is not closed".into()));
        assert_eq!(error("a)"), (1, "this ')' closes nothing".into()));
        assert_eq!(error("a{x=1"), (1, "this '{' is not closed".into()));
        assert_eq!(error("a,,b"), (2, "expected the name of a pass".into()));
        assert_eq!(error("a b"), (0, "expected the name of a pass".into()));
        assert_eq!(error("a{x}b"), (4, "expected ',' or ')', found 'b'".into()));
    }

    #[test]
    fn options_split_at_spaces_outside_of_brackets() {
        let pairs = |t| options(t).unwrap().into_iter().map(|(k, v)| format!("{k}:{v}")).collect::<Vec<_>>();
        assert_eq!(pairs("a=1  b"), ["a:1", "b:true"]);
        assert_eq!(pairs("t=\"x y\" l=1,2 n={p q}"), ["t:x y", "l:1,2", "n:{p q}"]);
        assert!(options("a=\"x").is_err());
    }

    #[test]
    fn nearest_names_come_first() {
        assert_eq!(nearest("canonicalise", ["cse", "canonicalize", "symbol-dce"]), ["canonicalize"]);
        assert_eq!(nearest("fusee", ["cse", "fuse"]), ["fuse"]);
        assert!(nearest("zzzzzzzz", ["cse", "fuse"]).is_empty());
    }
}
