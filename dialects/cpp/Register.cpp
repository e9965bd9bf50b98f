// Interface models and translations that the C API cannot reach one by one. Declared here by name, so that this file does not
// pull in the heavy headers of every dialect.
#include "mlir/CAPI/IR.h"
namespace mlir {
#define NESTED(ns, f) namespace ns { void f(DialectRegistry &); }
#define GLOBAL(f) void f(DialectRegistry &);
#include "Register.def"
#undef NESTED
#undef GLOBAL
} // namespace mlir
extern "C" void strataRegisterInterfaces(MlirDialectRegistry registry) {
  mlir::DialectRegistry &r = *unwrap(registry);
#define NESTED(ns, f) mlir::ns::f(r);
#define GLOBAL(f) mlir::f(r);
#include "Register.def"
}
