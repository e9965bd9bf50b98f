//! The one error type of the runtime. Every message says what is wrong, where, and what to do next.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A result of the runtime.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What kind of thing went wrong; for programs that decide by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An argument of a call does not fit the compiled function.
    Input,
    /// An index of a tensor operation is outside of its dimension.
    Index,
    /// A tensor file or a tensor operation.
    Tensor,
    /// An artifact file: corrupt, truncated, of another version.
    Artifact,
    /// A plan that breaks its rules.
    Plan,
    /// Text that does not parse.
    Parse,
    /// A device call failed.
    Device,
    /// Out of memory on the host or a device.
    Memory,
    /// Something that the runtime does not do.
    Unsupported,
    /// Reading or writing a file.
    Io,
    /// The compile server died or broke the protocol.
    Server,
    /// The compile server reports that it cannot compile.
    Compile,
}

/// An error with its reason, its place, and the next step.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub struct Error(Box<Inner>);

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Inner {
    kind: ErrorKind,
    reason: String,
    place: String,
    next: String,
}

impl Error {
    /// An error of `kind`, because of `reason`.
    pub fn new(kind: ErrorKind, reason: impl Into<String>) -> Self {
        Self(Box::new(Inner { kind, reason: reason.into(), place: String::new(), next: String::new() }))
    }

    /// Says where: a file, a step of a plan, a source line. Called again, the outer place comes first.
    #[must_use]
    pub fn at(mut self, place: impl fmt::Display) -> Self {
        let inner = &mut self.0;
        inner.place =
            if inner.place.is_empty() { place.to_string() } else { format!("{place}, {}", inner.place) };
        self
    }

    /// Says what to do next. The innermost advice, which knows most, stays.
    #[must_use]
    pub fn next(mut self, step: impl Into<String>) -> Self {
        if self.0.next.is_empty() {
            self.0.next = step.into();
        }
        self
    }

    /// An I/O error with the file it happened to.
    pub fn io(what: &str, path: &std::path::Path, e: &std::io::Error) -> Self {
        let next = match e.kind() {
            std::io::ErrorKind::NotFound => "check the path",
            std::io::ErrorKind::PermissionDenied => "check the permissions of the file and its folder",
            std::io::ErrorKind::StorageFull => "free some disk space",
            _ => "check the file and its file system",
        };
        Self::new(ErrorKind::Io, format!("cannot {what}: {e}")).at(path.display()).next(next)
    }

    /// What kind of error this is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// What is wrong.
    pub fn reason(&self) -> &str {
        &self.0.reason
    }

    /// Where; empty if nowhere in particular.
    pub fn place(&self) -> &str {
        &self.0.place
    }

    /// What to do; empty if unknown.
    pub fn next_step(&self) -> &str {
        &self.0.next
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.reason)?;
        if !self.0.place.is_empty() {
            write!(f, "\n  where: {}", self.0.place)?;
        }
        if !self.0.next.is_empty() {
            write!(f, "\n  next: {}", self.0.next)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)
    }
}

/// Returns an [`Error`] of a kind from the enclosing function: `bail!(Tensor, "message {x}")`.
macro_rules! bail {
    ($kind:ident, $($arg:tt)*) => {
        return Err($crate::error::Error::new($crate::error::ErrorKind::$kind, format!($($arg)*)))
    };
}
/// An [`Error`] of a kind: `err!(Tensor, "message {x}")`.
macro_rules! err {
    ($kind:ident, $($arg:tt)*) => {
        $crate::error::Error::new($crate::error::ErrorKind::$kind, format!($($arg)*))
    };
}
pub(crate) use {bail, err};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_reason_place_and_next_step() {
        let e = Error::new(ErrorKind::Input, "size 3, expected 4")
            .at("dimension 1")
            .at("parameter %x")
            .next("pass a tensor of the right size")
            .next("general advice");
        assert_eq!(
            e.to_string(),
            "size 3, expected 4\n  where: parameter %x, dimension 1\n  next: pass a tensor of the right size"
        );
    }
}
