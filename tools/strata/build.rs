//! Lets the binary find the distribution's shared MLIR (development builds).

fn main() {
    if let Ok(path) = std::env::var("DEP_STRATA_DIALECTS_RPATH") {
        println!("cargo:rustc-link-arg=-Wl,-rpath,{path}");
    }
}
