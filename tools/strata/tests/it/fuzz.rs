//! Mutated programs: whatever comes in, diagnostics come out. No crash, no panic, no hang.

use std::path::Path;
use std::process::Command;
use strata_runtime::tensor::SplitMix64;

/// Parts of valid programs that mutation starts from.
fn corpus() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lit-tests");
    let mut files: Vec<_> = ["graph", "tensor", "loop-samples"]
        .iter()
        .flat_map(|level| std::fs::read_dir(folder.join(level)).into_iter().flatten().flatten())
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "mlir"))
        .collect();
    files.sort();
    let mut parts = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(file).unwrap();
        let code: Vec<_> = text.lines().filter(|l| !l.trim_start().starts_with("//")).collect();
        // One function each, so that most of a mutant is still valid and gets far.
        let starts: Vec<_> = (0..code.len()).filter(|&i| code[i].starts_with("func.func")).collect();
        for (k, &start) in starts.iter().enumerate() {
            parts.push(code[start..starts.get(k + 1).copied().unwrap_or(code.len())].join("\n"));
        }
    }
    parts.retain(|p| p.len() < 6000);
    parts
}

fn tokens(text: &str) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for c in text.chars() {
        let word = |c: char| c.is_alphanumeric() || "_.%@#".contains(c);
        match out.last_mut() {
            Some(last) if word(c) && last.chars().all(word) => last.push(c),
            _ => out.push(c.to_string()),
        }
    }
    out
}

fn mutate(text: &str, other: &str, random: &mut SplitMix64) -> String {
    const NUMBERS: [&str; 10] = [
        "0",
        "1",
        "-1",
        "2",
        "7",
        "64",
        "4294967296",
        "9223372036854775807",
        "-9223372036854775808",
        "1.0e30",
    ];
    const WORDS: [&str; 12] =
        ["?", "f32", "bf16", "i1", "i64", "f8E5M2", "tensor", "<", ">", "graph.exp", "s9", "x"];
    const OPS: [&str; 8] = [
        "graph.add",
        "graph.sub",
        "graph.mul",
        "graph.div",
        "graph.exp",
        "graph.tanh",
        "graph.softmax",
        "graph.not",
    ];
    let (mut list, others) = (tokens(text), tokens(other));
    let mut pick = |n: usize| (random.next_u64() % n.max(1) as u64) as usize;
    for _ in 0..1 + pick(2) {
        let at = pick(list.len());
        match pick(14) {
            // Likely still valid: another op of the same syntax, another value.
            8..=10 => {
                let ops: Vec<_> = (0..list.len()).filter(|&i| OPS.contains(&list[i].as_str())).collect();
                if !ops.is_empty() {
                    list[ops[pick(ops.len())]] = OPS[pick(OPS.len())].to_owned();
                }
            }
            11..=13 => {
                let values: Vec<_> = (0..list.len()).filter(|&i| list[i].starts_with('%')).collect();
                if values.len() > 1 {
                    list[values[pick(values.len())]] = list[values[pick(values.len())]].clone();
                }
            }
            0 => drop(list.remove(at)),
            1 => list.insert(at, list[pick(list.len())].clone()),
            2 => list[at] = others[pick(others.len())].clone(),
            3 | 4 => {
                let numbers: Vec<_> =
                    (0..list.len()).filter(|&i| list[i].starts_with(|c: char| c.is_ascii_digit())).collect();
                if !numbers.is_empty() {
                    list[numbers[pick(numbers.len())]] = NUMBERS[pick(NUMBERS.len())].to_owned();
                }
            }
            5 => list[at] = WORDS[pick(WORDS.len())].to_owned(),
            6 => {
                let to = pick(list.len());
                list.swap(at, to);
            }
            _ if pick(8) == 0 => list.truncate(at.max(1)),
            _ => list[at] = char::from(33 + pick(94) as u8).to_string(),
        }
        if list.is_empty() {
            break;
        }
    }
    list.concat()
}

#[test]
fn two_hundred_mutants_give_diagnostics_only() {
    let corpus = corpus();
    assert!(corpus.len() > 20, "{} programs to start from", corpus.len());
    let mut random = SplitMix64::new(20_26);
    let folder = tempfile::tempdir().unwrap();
    let (mut failed, mut passed) = (0, 0);
    // Batches, because starting a process takes longer than a program. A crash in one shows as a crash of its batch.
    for batch in 0..4 {
        let mutants: Vec<_> = (0..50)
            .map(|_| {
                let a = &corpus[(random.next_u64() % corpus.len() as u64) as usize];
                let b = &corpus[(random.next_u64() % corpus.len() as u64) as usize];
                mutate(a, b, &mut random)
            })
            .collect();
        let file = folder.path().join(format!("batch-{batch}.mlir"));
        std::fs::write(&file, mutants.join("\n// -----\n")).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_strata"))
            .arg("opt")
            .arg(&file)
            .args([
                "--split-input-file",
                "--timeout=120",
                "--passes=canonicalize,cse,decompose-composites,fuse,outline-kernels",
            ])
            .arg(format!("--reproducer-dir={}", folder.path().display()))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let bad = said.lines().find(|line| {
            ["ended by signal", "panicked", "did not end", "internal error", "overflowed", "ended with code"]
                .iter()
                .any(|text| line.contains(text))
        });
        if let Some(line) = bad {
            let kept = std::env::temp_dir().join(format!("strata-fuzz-batch-{batch}.mlir"));
            std::fs::copy(&file, &kept).unwrap();
            panic!("{line}\nbatch kept as {}", kept.display());
        }
        assert!(matches!(output.status.code(), Some(0 | 1)), "{:?}: {said}", output.status);
        let rejected = said.lines().filter(|l| l.contains("error:") && l.contains("batch-")).count();
        failed += rejected;
        passed += String::from_utf8_lossy(&output.stdout).matches("func.func @").count();
    }
    // The mutants are neither all valid nor all nonsense.
    assert!(failed > 40 && passed > 5, "{failed} rejected, {passed} accepted");
}
