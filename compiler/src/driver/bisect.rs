//! Bisection: which step of a pipeline, and which rewrite of that step, makes a program bad.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A place in a pipeline: so many steps, and of the last one so many rewrites only. `4`, or `4.2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Point {
    /// How many steps run.
    pub step: usize,
    /// How many rewrites the last of them makes; all where nothing is said.
    pub rewrites: Option<u64>,
}

impl Point {
    /// Behind a whole step.
    pub fn after(step: usize) -> Self {
        Self { step, rewrites: None }
    }
}

impl FromStr for Point {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (step, rewrites) = text.split_once('.').map_or((text, None), |(s, r)| (s, Some(r)));
        let wrong =
            || format!("'{text}' is not a number of steps such as 4, or steps and rewrites such as 4.2");
        let rewrites = rewrites.map(|r| r.parse().map_err(|_| wrong())).transpose()?;
        Ok(Self { step: step.parse().map_err(|_| wrong())?, rewrites })
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.step)?;
        self.rewrites.map_or(Ok(()), |r| write!(f, ".{r}"))
    }
}

/// A program and a pipeline in a few characters: answers that were kept are about no others.
pub fn key(program: &[u8], pipeline: &str) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(program).update(&[0]).update(pipeline.as_bytes());
    hasher.finalize().to_hex()[..16].to_owned()
}

/// The search. The program is good before any step and bad behind the last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bisection {
    /// Behind so many steps it is good.
    good: usize,
    /// Behind so many it is bad.
    bad: usize,
    /// The same of the rewrites of the step between.
    rewrites: Option<(u64, u64)>,
}

impl Bisection {
    /// Of a pipeline with so many steps.
    pub fn new(steps: usize) -> Self {
        Self { good: 0, bad: steps, rewrites: None }
    }

    /// Where to look next; nothing where all is known.
    pub fn next(&self) -> Option<Point> {
        if self.bad > self.good + 1 {
            return Some(Point::after((self.good + self.bad) / 2));
        }
        let (good, bad) = self.rewrites?;
        (bad > good + 1).then(|| Point { step: self.bad, rewrites: Some((good + bad) / 2) })
    }

    /// Notes what was found at [`next`](Self::next).
    pub fn mark(&mut self, bad: bool) {
        let Some(point) = self.next() else { return };
        match (point.rewrites, bad) {
            (None, true) => self.bad = point.step,
            (None, false) => self.good = point.step,
            (Some(n), true) => self.rewrites = self.rewrites.map(|(good, _)| (good, n)),
            (Some(n), false) => self.rewrites = self.rewrites.map(|(_, bad)| (n, bad)),
        }
    }

    /// The bad step, from 1, as soon as it is known.
    pub fn step(&self) -> Option<usize> {
        (self.bad == self.good + 1).then_some(self.bad)
    }

    /// Goes on with the rewrites of the bad step. Without any of them the step does nothing.
    pub fn look_into(&mut self, rewrites: u64) {
        if self.step().is_some() && self.rewrites.is_none() && rewrites > 0 {
            self.rewrites = Some((0, rewrites));
        }
    }

    /// The bad step and the bad one of its rewrites, both from 1, if all is known.
    pub fn found(&self) -> Option<Point> {
        let step = self.step().filter(|_| self.next().is_none())?;
        Some(Point { step, rewrites: self.rewrites.map(|(_, bad)| bad) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(steps: usize, rewrites: u64, bad_at: Point) -> (Option<Point>, usize) {
        let mut b = Bisection::new(steps);
        let mut asked = 0;
        loop {
            if b.step() == Some(bad_at.step) {
                b.look_into(rewrites);
            }
            let Some(point) = b.next() else { return (b.found(), asked) };
            asked += 1;
            let bad = match point.rewrites {
                None => point.step >= bad_at.step,
                Some(n) => bad_at.rewrites.is_some_and(|m| n >= m),
            };
            b.mark(bad);
        }
    }

    #[test]
    fn every_step_and_rewrite_is_found() {
        for step in 1..=13 {
            assert_eq!(search(13, 0, Point::after(step)).0, Some(Point::after(step)));
            for rewrite in 1..=9 {
                let at = Point { step, rewrites: Some(rewrite) };
                let (found, asked) = search(13, 9, at);
                assert_eq!(found, Some(at));
                assert!(asked <= 8, "{asked} questions");
            }
        }
        assert_eq!(search(1, 0, Point::after(1)), (Some(Point::after(1)), 0));
    }

    #[test]
    fn points_are_read_and_written() {
        for text in ["4", "4.2", "0"] {
            assert_eq!(text.parse::<Point>().unwrap().to_string(), text);
        }
        assert!("4.x".parse::<Point>().unwrap_err().contains("such as 4.2"));
    }
}
