//! Reproducers: a program and the rest of its pipeline in one file, in MLIR's own format, so that `mlir-opt --run-reproducer`
//! runs those that need upstream passes only.

use std::path::{Path, PathBuf};

/// What a reproducer says beside the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reproducer {
    /// The pipeline, without its anchor.
    pub pipeline: String,
    /// Whether every step was verified.
    pub verify_each: bool,
    /// What code was made for, if it was said.
    pub target: Option<String>,
    /// The seed of `--check-semantics`, where the fault is a wrong result.
    pub seed: Option<u64>,
}

fn quote(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\22")
}

/// Undoes MLIR's escapes: `\\`, `\"` and two hexadecimal digits.
fn unquote(text: &str) -> String {
    let mut out = Vec::new();
    let mut bytes = text.bytes();
    while let Some(b) = bytes.next() {
        if b != b'\\' {
            out.push(b);
            continue;
        }
        match bytes.next() {
            Some(h) if h.is_ascii_hexdigit() => {
                let hex = [h, bytes.next().unwrap_or(b'0')];
                let hex = std::str::from_utf8(&hex).unwrap_or("20");
                out.push(u8::from_str_radix(hex, 16).unwrap_or(b' '));
            }
            Some(b'n') => out.push(b'\n'),
            Some(other) => out.push(other),
            None => {}
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

impl Reproducer {
    /// The file's text.
    pub fn text(&self, program: &str) -> String {
        // Stock tools refuse keys they do not know in `mlir_reproducer`, but only warn of other groups.
        let target = self.target.as_ref().map(|t| format!("target: \"{}\"", quote(t)));
        let seed = self.seed.map(|s| format!("check_semantics: {s}"));
        let own: Vec<String> = target.into_iter().chain(seed).collect();
        let own = match own.as_slice() {
            [] => String::new(),
            list => format!(",\n    strata: {{\n      {}\n    }}", list.join(",\n      ")),
        };
        format!(
            "{}\n{{-#\n  external_resources: {{\n    mlir_reproducer: {{\n      pipeline: \"builtin.module({})\",\n      \
             disable_threading: true,\n      verify_each: {}\n    }}{own}\n  }}\n#-}}\n",
            program.trim_end(),
            quote(&self.pipeline),
            self.verify_each
        )
    }

    /// Reads a file: what to run, and the text with the reproducer's part blanked out, so that lines keep their numbers.
    pub fn read(text: &str) -> Result<(Self, String), String> {
        let missing =
            "the file has no 'mlir_reproducer' part; a reproducer ends in {-# external_resources: … #-}";
        let found = text.find("mlir_reproducer").ok_or(missing)?;
        let open = text[..found].rfind("{-#").ok_or(missing)?;
        let close = found + text[found..].find("#-}").ok_or("'{-#' is not closed by '#-}'")? + 3;
        let part = &text[open..close];
        let pipeline = value(part, "pipeline").ok_or("the reproducer names no pipeline")?;
        let pipeline = unquote(string(pipeline).ok_or("the reproducer's pipeline is not a string")?);
        let read = Self {
            pipeline,
            verify_each: value(part, "verify_each").is_none_or(|v| !v.starts_with("false")),
            target: value(part, "target").and_then(string).map(unquote),
            seed: value(part, "check_semantics").and_then(number),
        };
        let blank: String = part.chars().filter(|c| *c == '\n').collect();
        Ok((read, format!("{}{blank}{}", &text[..open], &text[close..])))
    }

    /// Writes the file into `folder`, named after its contents. The result is its path.
    pub fn write(&self, folder: &Path, stem: &str, program: &str) -> Result<PathBuf, String> {
        let text = self.text(program);
        let hash = blake3::hash(text.as_bytes()).to_hex();
        let path = folder.join(format!("{stem}-{}.mlir", &hash[..8]));
        std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::write(&path, text))
            .map_err(|e| format!("cannot write {}: {e}", path.display()))?;
        Ok(path)
    }
}

/// The text behind `key:`.
fn value<'t>(part: &'t str, key: &str) -> Option<&'t str> {
    let mut rest = part;
    while let Some(at) = rest.find(key) {
        let alone = !rest[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        rest = &rest[at + key.len()..];
        if let Some(value) = rest.trim_start().strip_prefix(':')
            && alone
        {
            return Some(value.trim_start());
        }
    }
    None
}

/// The number that `text` starts with.
fn number(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

/// The inside of the string that `text` starts with.
fn string(text: &str) -> Option<&str> {
    let inner = text.strip_prefix('"')?;
    let mut escaped = false;
    for (i, c) in inner.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return Some(&inner[..i]),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips() {
        let r = Reproducer {
            pipeline: "func.func(cse),test-fail{message=\"a b\"}".into(),
            verify_each: false,
            target: Some("nvptx:sm_90a".into()),
            seed: Some(7),
        };
        let text = r.text("module {\n}\n");
        insta::assert_snapshot!(text, @r#"
        module {
        }
        {-#
          external_resources: {
            mlir_reproducer: {
              pipeline: "builtin.module(func.func(cse),test-fail{message=\22a b\22})",
              disable_threading: true,
              verify_each: false
            },
            strata: {
              target: "nvptx:sm_90a",
              check_semantics: 7
            }
          }
        #-}
        "#);
        let (back, program) = Reproducer::read(&text).unwrap();
        assert_eq!(back.pipeline, format!("builtin.module({})", r.pipeline));
        assert_eq!((back.verify_each, back.target, back.seed), (false, r.target, r.seed));
        assert_eq!(program.trim(), "module {\n}");
        assert_eq!(program.lines().count(), text.lines().count());
    }

    #[test]
    fn other_files_are_refused() {
        assert!(Reproducer::read("module {}").unwrap_err().contains("no 'mlir_reproducer' part"));
        assert!(
            Reproducer::read("{-# mlir_reproducer: { pipeline: 3 } #-}")
                .unwrap_err()
                .contains("not a string")
        );
        assert!(Reproducer::read("{-# mlir_reproducer: {").unwrap_err().contains("not closed"));
    }
}
