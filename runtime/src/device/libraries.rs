//! Which of a device's libraries a program may call.

use super::Device;
use crate::error::Error;
use crate::events::{Event, EventKind, emit};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Mutex;

/// The work that goes to libraries; own kernels do the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Libraries {
    /// Matrix products: cuBLASLt on a GPU, the `gemm` crate on a CPU.
    pub products: bool,
    /// Convolutions: cuDNN on a GPU, a product over gathered windows on a CPU.
    pub convolutions: bool,
}

impl Libraries {
    /// Both.
    pub const ALL: Self = Self { products: true, convolutions: true };
    /// None.
    pub const NONE: Self = Self { products: false, convolutions: false };
    /// What [`FromStr`] reads.
    pub const NAMES: &'static str = "all, products, convolutions, none";

    /// What both sides have.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            products: self.products && other.products,
            convolutions: self.convolutions && other.convolutions,
        }
    }
}

impl fmt::Display for Libraries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.products, self.convolutions) {
            (true, true) => "all",
            (true, false) => "products",
            (false, true) => "convolutions",
            (false, false) => "none",
        })
    }
}

impl FromStr for Libraries {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "all" => Self::ALL,
            "none" => Self::NONE,
            "products" => Self { products: true, ..Self::NONE },
            "convolutions" => Self { convolutions: true, ..Self::NONE },
            _ => return Err(format!("'{text}' is not one of {}", Self::NAMES)),
        })
    }
}

/// The libraries that a program for this device may call. Each missing one is an event, once a process.
pub fn usable_libraries(device: &dyn Device) -> Libraries {
    static TOLD: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let (found, missing) = device.libraries();
    for e in missing {
        if TOLD.lock().unwrap_or_else(|p| p.into_inner()).insert(e.reason().to_owned()) {
            emit(event(&e));
        }
    }
    found
}

fn event(missing: &Error) -> Event {
    let reason = format!("{}; own kernels, which are slower, do its work", missing.reason());
    Event::new(EventKind::MissingLibrary, reason).next(missing.next_step())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        for products in [false, true] {
            for convolutions in [false, true] {
                let l = Libraries { products, convolutions };
                assert_eq!(l.to_string().parse(), Ok(l));
                assert!(Libraries::NAMES.contains(&l.to_string()));
            }
        }
        assert!("cudnn".parse::<Libraries>().unwrap_err().contains("products"));
    }
}
