#ifndef STRATA_GRAPH_H
#define STRATA_GRAPH_H
#include "Forward.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/BuiltinAttributeInterfaces.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "GraphDialect.h.inc"
namespace strata::graph {
void registerGraphDialectOperations(GraphDialect *dialect);
void registerGraphDialectOperations0(GraphDialect *dialect);
void registerGraphDialectOperations1(GraphDialect *dialect);

// Elements and, by them, the type of the result.
mlir::ParseResult parseTypedElements(mlir::OpAsmParser &parser, mlir::ElementsAttr &value, mlir::Type &type);
void printTypedElements(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::ElementsAttr value, mlir::Type type);
} // namespace strata::graph
#include "GraphEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "GraphAttrs.h.inc"
#define GET_OP_CLASSES
#include "GraphOps.h.inc"
#endif
