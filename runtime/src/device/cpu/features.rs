//! Whether this machine has what an image was compiled for. Without the check a missing instruction kills the process.

use crate::error::{Result, err};

/// LLVM writes bmi for what the processor's manual calls BMI1.
macro_rules! detected {
    ("bmi") => {
        std::arch::is_x86_feature_detected!("bmi1")
    };
    ($name:tt) => {
        std::arch::is_x86_feature_detected!($name)
    };
}

macro_rules! table {
    ($($name:tt),*) => {
        /// Whether this machine has a feature, by LLVM's name; `None` where nobody knows how to tell.
        fn has(feature: &str) -> Option<bool> {
            match feature {
                $(
                    #[cfg(target_arch = "x86_64")]
                    $name => Some(detected!($name)),
                )*
                _ => None,
            }
        }

        /// The features that a target may name beyond its level, by LLVM's names.
        pub const FEATURES: &[&str] = &[$($name),*];
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
    "bmi",
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

/// The levels of x86-64, lowest first, each with the features that it adds.
pub const LEVELS: [(&str, &[&str]); 4] = [
    ("x86-64", &[]),
    ("x86-64-v2", &["sse3", "ssse3", "sse4.1", "sse4.2", "popcnt"]),
    ("x86-64-v3", &["avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"]),
    ("x86-64-v4", &["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"]),
];

/// All features of a level; `None` where it is no level.
fn features_of(level: &str) -> Option<impl Iterator<Item = &'static str>> {
    let at = LEVELS.iter().position(|(name, _)| *name == level)?;
    Some(LEVELS[..=at].iter().flat_map(|(_, features)| features.iter().copied()))
}

/// Whether code for a target (comma-separated, such as `x86-64-v3,+avx512f`) may use a feature.
pub fn includes(target: &str, feature: &str) -> bool {
    target.split(',').map(str::trim).any(|part| match part.strip_prefix('+') {
        Some(name) => name == feature,
        None => features_of(part).is_some_and(|mut all| all.any(|f| f == feature)),
    })
}

/// Checks a target: comma-separated, a level (`x86-64` to `x86-64-v4`) or features (`+avx2`), such as `x86-64-v3,+avx512f`.
pub fn check(target: &str) -> Result<()> {
    let mut missing: Vec<&str> = Vec::new();
    for part in target.split(',').map(str::trim).filter(|p| !p.is_empty()) {
        if let Some(features) = features_of(part) {
            missing.extend(features.map(|f| -> &str { f }).filter(|f| has(f) != Some(true)));
            continue;
        }
        match part.strip_prefix('+').and_then(has) {
            Some(true) => {}
            Some(false) => missing.push(part),
            None => {
                return Err(err!(Artifact, "the kernel image has the unknown target '{part}'")
                    .next("compile for x86-64, x86-64-v2, -v3, -v4, or a list such as x86-64-v3,+avx512f"));
            }
        }
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
    let reached = |features: &[&str]| features.iter().all(|f| has(f) == Some(true));
    let level =
        LEVELS.iter().take_while(|(_, features)| reached(features)).last().expect("the first adds none").0;
    if level == "x86-64-v4" && reached(&["avx512bf16"]) {
        format!("{level},+avx512bf16")
    } else {
        level.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_features() {
        assert!(check("").is_ok() && check("x86-64").is_ok());
        assert!(check("riscv64").unwrap_err().reason().contains("unknown target 'riscv64'"));
        assert!(check("x86-64,+teleport").unwrap_err().reason().contains("'+teleport'"));
        let v4 = LEVELS[3].1.iter().all(|f| has(f) == Some(true)) && check("x86-64-v3").is_ok();
        assert_eq!(check("x86-64-v4").is_ok(), v4);
        check(&native()).unwrap();
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn the_table_knows_every_feature_of_a_level() {
        assert!(features_of("x86-64-v4").unwrap().all(|f| FEATURES.contains(&f) && has(f).is_some()));
    }

    #[test]
    fn what_a_target_includes() {
        assert!(includes("x86-64-v3", "popcnt") && includes("x86-64-v3", "fma"));
        assert!(!includes("x86-64-v2", "fma") && includes("x86-64-v2,+fma", "fma"));
        assert!(!includes("x86-64-v4", "avx512bf16") && !includes("znver4", "sse3"));
    }
}
