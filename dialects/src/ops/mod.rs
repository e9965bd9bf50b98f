//! The op table: one row an op, in files by theme.

mod bits;
mod calls;
mod choices;
mod composites;
mod constants;
pub mod indexing;
mod pointwise;
pub mod products;
pub mod reductions;
pub mod sorting;
mod views;

use crate::spec::{OpSpec, Violation};
use crate::types::TensorType;
use crate::view::OpView;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Every row, by theme.
pub static THEMES: &[(&str, &[OpSpec])] = &[
    ("constants", constants::ROWS),
    ("pointwise", pointwise::ROWS),
    ("bits", bits::ROWS),
    ("choices", choices::ROWS),
    ("views", views::ROWS),
    ("reductions", reductions::ROWS),
    ("sorting", sorting::ROWS),
    ("products", products::ROWS),
    ("indexing", indexing::ROWS),
    ("composites", composites::ROWS),
    ("calls", calls::ROWS),
];

static BY_NAME: LazyLock<BTreeMap<&'static str, &'static OpSpec>> =
    LazyLock::new(|| all().map(|row| (row.name, row)).collect());

/// Every row, in the order of the table.
pub fn all() -> impl Iterator<Item = &'static OpSpec> {
    THEMES.iter().flat_map(|(_, rows)| rows.iter())
}

/// The row of an op by its full name.
pub fn lookup(name: &str) -> Option<&'static OpSpec> {
    BY_NAME.get(name).copied()
}

/// C0, which every op that states its result types shares: exactly `n` results.
pub(crate) fn stated(view: &OpView, n: usize) -> Result<Vec<TensorType>, Violation> {
    if view.results.len() != n {
        return Violation::err("C0", format!("states {} result types, expected {n}", view.results.len()));
    }
    Ok(view.results.clone())
}

/// Checks that `dims` are different dimensions of a tensor of rank `rank`.
pub(crate) fn check_dims(
    label: &'static str,
    what: &str,
    dims: &[i64],
    rank: usize,
) -> Result<(), Violation> {
    for (i, &d) in dims.iter().enumerate() {
        if d < 0 || d as usize >= rank {
            return Violation::err(label, format!("{what} {d} is out of range for rank {rank}"));
        }
        if dims[..i].contains(&d) {
            return Violation::err(label, format!("{what} {d} occurs twice"));
        }
    }
    Ok(())
}
