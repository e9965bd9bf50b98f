//! The compile server.
