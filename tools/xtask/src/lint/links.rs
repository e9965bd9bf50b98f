//! Relative links in Markdown files must lead somewhere.

use crate::failure::Result;
use std::path::{Path, PathBuf};

/// Links to files that do not exist, and to headings that a Markdown file does not have.
pub fn broken(root: &Path, files: &[PathBuf]) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.extension().is_some_and(|ext| ext == "md")) {
        let text = std::fs::read_to_string(root.join(file)).unwrap_or_default();
        for (line, target) in targets(&text) {
            if let Some(why) = problem(root, file, &text, &target) {
                findings.push(format!("{}:{line}: link to {target}: {why}", file.display()));
            }
        }
    }
    Ok(findings)
}

fn problem(root: &Path, file: &Path, text: &str, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, heading) =
        target.split_once('#').map_or((target, None), |(path, heading)| (path, Some(heading)));
    let to =
        if path.is_empty() { file.to_path_buf() } else { file.parent().unwrap_or(Path::new("")).join(path) };
    if !root.join(&to).exists() {
        return Some("no such file".into());
    }
    let heading = heading.filter(|_| to.extension().is_some_and(|ext| ext == "md"))?;
    let text =
        if path.is_empty() { text.to_owned() } else { std::fs::read_to_string(root.join(&to)).ok()? };
    (!anchors(&text).iter().any(|anchor| anchor == heading)).then(|| format!("no heading #{heading}"))
}

/// Lines outside of fenced code, numbered from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(number, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        (!fenced && !fence).then_some((number + 1, line))
    })
}

/// Targets of `[text](target)` outside of code.
fn targets(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        // Every second piece is inside of back-quotes.
        let outside: String = line.split('`').step_by(2).collect::<Vec<_>>().join("code");
        for (at, _) in outside.match_indices("](") {
            let rest = &outside[at + 2..];
            if let Some(end) = rest.find([')', ' ']).filter(|&end| end > 0) {
                found.push((number, rest[..end].to_owned()));
            }
        }
    }
    found
}

/// Headings as the usual renderers name them: lower case, spaces to dashes, punctuation dropped.
fn anchors(text: &str) -> Vec<String> {
    let headings = prose(text).filter(|(_, line)| line.starts_with('#'));
    headings
        .map(|(_, line)| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            title
                .chars()
                .filter_map(|c| match c {
                    ' ' => Some('-'),
                    c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
                    _ => None,
                })
                .collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_in_code_are_not_links() {
        let text = "[a](x.md) and `[b](y.md)`\n```\n[c](z.md)\n```\n[d](w.md \"title\")";
        assert_eq!(targets(text), vec![(1, "x.md".to_owned()), (5, "w.md".to_owned())]);
    }

    #[test]
    fn files_and_headings_are_checked() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("docs")).unwrap();
        std::fs::write(
            root.path().join("README.md"),
            "# The `plan`, in short\n[x](docs/a.md#one-two) [y](docs/no.md)",
        )
        .unwrap();
        std::fs::write(
            root.path().join("docs/a.md"),
            "## One: two\n[up](../README.md#the-plan-in-short) [me](#three)",
        )
        .unwrap();
        let findings = broken(root.path(), &["README.md".into(), "docs/a.md".into()]).unwrap();
        assert_eq!(
            findings,
            [
                "README.md:2: link to docs/no.md: no such file",
                "docs/a.md:2: link to #three: no heading #three"
            ]
        );
    }
}
