use super::*;
use crate::testing::MLP;

fn check(text: &str) -> Result<()> {
    verify(&text.parse().unwrap())
}

#[test]
fn the_example_is_valid() {
    check(MLP).unwrap();
}

/// Each edit of the example breaks one rule; the message names the place.
#[test]
fn each_rule_is_checked() {
    let cases: &[(&str, &str, &str, &str)] = &[
        ("dim 0 of input 0", "dim 2 of input 0", "no dimension 2 of input 0", "symbol s0"),
        ("= dim 0 of input 0", "= s0 + 1", "s0 in s0 + 1 has no value here", "symbol s0"),
        ("in [0, 64]", "in [65, 64]", "the range is empty", "symbol s0"),
        ("input %x = b0", "input %x = b4", "b4 is not 'input 0'", "input %x"),
        ("output %y = b4", "output %y = b9", "no buffer b9", "output %y"),
        ("output %y = b4", "output %y = b3", "overwrites", "output %y"),
        ("f32[s0, 2] = output 0", "f32[s0, 2] = block", "given back after its last step", "output %y"),
        ("output %y = b4", "output %z = b0\n  output %y = b4", "is another buffer", "buffer b4"),
        ("f32[s0, 2] in arena at 0", "f32[s0, s1] in arena at 0", "s1 in s1 has no value", "buffer b3"),
        ("in arena at 0", "in arena at 128", "multiple of 256", "buffer b3"),
        ("constants at 64", "constants at 8", "multiple of 64", "buffer b2"),
        ("in constants at 64", "= alias of b2 offset 0", "alias of itself", "buffer b2"),
        ("f32[3, 2] in", "f32[3, 2] strides [1] in", "as many strides", "buffer b1"),
        ("arena s0 * 8 bytes", "arena s0 * 4 bytes", "needs bytes 0..64 of 32", "buffer b3 in the arena"),
        ("launch k0", "launch k1", "no kernel k1", "mlp.py:4, step 1"),
        ("grid(s0)", "grid()", "1 to 3 dimensions", "mlp.py:4, step 1"),
        ("-> (b4)", "-> (b7)", "no buffer b7", "mlp.py:4, step 1"),
        ("m s0 n 2", "m s3 n 2", "s3 in s3 has no value", "mlp.py:3, step 0"),
        ("= b0<0, 3, 1> by", "= b4<0, 3, 1> by", "b4 is read before it is written", "mlp.py:3, step 0"),
        ("product b3<0, 2, 1>", "product b1<0, 2, 1>", "b1 is a constant and is written", "step 0"),
        ("product b3<0, 2, 1>", "product b0<0, 2, 1>", "b0 is a parameter and is written", "step 0"),
        ("k0(b3) -> (b4)", "k0(b4) -> (b3)", "b4 is read before it is written", "step 1"),
        ("k0(b3) -> (b4)", "k0(b3) -> (b4, b0)", "b0 is a parameter and is written", "mlp.py:4, step 1"),
        ("k0(b3) -> (b4)", "k0(b3) -> (b4, b2)", "b2 is a constant and is written", "mlp.py:4, step 1"),
        (
            "k0(b3) -> (b4)",
            "k0(b3) -> (b4, b4)",
            "b4 is written and b4 is the same memory",
            "mlp.py:4, step 1",
        ),
        ("k0(b3) -> (b4)", "k0(b3) -> ()", "b4 is never written", "output %y"),
        ("  launch", "  copy b3 -> b3\n  launch", "same memory", "step 1: copy b3 -> b3"),
    ];
    for (from, to, reason, place) in cases {
        assert!(MLP.contains(from), "{from}");
        let e = check(&MLP.replacen(from, to, 1)).expect_err(to);
        assert!(e.reason().contains(reason) && e.place().contains(place), "{from} -> {to}: {e}");
        assert!(!e.next_step().is_empty());
    }
    // A kernel may change a buffer in place.
    check(&MLP.replacen("k0(b3) -> (b4)", "k0(b3) -> (b3, b4)", 1)).unwrap();
}

const TWO: &str = "plan @two on cpu {
  symbol s0 \"n\" in [1, 1000] hint 64 = dim 0 of input 0
  input %x = b0
  output %y = b4
  buffer b0 : f32[s0] = input 0
  buffer b1 : f32[s0] in arena at 0
  buffer b2 : f32[s0] in arena at 256
  buffer b3 : f32[s0] in arena at 0
  buffer b4 : f32[s0] = output 0
  arena 8192 bytes
  copy b0 -> b1
  copy b1 -> b2
  copy b2 -> b3
  copy b3 -> b4
}
";

#[test]
fn memory_shared_by_live_buffers() {
    // b1 and b3 share memory one after the other; b1 and b2 overlap for sizes above the hint.
    let e = check(TWO).unwrap_err();
    assert!(e.reason().contains("b1 and b2 share arena memory while both are live (symbols [1000])"), "{e}");
    assert!(e.place().contains("step 1: copy b1 -> b2"), "{e}");
    check(&TWO.replace("at 256", "at 4096")).unwrap();
    // The same place, never live together, and of a size that depends on the symbol.
    check(&TWO.replace("at 256", "at ((s0 * 4 + 255) floordiv 256) * 256")).unwrap();
}
