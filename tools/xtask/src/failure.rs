//! A failed chore: what failed, the command that did, and what to do about it.

use std::fmt;

/// The result of a chore or of one of its steps.
pub type Result<T> = std::result::Result<T, Failure>;

/// A failed chore. Printed as up to three lines: what, command, next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    what: String,
    command: Option<String>,
    fix: Option<String>,
}

impl Failure {
    /// A failure that is described by one sentence.
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), command: None, fix: None }
    }

    /// Adds the command line that failed.
    pub fn command(mut self, command: impl Into<String>) -> Self {
        self.command = Some(command.into());
        self
    }

    /// Adds the next step for the reader; replaces an earlier, more general one.
    pub fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.what)?;
        if let Some(command) = &self.command {
            write!(f, "\n  command: {command}")?;
        }
        if let Some(fix) = &self.fix {
            write!(f, "\n  to fix:  {fix}")?;
        }
        Ok(())
    }
}

/// Puts a sentence before an I/O error.
pub trait Context<T> {
    /// Turns the error into a [`Failure`] that starts with `what`.
    fn context(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: fmt::Display> Context<T> for std::result::Result<T, E> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| Failure::new(format!("{}: {error}", what())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_only_what_is_known() {
        assert_eq!(Failure::new("no disk").to_string(), "error: no disk");
        let full = Failure::new("no disk").command("dd").fix("buy one").to_string();
        assert_eq!(full, "error: no disk\n  command: dd\n  to fix:  buy one");
    }
}
