// What the driver needs beside the C API: parsing a module under a file name, and the names of the registered passes.
#include "mlir/CAPI/IR.h"
#include "mlir/CAPI/Support.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
namespace mlir {
void printRegisteredPasses();
}
extern "C" MlirModule strataParseModule(MlirContext context, MlirStringRef text, MlirStringRef name) {
  return wrap(mlir::parseSourceString<mlir::ModuleOp>(unwrap(text), unwrap(context), unwrap(name)).release());
}
extern "C" void strataPrintRegisteredPasses() { mlir::printRegisteredPasses(); }
