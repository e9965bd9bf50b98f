//! Reading what the PTX assembler says about kernels.

/// What one kernel uses, by the assembler's account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// The kernel.
    pub kernel: String,
    /// Registers a thread.
    pub registers: u32,
    /// Bytes of stack a thread.
    pub stack_bytes: u32,
    /// Bytes that a thread stores because registers ran out.
    pub spill_stores: u32,
    /// Bytes that a thread loads back.
    pub spill_loads: u32,
    /// Bytes of static shared memory a block.
    pub shared_bytes: u32,
}

/// The kernels in an assembler log (`ptxas -v`, or the driver's in verbose mode), in the log's order.
pub fn resources(log: &str) -> Vec<Resources> {
    let mut out: Vec<Resources> = Vec::new();
    // The properties of one function may come before or after its register line, so both fill the last one named.
    let entry = |out: &mut Vec<Resources>, name: &str| {
        if out.last().is_none_or(|r| r.kernel != name) {
            out.push(Resources { kernel: name.into(), ..Default::default() });
        }
    };
    for line in log.lines() {
        if let Some(name) = between(line, "Compiling entry function '", "'") {
            entry(&mut out, name);
        } else if let Some(name) = line.split("Function properties for ").nth(1) {
            // Device functions have properties too: only kernels count.
            let name = name.trim().trim_matches('\'');
            if !out.iter().any(|r| r.kernel == name) {
                continue;
            }
        }
        let Some(last) = out.last_mut() else { continue };
        for (unit, field) in [
            (" bytes stack frame", &mut last.stack_bytes),
            (" bytes spill stores", &mut last.spill_stores),
            (" bytes spill loads", &mut last.spill_loads),
            (" bytes smem", &mut last.shared_bytes),
            (" registers", &mut last.registers),
        ] {
            if let Some(n) = number_before(line, unit) {
                *field = n;
            }
        }
    }
    out
}

/// Lines that warn of lost speed or worse, such as "wgmma serialized" (C75xx) and register spills.
pub fn warnings(log: &str) -> Vec<String> {
    log.lines()
        .filter(|l| l.contains("warning") || l.contains("C75") || l.contains("Potential Performance Loss"))
        .map(|l| l.trim().to_string())
        .collect()
}

fn between<'a>(line: &'a str, start: &str, end: &str) -> Option<&'a str> {
    let rest = &line[line.find(start)? + start.len()..];
    Some(&rest[..rest.find(end)?])
}

fn number_before(line: &str, unit: &str) -> Option<u32> {
    let head = &line[..line.find(unit)?];
    let digits = head.len() - head.bytes().rev().take_while(u8::is_ascii_digit).count();
    head[digits..].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'k0' for 'sm_90a'
ptxas info    : Function properties for k0
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 1024 bytes smem, 384 bytes cmem[0]
ptxas info    : Compiling entry function 'k1' for 'sm_90a'
ptxas info    : Function properties for k1
    16 bytes stack frame, 24 bytes spill stores, 28 bytes spill loads
ptxas info    : Used 255 registers, used 0 barriers, 16 bytes cumulative stack size
ptxas info    : (C7520) Potential Performance Loss: wgmma.mma_async instructions are serialized due to x
";

    #[test]
    fn reads_a_log() {
        let r = resources(LOG);
        assert_eq!(
            r,
            [
                Resources { kernel: "k0".into(), registers: 32, shared_bytes: 1024, ..Default::default() },
                Resources {
                    kernel: "k1".into(),
                    registers: 255,
                    stack_bytes: 16,
                    spill_stores: 24,
                    spill_loads: 28,
                    shared_bytes: 0,
                },
            ]
        );
        assert_eq!(warnings(LOG).len(), 1);
    }

    #[test]
    fn reads_the_driver_s_prefixless_form_and_nothing_from_nothing() {
        let r = resources(
            "info    : Compiling entry function 'k' for 'sm_90'\ninfo    : Used 8 registers, 352 bytes cmem[0]\n",
        );
        assert_eq!(r[0].registers, 8);
        assert_eq!(resources(""), []);
        assert_eq!(resources("Used 8 registers"), []);
    }
}
