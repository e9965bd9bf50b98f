//! What depends on what once ops are grouped: a graph of units without cycles, built from the last op to the first.

use std::collections::BTreeSet;

/// A group of ops, or an op that stays by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unit(usize);

/// The units made so far, with the units that use their results.
///
/// Every unit is at a higher level than its users, so that a search for a unit need not look at lower ones: its cost is
/// what lies between the two, not the size of the program.
#[derive(Debug, Default)]
pub struct Units {
    level: Vec<usize>,
    users: Vec<BTreeSet<Unit>>,
    used: Vec<BTreeSet<Unit>>,
}

impl Units {
    /// A unit that nothing depends on.
    pub fn add(&mut self) -> Unit {
        self.level.push(0);
        self.users.push(BTreeSet::new());
        self.used.push(BTreeSet::new());
        Unit(self.level.len() - 1)
    }

    /// Notes that `user` uses a result of `unit`. It must not lead to `unit`.
    pub fn connect(&mut self, unit: Unit, user: Unit) {
        if unit == user || !self.users[unit.0].insert(user) {
            return;
        }
        self.used[user.0].insert(unit);
        let mut raise = vec![(unit, self.level[user.0] + 1)];
        while let Some((u, level)) = raise.pop() {
            if self.level[u.0] < level {
                self.level[u.0] = level;
                raise.extend(self.used[u.0].iter().map(|&v| (v, level + 1)));
            }
        }
    }

    /// Whether one of `from` is `to`, or its results are used on the way to `to`.
    pub fn leads(&self, from: impl IntoIterator<Item = Unit>, to: Unit) -> bool {
        let mut todo: Vec<Unit> = from.into_iter().collect();
        let mut seen = BTreeSet::new();
        while let Some(u) = todo.pop() {
            if u == to {
                return true;
            }
            if self.level[u.0] > self.level[to.0] && seen.insert(u) {
                todo.extend(&self.users[u.0]);
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Whether `to` is found by looking at everything.
    fn reaches(edges: &[(usize, usize)], from: usize, to: usize) -> bool {
        from == to || edges.iter().any(|&(a, b)| a == from && reaches(edges, b, to))
    }

    proptest! {
        /// Edges are added in any order, as joining groups does, where they make no cycle.
        #[test]
        fn the_same_answers_as_looking_at_everything(
            list in proptest::collection::vec((0usize..9, 0usize..9), 0..30),
        ) {
            let mut units = Units::default();
            let all: Vec<Unit> = (0..9).map(|_| units.add()).collect();
            let mut edges = Vec::new();
            for (a, b) in list {
                let cycle = reaches(&edges, b, a);
                prop_assert_eq!(units.leads([all[b]], all[a]), cycle, "{} to {} in {:?}", b, a, edges);
                if !cycle {
                    units.connect(all[a], all[b]);
                    edges.push((a, b));
                }
            }
        }
    }
}
