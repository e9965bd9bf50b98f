//! What is looked for: which programs are interesting.

use crate::driver::reduce::ending::{Checks, Ending, Kind};
use std::time::Duration;

/// What a program must show.
#[derive(Clone, Debug, PartialEq)]
pub enum Oracle {
    /// The compiler dies, panics or fails; with this text, if one is given, in what it says.
    Crash {
        /// The text.
        message: Option<String>,
    },
    /// A step leaves a module that does not verify.
    Verifier,
    /// A step changes what the program computes.
    Wrong {
        /// Of the inputs.
        seed: u64,
    },
    /// The pipeline takes longer than this.
    Slow {
        /// The time.
        limit: Duration,
    },
    /// A command succeeds on the program's file.
    Test {
        /// For a shell; `{}` stands for the file, which else is the last argument.
        command: String,
    },
}

impl Oracle {
    /// What must be looked at while a program is sent through the pipeline.
    pub fn checks(&self) -> Checks {
        match self {
            Self::Verifier => Checks::Verifier,
            Self::Wrong { seed } => Checks::Semantics(*seed),
            Self::Crash { .. } | Self::Slow { .. } | Self::Test { .. } => Checks::None,
        }
    }

    /// Whether an end shows what is looked for. `first`: the end of the program that the reduction began with; only the same fault
    /// counts, not another one that a smaller program happens to have.
    pub fn shows(&self, ending: &Ending, first: Option<&Ending>) -> bool {
        let same = first.is_none_or(|first| ending.is_like(first));
        match self {
            Self::Crash { message: Some(text) } => {
                matches!(ending.kind, Kind::Failed | Kind::Panicked | Kind::Invalid | Kind::Died(_))
                    && ending.message.contains(text.as_str())
            }
            Self::Crash { message: None } => {
                matches!(ending.kind, Kind::Failed | Kind::Panicked | Kind::Invalid | Kind::Died(_)) && same
            }
            Self::Verifier => ending.kind == Kind::Invalid && same,
            Self::Wrong { .. } => ending.kind == Kind::Wrong && same,
            Self::Slow { .. } => ending.kind == Kind::Slow,
            // The command's success is reported as a good end of the way.
            Self::Test { .. } => ending.kind == Kind::Well,
        }
    }

    /// What an end shows, looked at with [`Checks::Semantics`]; nothing where all is well.
    pub fn for_ending(ending: &Ending, seed: u64) -> Option<Self> {
        match ending.kind {
            Kind::Failed | Kind::Panicked | Kind::Died(_) => Some(Self::Crash { message: None }),
            Kind::Invalid => Some(Self::Verifier),
            Kind::Wrong => Some(Self::Wrong { seed }),
            Kind::Well | Kind::Rejected | Kind::Slow => None,
        }
    }

    /// The options of `strata reduce` that ask for it.
    pub fn options(&self) -> String {
        let quoted = |t: &str| format!("'{}'", t.replace('\'', r"'\''"));
        match self {
            Self::Crash { message: None } => "--crash".to_owned(),
            Self::Crash { message: Some(text) } => format!("--crash={}", quoted(text)),
            Self::Verifier => "--verifier".to_owned(),
            Self::Wrong { seed: 0 } => "--wrong".to_owned(),
            Self::Wrong { seed } => format!("--wrong={seed}"),
            Self::Slow { limit } => format!("--slow={}", limit.as_secs_f64()),
            Self::Test { command } => format!("--test={}", quoted(command)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ending(kind: Kind, pass: &str, message: &str) -> Ending {
        Ending { kind, step: Some(1), pass: Some(pass.into()), message: message.into() }
    }

    #[test]
    fn only_the_same_fault_counts() {
        let wrong = Oracle::Wrong { seed: 0 };
        let first = ending(Kind::Wrong, "fuse", "");
        assert!(wrong.shows(&ending(Kind::Wrong, "fuse", "other numbers"), Some(&first)));
        assert!(!wrong.shows(&ending(Kind::Wrong, "cse", ""), Some(&first)));
        assert!(!wrong.shows(&ending(Kind::Panicked, "fuse", ""), Some(&first)));
        let crash = Oracle::Crash { message: None };
        let died = ending(Kind::Died(6), "fuse", "");
        assert!(crash.shows(&died, Some(&died)));
        assert!(!crash.shows(&ending(Kind::Died(11), "fuse", ""), Some(&died)));
        assert!(!crash.shows(&ending(Kind::Wrong, "fuse", ""), None));
    }

    #[test]
    fn a_text_is_enough_where_one_is_given() {
        let crash = Oracle::Crash { message: Some("dominate".into()) };
        assert!(crash.shows(&ending(Kind::Invalid, "fuse", "does not dominate this use"), None));
        assert!(!crash.shows(&ending(Kind::Invalid, "fuse", "another"), None));
        assert!(!crash.shows(&ending(Kind::Well, "fuse", "dominate"), None));
    }
}
