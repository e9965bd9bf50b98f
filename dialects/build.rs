//! Generates the dialects' C++ from the .td files, compiles the shim, and, in development, makes MLIR's C API linkable
//! against the distribution's shared MLIR, which does not ship it as a shared library.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// (generator, input, output, extra arguments)
const GENERATED: &[(&str, &str, &str, &[&str])] = &[
    ("-gen-dialect-decls", "GraphOps.td", "GraphDialect.h.inc", &["-dialect=graph"]),
    ("-gen-dialect-defs", "GraphOps.td", "GraphDialect.cpp.inc", &["-dialect=graph"]),
    ("-gen-enum-decls", "GraphOps.td", "GraphEnums.h.inc", &[]),
    ("-gen-enum-defs", "GraphOps.td", "GraphEnums.cpp.inc", &[]),
    ("-gen-attrdef-decls", "GraphOps.td", "GraphAttrs.h.inc", &["-attrdefs-dialect=graph"]),
    ("-gen-attrdef-defs", "GraphOps.td", "GraphAttrs.cpp.inc", &["-attrdefs-dialect=graph"]),
    ("-gen-op-decls", "GraphOps.td", "GraphOps.h.inc", &["-op-shard-count=2"]),
    ("-gen-op-defs", "GraphOps.td", "GraphOps.cpp.inc", &["-op-shard-count=2"]),
    ("-gen-dialect-decls", "LoopOps.td", "LoopDialect.h.inc", &["-dialect=loop"]),
    ("-gen-dialect-defs", "LoopOps.td", "LoopDialect.cpp.inc", &["-dialect=loop"]),
    ("-gen-enum-decls", "LoopOps.td", "LoopEnums.h.inc", &[]),
    ("-gen-enum-defs", "LoopOps.td", "LoopEnums.cpp.inc", &[]),
    ("-gen-attrdef-decls", "LoopOps.td", "LoopAttrs.h.inc", &["-attrdefs-dialect=loop"]),
    ("-gen-attrdef-defs", "LoopOps.td", "LoopAttrs.cpp.inc", &["-attrdefs-dialect=loop"]),
    ("-gen-op-decls", "LoopOps.td", "LoopOps.h.inc", &[]),
    ("-gen-op-defs", "LoopOps.td", "LoopOps.cpp.inc", &[]),
];

fn main() {
    println!("cargo:rerun-if-changed=td");
    println!("cargo:rerun-if-changed=cpp");
    println!("cargo:rerun-if-env-changed=MLIR_SYS_220_PREFIX");
    println!("cargo:rerun-if-env-changed=MLIR_SYS_LINK_SHARED");
    let prefix = PathBuf::from(env::var("MLIR_SYS_220_PREFIX").unwrap_or("/usr/lib/llvm-22".into()));
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets OUT_DIR"));

    for (generator, input, output, extra) in GENERATED {
        let tblgen = prefix.join("bin/mlir-tblgen");
        let status = Command::new(&tblgen)
            .arg(generator)
            .args(*extra)
            .arg("-I")
            .arg(prefix.join("include"))
            .args(["-I", "td"])
            .arg(Path::new("td").join(input))
            .arg("-o")
            .arg(out.join(output))
            .status()
            .unwrap_or_else(|e| {
                panic!("cannot run {}: {e}. `cargo xtask setup` installs it", tblgen.display())
            });
        assert!(status.success(), "{} {generator} {input} failed", tblgen.display());
    }

    // Clang, not g++: MLIR's implicit type ids are keyed by the compiler's spelling of type names, and Debian's libMLIR.so is
    // built by clang. With g++ every trait silently vanishes.
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .compiler(prefix.join("bin/clang++"))
        .files(
            ["Forward", "Graph", "GraphOps0", "GraphOps1", "Loop", "Register", "Tool"]
                .map(|f| format!("cpp/{f}.cpp")),
        )
        .include(prefix.join("include"))
        .include(&out)
        .include("cpp")
        .flag("-fno-rtti")
        .flag("-fno-exceptions")
        .define("NDEBUG", None)
        .warnings(false)
        .compile("strata_dialects_shim");

    if env::var("MLIR_SYS_LINK_SHARED").is_ok_and(|v| v != "0") {
        link_shared(&prefix, &out);
    }
}

/// A linker script named libMLIR-C.so: the C API from its archives, the C++ from libMLIR.so.
fn link_shared(prefix: &Path, out: &Path) {
    let lib = prefix.join("lib");
    let mut archives: Vec<_> = fs::read_dir(&lib)
        .unwrap_or_else(|e| panic!("cannot list {}: {e}. `cargo xtask setup` installs it", lib.display()))
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|n| {
            n.ends_with(".a") && (n.starts_with("libMLIRCAPI") || n.starts_with("libMLIRRegisterAll"))
        })
        .map(|n| lib.join(n).display().to_string())
        .collect();
    archives.sort();
    let script = format!(
        "GROUP(\n{}\n{lib}/libMLIR.so {lib}/libLLVM.so )\n",
        archives.join("\n"),
        lib = lib.display()
    );
    fs::write(out.join("libMLIR-C.so"), script).expect("OUT_DIR is writable");
    println!("cargo:rustc-link-search=native={}", out.display());
    // Debian keeps libMLIR.so outside of the loader's path. Dependents read the path as DEP_STRATA_DIALECTS_RPATH.
    println!("cargo:rustc-link-arg=-Wl,-rpath,{}", lib.display());
    println!("cargo:rpath={}", lib.display());
}
