//! What code is made for.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use strata_runtime::device::cpu::features::includes;
use strata_runtime::plan::DeviceKind;

/// What code is made for, written `cpu`, `cpu:x86-64-v3`, `nvptx:sm_90a`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Target {
    /// x86-64: an LLVM CPU name (`native` is resolved when parsed).
    Cpu {
        /// LLVM's name of the processor.
        cpu: String,
        /// LLVM's feature string.
        features: String,
    },
    /// An NVIDIA GPU.
    Nvptx {
        /// `sm_80`, `sm_90a`, ….
        chip: String,
    },
}

/// LLVM ends the process at a chip that it or the PTX version in use does not know.
const CHIPS: [&str; 9] = ["sm_70", "sm_72", "sm_75", "sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_90a"];

impl Target {
    /// The machine's own processor, by its level: programs of equal machines are equal.
    pub fn native() -> Self {
        Self::cpu(&strata_runtime::device::cpu::native_target())
    }

    /// A processor by LLVM's name and features: `x86-64-v3,+avx512f`.
    pub fn cpu(text: &str) -> Self {
        let (cpu, features) = text.split_once(',').unwrap_or((text, ""));
        Self::Cpu { cpu: cpu.into(), features: features.into() }
    }

    /// The device that runs the code.
    pub fn device(&self) -> DeviceKind {
        match self {
            Self::Cpu { .. } => DeviceKind::Cpu,
            Self::Nvptx { .. } => DeviceKind::Cuda,
        }
    }

    /// Bytes of the widest vector register that code is shaped for (CPU), or of the widest access of a thread (GPU).
    pub fn vector_bytes(&self) -> usize {
        match self {
            Self::Cpu { cpu, features } => {
                let has = |feature| includes(cpu, feature) || includes(features, feature);
                if has("avx512f") {
                    64
                } else if has("avx2") {
                    32
                } else {
                    16
                }
            }
            Self::Nvptx { .. } => 16,
        }
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        match s.split_once(':') {
            None if s == "cpu" => Ok(Self::native()),
            Some(("cpu", "native")) => Ok(Self::native()),
            Some(("cpu", text)) => Ok(Self::cpu(text)),
            Some(("nvptx", chip)) if CHIPS.contains(&chip) => Ok(Self::Nvptx { chip: chip.into() }),
            Some(("nvptx", chip)) => {
                Err(format!("no code is made for '{chip}'; write nvptx: and one of {}", CHIPS.join(", ")))
            }
            _ => Err(format!("unknown target '{s}'; write cpu, cpu:x86-64-v3 or nvptx:sm_90a")),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu { cpu, features } if features.is_empty() => write!(f, "cpu:{cpu}"),
            Self::Cpu { cpu, features } => write!(f, "cpu:{cpu},{features}"),
            Self::Nvptx { chip } => write!(f, "nvptx:{chip}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_as_they_are_written() {
        for text in ["cpu:x86-64-v3", "cpu:x86-64-v3,+avx512f", "nvptx:sm_80", "nvptx:sm_90a"] {
            assert_eq!(text.parse::<Target>().unwrap().to_string(), text);
        }
        for text in ["gpu", "nvptx", "nvptx:sm_20", "nvptx:sm_999", "nvptx:"] {
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
    }
}
