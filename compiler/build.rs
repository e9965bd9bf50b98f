//! Compiles the ONNX protobuf schema, without needing `protoc`.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto/onnx.proto");
    // Tests find the distribution's shared MLIR (development builds).
    if let Ok(path) = std::env::var("DEP_STRATA_DIALECTS_RPATH") {
        println!("cargo:rustc-link-arg=-Wl,-rpath,{path}");
    }
    let descriptors = protox::compile(["proto/onnx.proto"], ["proto"])?;
    prost_build::Config::new()
        // Weights dominate a model file: keep them as slices of the one buffer it was read into.
        .bytes([".onnx.TensorProto.raw_data"])
        // The schema's comments are not written as rustdoc.
        .disable_comments(["."])
        .compile_fds(descriptors)?;
    Ok(())
}
