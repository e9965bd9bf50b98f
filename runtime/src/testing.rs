//! What several tests need.

use crate::artifact::{Artifact, Constants, Image, ImageKind, Metadata};
use crate::plan::Plan;
use std::process::Command;

/// A relocatable object from C.
pub fn compile_c(source: &str, flags: &[&str]) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let (c, o) = (dir.path().join("k.c"), dir.path().join("k.o"));
    std::fs::write(&c, source).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-c", "-O2", "-ffreestanding"]).args(flags).arg(&c).arg("-o").arg(&o);
    assert!(cc.status().expect("a C compiler is needed by this test").success());
    std::fs::read(o).unwrap()
}

/// `y = gelu?(x @ w + bias) + 1` with a dynamic batch; what docs/plan.md shows.
pub const MLP: &str = include_str!("testing/mlp.plan");

/// The kernels of [`MLP`].
pub const MLP_C: &str = "
    void add_one(char **b, const long *s, long begin, long end) {
        const float *x = (const float *)b[0]; float *y = (float *)b[1];
        for (long i = begin; i < end; i++)
            for (long j = 0; j < 2; j++) y[i * 2 + j] = x[i * 2 + j] + 1.0f;
    }
";

/// An artifact of [`MLP`]: weight `[[1, 2], [3, 4], [5, 6]]`, bias `[10, -100]`.
pub fn mlp() -> Artifact {
    let mut constants = Constants::new();
    let bytes = |v: &[f32]| v.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    constants.push(&bytes(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
    constants.push(&bytes(&[10.0, -100.0]));
    artifact(MLP, MLP_C, constants)
}

/// An artifact for the CPU from a plan's text and C.
pub fn artifact(plan: &str, c: &str, constants: Constants) -> Artifact {
    let plan: Plan = plan.parse().unwrap();
    let images = if plan.kernels.is_empty() {
        Vec::new()
    } else {
        vec![Image { kind: ImageKind::ElfX86_64, target: "x86-64".into(), bytes: compile_c(c, &["-fPIC"]) }]
    };
    let metadata = Metadata { compiler: "test".into(), source: "mlp".into(), ..Default::default() };
    Artifact { plan, images, constants, metadata }
}
