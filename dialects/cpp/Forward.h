// Forwarding of op methods to the Rust op table.
#ifndef STRATA_FORWARD_H
#define STRATA_FORWARD_H
#include "mlir/IR/Operation.h"
#include "mlir/IR/OpDefinition.h"
#include <optional>
namespace strata {
llvm::LogicalResult verifyByTable(mlir::Operation *op);
mlir::OpFoldResult foldByTable(mlir::Operation *op, llvm::ArrayRef<mlir::Attribute> operands);
llvm::LogicalResult inferByTable(mlir::MLIRContext *context, std::optional<mlir::Location> location, llvm::StringRef name,
                                 mlir::ValueRange operands, mlir::DictionaryAttr attributes,
                                 llvm::SmallVectorImpl<mlir::Type> &types);
} // namespace strata
#endif
