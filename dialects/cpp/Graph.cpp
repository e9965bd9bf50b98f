// The graph dialect: registration and the one attribute with a syntax of its own.
#include "Graph.h"
#include "mlir/CAPI/AffineExpr.h"
#include "mlir/CAPI/IR.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "llvm/ADT/TypeSwitch.h"
using namespace mlir;
#include "GraphDialect.cpp.inc"
#include "GraphEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "GraphAttrs.cpp.inc"

namespace strata::graph {
void GraphDialect::initialize() {
  registerGraphDialectOperations(this);
  addAttributes<
#define GET_ATTRDEF_LIST
#include "GraphAttrs.cpp.inc"
      >();
}

Operation *GraphDialect::materializeConstant(OpBuilder &builder, Attribute value, Type type, Location loc) {
  if (auto elements = dyn_cast<ElementsAttr>(value))
    return ConstantOp::create(builder, loc, type, elements);
  return nullptr;
}

ParseResult parseTypedElements(OpAsmParser &parser, ElementsAttr &value, Type &type) {
  if (parser.parseAttribute(value)) return failure();
  type = value.getShapedType();
  return success();
}

void printTypedElements(OpAsmPrinter &printer, Operation *, ElementsAttr value, Type) { printer << value; }

Attribute DimsAttr::parse(AsmParser &parser, Type) {
  // s0 … s63 are known to the parser of affine expressions by name.
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (unsigned i = 0; i < 64; ++i) all.push_back("s" + std::to_string(i));
    return all;
  }();
  SmallVector<std::pair<StringRef, AffineExpr>> symbols;
  for (auto [i, name] : llvm::enumerate(names)) symbols.emplace_back(name, getAffineSymbolExpr(i, parser.getContext()));
  SmallVector<AffineExpr> exprs;
  if (parser.parseLess()) return {};
  if (succeeded(parser.parseOptionalGreater())) return get(parser.getContext(), exprs);
  auto one = [&]() -> ParseResult { return parser.parseAffineExpr(symbols, exprs.emplace_back()); };
  if (parser.parseCommaSeparatedList(one) || parser.parseGreater()) return {};
  return get(parser.getContext(), exprs);
}

void DimsAttr::print(AsmPrinter &printer) const {
  printer << '<';
  llvm::interleaveComma(getExprs(), printer.getStream(), [&](AffineExpr e) { printer.getStream() << e; });
  printer << '>';
}
} // namespace strata::graph

extern "C" {
void strataRegisterGraphDialect(MlirDialectRegistry registry) { unwrap(registry)->insert<strata::graph::GraphDialect>(); }
MlirAttribute strataDimsAttrGet(MlirContext context, intptr_t n, const MlirAffineExpr *exprs) {
  SmallVector<AffineExpr> list;
  for (intptr_t i = 0; i < n; ++i) list.push_back(unwrap(exprs[i]));
  return wrap(strata::graph::DimsAttr::get(unwrap(context), list));
}
bool strataAttributeIsDims(MlirAttribute attribute) { return isa_and_nonnull<strata::graph::DimsAttr>(unwrap(attribute)); }
intptr_t strataDimsAttrSize(MlirAttribute attribute) { return cast<strata::graph::DimsAttr>(unwrap(attribute)).getExprs().size(); }
MlirAffineExpr strataDimsAttrExpr(MlirAttribute attribute, intptr_t i) { return wrap(cast<strata::graph::DimsAttr>(unwrap(attribute)).getExprs()[i]); }
}

extern "C" bool strataElementsData(MlirAttribute attribute, const uint8_t **data, size_t *size, bool *splat) {
  Attribute a = unwrap(attribute);
  if (auto dense = dyn_cast<DenseElementsAttr>(a)) {
    *data = reinterpret_cast<const uint8_t *>(dense.getRawData().data());
    *size = dense.getRawData().size();
    *splat = dense.isSplat();
    return true;
  }
  if (auto resource = dyn_cast<DenseResourceElementsAttr>(a)) {
    AsmResourceBlob *blob = resource.getRawHandle().getBlob();
    if (!blob) return false;
    *data = reinterpret_cast<const uint8_t *>(blob->getData().data());
    *size = blob->getData().size();
    *splat = false;
    return true;
  }
  return false;
}
