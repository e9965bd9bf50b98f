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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::reduce::search::{Limits, reduce};

    #[test]
    fn a_report_says_what_was_done_and_how_to_see_the_fault() {
        let program = "func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {\n  %0 = graph.exp %x : tensor<4xf32>\n  \
                       %1 = graph.neg %0 : tensor<4xf32>\n  return %1 : tensor<4xf32>\n}\n";
        let limits = Limits { candidates: 3, time: None };
        let mut lines = String::new();
        let reduced = reduce(program, limits, &mut |text| Ok(text.contains("graph.exp")), &mut |p| {
            lines += &(progress(&p) + "\n");
        })
        .expect("a reduction");
        let first = Ending {
            kind: Kind::Panicked,
            step: Some(1),
            pass: Some("fuse".into()),
            message: "a bug".into(),
        };
        let said = lines + &text(&reduced, &first, "strata opt --run-reproducer a.mlir");
        insta::assert_snapshot!(said.trim_start(), @r"
        2 tried     1 ops     3 values      142 bytes  cut-ops
        reduced from 2 ops and 180 bytes to 1 ops and 142 bytes; 3 programs tried
        a limit ended the reduction; --max-candidates and --max-seconds set it
        it panics in 'fuse': a bug
        reproduce with: strata opt --run-reproducer a.mlir
        ");
        assert_eq!(json(&reduced, &first, "c")["after"]["ops"], 1);
    }
}
