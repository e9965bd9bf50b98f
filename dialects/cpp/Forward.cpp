#include "Forward.h"
#include "mlir/CAPI/IR.h"
#include "mlir/CAPI/Support.h"
using namespace mlir;

// Implemented in Rust (src/forward.rs).
extern "C" {
bool strataTableVerify(MlirOperation op);
// 0: no fold; 1: *attribute is set; 2: *value is set.
int strataTableFold(MlirOperation op, intptr_t n, const MlirAttribute *operands, MlirAttribute *attribute, MlirValue *value);
// Calls push(types, t) for each result type. `location` is null where no diagnostic is wanted.
bool strataTableInfer(MlirContext context, MlirLocation location, MlirStringRef name, intptr_t n, const MlirValue *operands,
                      MlirAttribute attributes, void *types, void (*push)(void *, MlirType));
}

namespace strata {
LogicalResult verifyByTable(Operation *op) { return success(strataTableVerify(wrap(op))); }

OpFoldResult foldByTable(Operation *op, ArrayRef<Attribute> operands) {
  SmallVector<MlirAttribute> known;
  for (Attribute a : operands) known.push_back(wrap(a));
  MlirAttribute attribute{nullptr};
  MlirValue value{nullptr};
  switch (strataTableFold(wrap(op), known.size(), known.data(), &attribute, &value)) {
  case 1: return unwrap(attribute);
  case 2: return unwrap(value);
  default: return {};
  }
}

LogicalResult inferByTable(MLIRContext *context, std::optional<Location> location, StringRef name, ValueRange operands,
                           DictionaryAttr attributes, SmallVectorImpl<Type> &types) {
  SmallVector<MlirValue> values;
  for (Value v : operands) values.push_back(wrap(v));
  auto push = [](void *list, MlirType t) { static_cast<SmallVectorImpl<Type> *>(list)->push_back(unwrap(t)); };
  MlirLocation loc = location ? wrap(*location) : MlirLocation{nullptr};
  return success(strataTableInfer(wrap(context), loc, wrap(name), values.size(), values.data(), wrap(Attribute(attributes)), &types, push));
}
} // namespace strata

extern "C" {
// A diagnostic of any severity: 0 error, 1 warning, 2 remark; with a note where `note` is not empty.
void strataEmit(MlirLocation location, int severity, MlirStringRef message, MlirLocation noteLocation, MlirStringRef note) {
  auto d = severity == 0 ? emitError(unwrap(location)) : severity == 1 ? emitWarning(unwrap(location)) : emitRemark(unwrap(location));
  d << unwrap(message);
  if (note.length) d.attachNote(unwrap(noteLocation)) << unwrap(note);
}
}
