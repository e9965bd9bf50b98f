//! Reads the closing lines of test runners, and counts.

/// Counts of one suite.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Tests that passed.
    pub passed: usize,
    /// Tests that failed, timed out or could not start.
    pub failed: usize,
    /// Tests that were skipped, ignored or unsupported here.
    pub skipped: usize,
    /// Names of the failed tests, as far as the runner says them.
    pub failures: Vec<String>,
}

impl Counts {
    /// Adds another suite's counts.
    pub fn add(&mut self, other: &Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.failures.extend(other.failures.iter().cloned());
    }

    /// `3 passed, 0 failed`, with `, 2 skipped` where some were.
    pub fn line(&self) -> String {
        let skipped = if self.skipped > 0 { format!(", {} skipped", self.skipped) } else { String::new() };
        format!("{} passed, {} failed{skipped}", self.passed, self.failed)
    }
}

/// `Summary [ 0.1s] 3 tests run: 2 passed (1 slow), 1 failed, 4 skipped`. None without such a line.
pub fn nextest(text: &str) -> Option<Counts> {
    let mut counts = None;
    let mut failures = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some((_, rest)) = line.strip_prefix("Summary [").and_then(|rest| rest.split_once(':')) {
            let rest = without_parentheses(rest);
            let failed = ["failed", "timed out", "exec failed"];
            counts = Some(Counts {
                passed: number_before(&rest, &["passed"]),
                failed: number_before(&rest, &failed),
                skipped: number_before(&rest, &["skipped"]),
                failures: Vec::new(),
            });
        }
        let status =
            ["FAIL [", "TIMEOUT [", "SIGABRT [", "SIGSEGV ["].iter().find_map(|word| line.strip_prefix(word));
        if let Some((_, name)) = status.and_then(|rest| rest.split_once(']')) {
            let name =
                name.trim_start().trim_start_matches(|c: char| "()/ ".contains(c) || c.is_ascii_digit());
            push_new(&mut failures, name.trim());
        }
    }
    counts.map(|counts| Counts { failures, ..counts })
}

/// The sum of all `test result: ok. 3 passed; 0 failed; 1 ignored; …`. None without such a line.
pub fn cargo_test(text: &str) -> Option<Counts> {
    let mut total: Option<Counts> = None;
    for line in text.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("test result: ") {
            let rest = rest.replace(';', ",").replace("ok. ", "").replace("FAILED. ", "");
            total.get_or_insert_default().add(&Counts {
                passed: number_before(&rest, &["passed"]),
                failed: number_before(&rest, &["failed"]),
                skipped: number_before(&rest, &["ignored"]),
                failures: Vec::new(),
            });
        }
        if let Some(name) = line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED")) {
            push_new(&mut total.get_or_insert_default().failures, name);
        }
    }
    total
}

/// lit's table of totals.
pub fn lit(text: &str) -> Option<Counts> {
    let mut counts = Counts::default();
    let mut seen = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with("Total Discovered Tests:") {
            seen = true;
        }
        if let Some((label, number)) = line.split_once(':').filter(|_| seen) {
            let number = number.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0);
            match label.trim() {
                "Passed" | "Expectedly Failed" | "Passed With Retry" => counts.passed += number,
                "Failed" | "Unresolved" | "Timed Out" | "Unexpectedly Passed" => counts.failed += number,
                "Unsupported" | "Skipped" => counts.skipped += number,
                _ => {}
            }
        }
        let status = ["FAIL: ", "XPASS: ", "UNRESOLVED: ", "TIMEOUT: "]
            .iter()
            .find_map(|word| line.strip_prefix(word));
        if let Some((_, name)) = status.and_then(|rest| rest.split_once(" :: ")) {
            push_new(&mut counts.failures, name.split(" (").next().unwrap_or(name));
        }
    }
    seen.then_some(counts)
}

/// pytest's last line: `1 failed, 3 passed, 2 skipped in 0.12s`, with or without `=` around it.
pub fn pytest(text: &str) -> Option<Counts> {
    let line = text.lines().rev().map(|line| line.trim_matches(['=', ' '])).find(|line| {
        let words = ["passed", "failed", "skipped", "error", "errors", "no tests ran", "deselected"];
        line.contains(" in ") && words.iter().any(|word| line.contains(word))
    })?;
    let mut failures = Vec::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("FAILED ").or_else(|| line.strip_prefix("ERROR ")) {
            push_new(&mut failures, rest.split(" - ").next().unwrap_or(rest).trim());
        }
    }
    let line = line.split(" in ").next().unwrap_or(line);
    Some(Counts {
        passed: number_before(line, &["passed", "xfailed"]),
        failed: number_before(line, &["failed", "error", "errors", "xpassed"]),
        skipped: number_before(line, &["skipped"]),
        failures,
    })
}

/// Sums the numbers of the parts `N LABEL` between commas whose label is one of `labels`.
fn number_before(text: &str, labels: &[&str]) -> usize {
    let parts = text.split(',').filter_map(|part| part.trim().split_once(' '));
    parts
        .filter(|(_, label)| labels.contains(&label.trim()))
        .filter_map(|(n, _)| n.parse::<usize>().ok())
        .sum()
}

fn without_parentheses(text: &str) -> String {
    let mut depth = 0;
    text.chars()
        .filter(|&c| {
            depth += i32::from(c == '(');
            let keep = depth == 0;
            depth -= i32::from(c == ')');
            keep
        })
        .collect()
}

fn push_new(names: &mut Vec<String>, name: &str) {
    if !names.iter().any(|known| known == name) {
        names.push(name.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(passed: usize, failed: usize, skipped: usize, failures: &[&str]) -> Counts {
        Counts { passed, failed, skipped, failures: failures.iter().map(|&name| name.into()).collect() }
    }

    #[test]
    fn nextest_summary() {
        let text = "\
        FAIL [   0.004s] (2/4) strata-mlir-runtime sym::tests::broken
        PASS [   0.004s] (3/4) strata-mlir-runtime sym::tests::fine
────────────
     Summary [   0.031s] 4 tests run: 3 passed (1 slow, 1 leaky), 1 failed, 7 skipped
        FAIL [   0.004s] (2/4) strata-mlir-runtime sym::tests::broken
error: test run failed";
        assert_eq!(nextest(text), Some(counts(3, 1, 7, &["strata-mlir-runtime sym::tests::broken"])));
        let timeouts = "     Summary [ 60.0s] 3 tests run: 1 passed, 1 failed, 1 timed out, 0 skipped";
        assert_eq!(nextest(timeouts), Some(counts(1, 2, 0, &[])));
        assert_eq!(nextest("error: could not compile `x`"), None);
    }

    #[test]
    fn cargo_test_summary_adds_up_over_binaries() {
        let text = "\
running 2 tests
test a::b ... ok
test a::c ... FAILED
test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
test result: ok. 5 passed; 0 failed; 2 ignored; 0 measured; 3 filtered out; finished in 0.00s";
        assert_eq!(cargo_test(text), Some(counts(6, 1, 2, &["a::c"])));
        assert_eq!(cargo_test("error[E0425]: cannot find"), None);
    }

    #[test]
    fn lit_summary() {
        let text = "\
-- Testing: 4 tests, 2 workers --
FAIL: strata :: graph/cse.mlir (4 of 4)
Failed Tests (1):
  strata :: graph/cse.mlir

Total Discovered Tests: 5
  Unsupported      : 1 (20.00%)
  Passed           : 2 (40.00%)
  Expectedly Failed: 1 (20.00%)
  Failed           : 1 (20.00%)";
        assert_eq!(lit(text), Some(counts(3, 1, 1, &["graph/cse.mlir"])));
        assert_eq!(lit("lit: error: did not discover any tests"), None);
    }

    #[test]
    fn pytest_summary() {
        let text =
            "FAILED tests/test_a.py::test_x - assert 1 == 2\n=== 1 failed, 3 passed, 2 skipped in 0.12s ===";
        assert_eq!(pytest(text), Some(counts(3, 1, 2, &["tests/test_a.py::test_x"])));
        assert_eq!(pytest("3 passed, 1 warning in 0.01s"), Some(counts(3, 0, 0, &[])));
        assert_eq!(pytest("1 passed, 1 error in 0.01s"), Some(counts(1, 1, 0, &[])));
        assert_eq!(pytest("no tests ran in 0.01s"), Some(counts(0, 0, 0, &[])));
        assert_eq!(pytest("Traceback (most recent call last):"), None);
    }

    #[test]
    fn totals_read_plainly() {
        let mut total = counts(3, 0, 0, &[]);
        assert_eq!(total.line(), "3 passed, 0 failed");
        total.add(&counts(1, 2, 3, &["x"]));
        assert_eq!(total.line(), "4 passed, 2 failed, 3 skipped");
    }
}
