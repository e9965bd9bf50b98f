//! Whether this machine has what an image was compiled for. Without the check a missing instruction kills the process.

use crate::error::{Result, err};

macro_rules! table {
    ($($name:tt),*) => {
        /// The features that a target may name, with whether this machine has them.
        fn has(feature: &str) -> Option<bool> {
            match feature {
                $(
                    #[cfg(target_arch = "x86_64")]
                    $name => Some(std::arch::is_x86_feature_detected!($name)),
                )*
                _ => None,
            }
        }
    };
}
table!(
    "sse3",
    "ssse3",
    "sse4.1",
    "sse4.2",
    "popcnt",
    "avx",
    "avx2",
    "bmi1",
    "bmi2",
    "f16c",
    "fma",
    "lzcnt",
    "movbe",
    "avx512f",
    "avx512bw",
    "avx512cd",
    "avx512dq",
    "avx512vl",
    "avx512vnni",
    "avx512vbmi",
    "avx512bf16",
    "avx512fp16"
);

const V2: &[&str] = &["sse3", "ssse3", "sse4.1", "sse4.2", "popcnt"];
const V3: &[&str] = &["avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "lzcnt", "movbe"];
const V4: &[&str] = &["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"];

/// Checks a target: comma-separated, a level (`x86-64` to `x86-64-v4`) or features (`+avx2`), such as `x86-64-v3,+avx512f`.
pub fn check(target: &str) -> Result<()> {
    let mut missing = Vec::new();
    for part in target.split(',').map(str::trim).filter(|p| !p.is_empty()) {
        let groups: &[&[&str]] = match part {
            "x86-64" => &[],
            "x86-64-v2" => &[V2],
            "x86-64-v3" => &[V2, V3],
            "x86-64-v4" => &[V2, V3, V4],
            _ => {
                // LLVM writes bmi for what the processor's manual calls BMI1.
                let feature = part.strip_prefix('+').map(|f| if f == "bmi" { "bmi1" } else { f });
                match feature.and_then(has) {
                    Some(true) => {}
                    Some(false) => missing.push(part),
                    None => {
                        return Err(err!(Artifact, "the kernel image has the unknown target '{part}'").next(
                            "compile for x86-64, x86-64-v2, -v3, -v4, or a list such as x86-64-v3,+avx512f",
                        ));
                    }
                }
                continue;
            }
        };
        missing.extend(groups.iter().copied().flatten().filter(|f| has(f) != Some(true)));
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(err!(Artifact, "the kernels are for {target}, but this processor lacks {}", missing.join(", "))
        .next("compile the artifact for this processor (--target=cpu)"))
}

/// The highest level that this machine reaches, with the features beside it that code for narrow floats gains from:
/// `x86-64-v4,+avx512bf16`.
pub fn native() -> String {
    let all = |list: &[&str]| list.iter().all(|f| has(f) == Some(true));
    let level = match () {
        _ if all(V2) && all(V3) && all(V4) => "x86-64-v4",
        _ if all(V2) && all(V3) => "x86-64-v3",
        _ if all(V2) => "x86-64-v2",
        _ => "x86-64",
    };
    if level == "x86-64-v4" && all(&["avx512bf16"]) { format!("{level},+avx512bf16") } else { level.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_features() {
        assert!(check("").is_ok() && check("x86-64").is_ok());
        assert!(check("riscv64").unwrap_err().reason().contains("unknown target 'riscv64'"));
        assert!(check("x86-64,+teleport").unwrap_err().reason().contains("'+teleport'"));
        let v4 = V4.iter().all(|f| has(f) == Some(true)) && check("x86-64-v3").is_ok();
        assert_eq!(check("x86-64-v4").is_ok(), v4);
    }
}
