//! The upstream passes that pipelines may name. MLIR can print what is registered but not list it, so the list is a file,
//! `upstream.txt`, made by `strata opt --list-passes=upstream --names`; a lit test compares the two.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// A pass (or a pipeline under a name) of MLIR's own.
pub struct Upstream {
    /// Name in pipelines.
    pub name: &'static str,
    /// Names of its options.
    pub options: Vec<&'static str>,
}

static TABLE: LazyLock<BTreeMap<&'static str, Upstream>> = LazyLock::new(|| {
    include_str!("upstream.txt")
        .lines()
        .filter_map(|line| {
            let (name, options) = line.split_once(':')?;
            Some((name, Upstream { name, options: options.split_whitespace().collect() }))
        })
        .collect()
});

/// Every one of them, by name.
pub fn all() -> impl Iterator<Item = &'static Upstream> {
    TABLE.values()
}

/// The upstream pass of that name.
pub fn lookup(name: &str) -> Option<&'static Upstream> {
    TABLE.get(name)
}
