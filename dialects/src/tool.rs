//! What the driver needs beside MLIR's C API.

use melior::Context;
use melior::StringRef;
use melior::ir::Module;
use mlir_sys::{MlirContext, MlirModule, MlirStringRef};

unsafe extern "C" {
    fn strataParseModule(context: MlirContext, text: MlirStringRef, name: MlirStringRef) -> MlirModule;
    fn strataPrintRegisteredPasses();
}

/// Parses and verifies a module (text or bytecode) whose locations name the file `name`. What is wrong goes to the context's
/// diagnostic handlers.
pub fn parse_module<'c>(context: &'c Context, text: &[u8], name: &str) -> Option<Module<'c>> {
    // SAFETY: the text and the name live during the call; the module is null on an error.
    unsafe {
        let text = MlirStringRef { data: text.as_ptr().cast(), length: text.len() };
        Module::from_option_raw(strataParseModule(context.to_raw(), text, StringRef::new(name).to_raw()))
    }
}

/// Prints the passes that are registered with MLIR, and their options, on standard output.
pub fn print_registered_passes() {
    crate::register::register_passes();
    // SAFETY: takes no arguments; registration is done.
    unsafe { strataPrintRegisteredPasses() }
}
