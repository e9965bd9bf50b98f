// The loop dialect: registration and structural checks.
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/CAPI/IR.h"
#include "mlir/Dialect/SCF/IR/DeviceMappingInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/TypeSwitch.h"
using namespace mlir;
#include "LoopDialect.h.inc"
#include "LoopEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "LoopAttrs.h.inc"
#define GET_OP_CLASSES
#include "LoopOps.h.inc"

#include "LoopDialect.cpp.inc"
#include "LoopEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "LoopAttrs.cpp.inc"
#define GET_OP_CLASSES
#include "LoopOps.cpp.inc"

namespace strata::loop {
void LoopDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "LoopOps.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "LoopAttrs.cpp.inc"
      >();
}

LogicalResult AllReduceOp::verify() {
  auto type = cast<MemRefType>(getBuffer().getType());
  if (type.getRank() < 1 || !type.hasStaticShape()) return emitOpError("needs a private array of static shape, got ") << type;
  int64_t threads = type.getDimSize(0);
  if (threads < 32 || threads > 1024 || !llvm::isPowerOf2_64(threads))
    return emitOpError("needs a power of two from 32 to 1024 as leading dimension (the threads), got ") << threads;
  return success();
}
} // namespace strata::loop

extern "C" void strataRegisterLoopDialect(MlirDialectRegistry registry) { unwrap(registry)->insert<strata::loop::LoopDialect>(); }
