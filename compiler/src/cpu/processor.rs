//! Which instructions code may use, in terms that the runtime can check before it runs the code.

use crate::target::Target;
use strata_runtime::device::cpu::features::{self, FEATURES, LEVELS};

/// A processor as code generation sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Processor {
    /// The level: `x86-64`, …, `x86-64-v4`.
    pub level: String,
    /// Features beyond it, as LLVM writes them: `+avx2,+fma`.
    pub features: String,
    /// The model that instructions are scheduled for; may be empty.
    pub tune: String,
}

impl Processor {
    /// The processor of a target. A particular model counts as the features that its target lists and the runtime can check.
    pub fn of(target: &Target) -> Result<Self, String> {
        let Target::Cpu { cpu, features } = target else { return Err(format!("{target} is not a CPU")) };
        let kept: Vec<&str> = features
            .split(',')
            .filter(|f| f.strip_prefix('+').is_some_and(|f| FEATURES.contains(&f)))
            .collect();
        let level = LEVELS.iter().any(|(name, _)| name == cpu);
        if !level && kept.is_empty() {
            return Err(format!(
                "the features of '{cpu}' are unknown; write cpu (this machine) or one of cpu:{}",
                LEVELS.map(|(name, _)| name).join(", cpu:")
            ));
        }
        Ok(Self {
            level: if level { cpu.clone() } else { LEVELS[0].0.to_owned() },
            features: kept.join(","),
            tune: if level { String::new() } else { cpu.clone() },
        })
    }

    fn has(&self, feature: &str) -> bool {
        features::includes(&self.image_target(), feature)
    }

    /// Fused multiply-add, and with it the rounding instructions.
    pub fn fma(&self) -> bool {
        self.has("fma") && self.has("avx2")
    }

    /// Conversions between f16 and f32.
    pub fn f16c(&self) -> bool {
        self.has("f16c")
    }

    /// Whether 64-byte vectors exist.
    pub fn wide(&self) -> bool {
        self.has("avx512f")
    }

    /// What an image's target is called, for the runtime's check.
    pub fn image_target(&self) -> String {
        if self.features.is_empty() {
            self.level.clone()
        } else {
            format!("{},{}", self.level, self.features)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Processor, String> {
        Processor::of(&text.parse().expect("a target"))
    }

    #[test]
    fn images_name_what_the_runtime_can_check() {
        assert_eq!(of("cpu:x86-64-v3").unwrap().image_target(), "x86-64-v3");
        assert!(of("cpu:x86-64-v3").unwrap().fma() && !of("cpu:x86-64").unwrap().fma());
        let native = of("cpu").unwrap();
        features::check(&native.image_target()).expect("this machine has what it has");
        assert!(of("cpu:skylake").unwrap_err().contains("x86-64-v3"));
        let target = Target::Cpu { cpu: "znver4".into(), features: "+64bit,-sse4a,+avx2,+bmi,+cx8".into() };
        assert_eq!(Processor::of(&target).unwrap().image_target(), "x86-64,+avx2,+bmi");
    }
}
