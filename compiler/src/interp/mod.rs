//! Reference interpreters of the levels.
