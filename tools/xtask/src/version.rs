//! Versions in what programs print about themselves.

use std::fmt;

/// A dotted version; missing parts are 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32, pub u32);

impl Version {
    /// The first dotted number in the text: `rustc 1.95.0 (…)`, `Debian clang version 22.1.8`, `V12.9.86`.
    pub fn find(text: &str) -> Option<Self> {
        let is_part = |c: char| c.is_ascii_digit() || c == '.';
        text.split(|c: char| !is_part(c)).find_map(Self::parse)
    }

    /// `1.95`, `1.95.0`, `1.95.0.3`; one number alone is not a version.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim_matches('.');
        let mut parts = text.split('.').map(str::parse::<u32>);
        let (major, minor) = (parts.next()?.ok()?, parts.next()?.ok()?);
        Some(Self(major, minor, parts.next().and_then(|part| part.ok()).unwrap_or(0)))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn found_in_real_output() {
        let cases = [
            ("rustc 1.95.0 (f00 2026-04-14)", Version(1, 95, 0)),
            ("Debian clang version 22.1.8 (1~deb12u1)", Version(22, 1, 8)),
            ("Python 3.11.7", Version(3, 11, 7)),
            ("Cuda compilation tools, release 12.9, V12.9.86", Version(12, 9, 0)),
            ("22.1.8", Version(22, 1, 8)),
            ("torch 2.11.0+cu130", Version(2, 11, 0)),
            ("cargo-nextest 0.9.140", Version(0, 9, 140)),
            ("580.159.04", Version(580, 159, 4)),
        ];
        for (text, version) in cases {
            assert_eq!(Version::find(text), Some(version), "{text}");
        }
    }

    #[test]
    fn a_lone_number_or_none_is_no_version() {
        for text in ["", "22", "lit", "...", "no 7 here"] {
            assert_eq!(Version::find(text), None, "{text}");
        }
    }

    #[test]
    fn ordered_by_number_not_by_text() {
        assert!(Version(1, 100, 0) > Version(1, 95, 9));
    }
}
