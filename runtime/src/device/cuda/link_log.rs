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
///
/// The driver's linker repeats each kernel after the assembler, in another order and with a little less detail.
pub fn resources(log: &str) -> Vec<Resources> {
    let mut out: Vec<Resources> = Vec::new();
    // Which kernel the next lines are about; none for device functions, which have properties too.
    let mut current = None;
    for line in log.lines() {
        if let Some(name) = between(line, "Compiling entry function '", "'") {
            current = Some(out.iter().position(|r| r.kernel == name).unwrap_or(out.len()));
            if current == Some(out.len()) {
                out.push(Resources { kernel: name.into(), ..Default::default() });
            }
        } else if let Some((_, name)) = line.split_once("Function properties for ") {
            let name = name.trim().trim_matches(['\'', ':']);
            current = out.iter().position(|r| r.kernel == name);
        }
        let Some(kernel) = current.and_then(|at: usize| out.get_mut(at)) else { continue };
        for (unit, field) in [
            (" bytes stack frame", &mut kernel.stack_bytes),
            (" bytes spill stores", &mut kernel.spill_stores),
            (" bytes spill loads", &mut kernel.spill_loads),
            (" bytes smem", &mut kernel.shared_bytes),
            (" registers", &mut kernel.registers),
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
    fn reads_the_linker_s_repetition() {
        let log = "\
ptxas info    : Compiling entry function 'b' for 'sm_90a'
ptxas info    : Function properties for b
ptxas         .     0 bytes stack frame, 4 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers
ptxas info    : Compiling entry function 'a' for 'sm_90a'
ptxas info    : Function properties for helper
ptxas         .     96 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Function properties for a
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 0 barriers
info    : Function properties for 'a':
info    : used 10 registers, used 0 barriers, 0 stack, 0 bytes smem, 536 bytes cmem[0], 0 bytes lmem
info    : Function properties for 'b':
info    : used 8 registers, used 0 barriers, 0 stack, 16 bytes smem, 536 bytes cmem[0], 0 bytes lmem
";
        let b = Resources {
            kernel: "b".into(),
            registers: 8,
            spill_stores: 4,
            shared_bytes: 16,
            ..Default::default()
        };
        let a = Resources { kernel: "a".into(), registers: 10, ..Default::default() };
        assert_eq!(resources(log), [b, a]);
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
