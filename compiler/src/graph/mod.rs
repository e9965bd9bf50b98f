//! Passes on the graph level.
