//! What `strata reduce` says of its work.

use crate::driver::reduce::ending::{Ending, Kind};
use crate::driver::reduce::search::{Progress, Reduced};
use serde_json::{Value, json};

/// A line for a smaller program.
pub fn progress(p: &Progress<'_>) -> String {
    let size = p.size;
    format!(
        "{:5} tried  {:4} ops  {:4} values  {:7} bytes  {}",
        p.tried, size.ops, size.values, size.text, p.step
    )
}

/// The end of a reduction, for people.
pub fn text(reduced: &Reduced, first: &Ending, command: &str) -> String {
    let (before, after) = (reduced.before, reduced.after);
    let mut out = format!(
        "reduced from {} ops and {} bytes to {} ops and {} bytes; {} programs tried\n",
        before.ops, before.text, after.ops, after.text, reduced.tried
    );
    if reduced.limited {
        out += "a limit ended the reduction; --max-candidates and --max-seconds set it\n";
    }
    // A command that was asked says no more than that it succeeded.
    if first.kind != Kind::Well {
        out += &format!("it {}\n", first.text());
    }
    out + &format!("reproduce with: {command}\n")
}

/// The same for programs.
pub fn json(reduced: &Reduced, first: &Ending, command: &str) -> Value {
    let moves: serde_json::Map<_, _> =
        reduced.moves.iter().map(|(n, c)| ((*n).to_owned(), json!(c))).collect();
    json!({
        "before": reduced.before, "after": reduced.after, "tried": reduced.tried, "limited": reduced.limited, "moves": moves,
        "fault": first, "command": command,
    })
}
