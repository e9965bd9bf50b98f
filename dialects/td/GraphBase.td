//===- GraphBase.td - the graph dialect, its attributes and op classes ----===//
//
// An op here is syntax, traits and operands only. Its constraints, inference, folding, evaluation and lowering are one
// row of the Rust table `src/ops/`; the C++ methods below forward to it.

#ifndef STRATA_GRAPH_BASE_TD
#define STRATA_GRAPH_BASE_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"

def Graph_Dialect : Dialect {
  let name = "graph";
  let cppNamespace = "::strata::graph";
  let summary = "pure tensor programs with symbolic dimensions";
  let useDefaultAttributePrinterParser = 1;
  let hasConstantMaterializer = 1;
  // Attributes stay in the op's dictionary, where the op table reads them by name.
  let usePropertiesForAttributes = 0;
  let dependentDialects = [];
}

def Graph_DimsAttr : AttrDef<Graph_Dialect, "Dims"> {
  let mnemonic = "dims";
  let summary = "a list of affine expressions over the symbols of the enclosing function";
  let description = [{
    As the encoding of a ranked tensor: the size of every dimension. As an attribute of an op: sizes or positions.
    `#graph.dims<s0, 128, s0 * 2 + 1>`; symbols are `s0`, `s1`, … by their place in `graph.symbols`.
  }];
  let parameters = (ins ArrayRefParameter<"::mlir::AffineExpr">:$exprs);
  let hasCustomAssemblyFormat = 1;
}

def Graph_ReduceKind : I32EnumAttr<"ReduceKind", "how a reduction combines", [
    I32EnumAttrCase<"Sum", 0, "sum">, I32EnumAttrCase<"Max", 1, "max">, I32EnumAttrCase<"Min", 2, "min">,
    I32EnumAttrCase<"Prod", 3, "prod">, I32EnumAttrCase<"Any", 4, "any">, I32EnumAttrCase<"All", 5, "all">]> {
  let cppNamespace = "::strata::graph";
}
def Graph_ScatterKind : I32EnumAttr<"ScatterKind", "what happens to an element that is scattered to", [
    I32EnumAttrCase<"Set", 0, "set">, I32EnumAttrCase<"Add", 1, "add">, I32EnumAttrCase<"Mul", 2, "mul">,
    I32EnumAttrCase<"Max", 3, "max">, I32EnumAttrCase<"Min", 4, "min">]> {
  let cppNamespace = "::strata::graph";
}
def Graph_ScanKind : I32EnumAttr<"ScanKind", "how a scan combines", [
    I32EnumAttrCase<"Sum", 0, "sum">, I32EnumAttrCase<"Max", 1, "max">, I32EnumAttrCase<"Min", 2, "min">,
    I32EnumAttrCase<"Prod", 3, "prod">]> {
  let cppNamespace = "::strata::graph";
}
def Graph_CompareDirection : I32EnumAttr<"CompareDirection", "which comparison", [
    I32EnumAttrCase<"Eq", 0, "eq">, I32EnumAttrCase<"Ne", 1, "ne">, I32EnumAttrCase<"Lt", 2, "lt">,
    I32EnumAttrCase<"Le", 3, "le">, I32EnumAttrCase<"Gt", 4, "gt">, I32EnumAttrCase<"Ge", 5, "ge">]> {
  let cppNamespace = "::strata::graph";
}
def Graph_ArgKind : I32EnumAttr<"ArgKind", "which position", [
    I32EnumAttrCase<"Max", 0, "max">, I32EnumAttrCase<"Min", 1, "min">]> {
  let cppNamespace = "::strata::graph";
}

// Methods that forward to the op table. `$cppClass` is the op's class.
defvar forwardVerify = [{
  ::llvm::LogicalResult $cppClass::verify() { return ::strata::verifyByTable(getOperation()); }
}];
defvar forwardFold = [{
  ::mlir::OpFoldResult $cppClass::fold(FoldAdaptor adaptor) { return ::strata::foldByTable(getOperation(), adaptor.getOperands()); }
}];
defvar forwardInfer = [{
  ::llvm::LogicalResult $cppClass::inferReturnTypes(::mlir::MLIRContext *context, ::std::optional<::mlir::Location> location,
      ::mlir::ValueRange operands, ::mlir::DictionaryAttr attributes, ::mlir::OpaqueProperties, ::mlir::RegionRange,
      ::llvm::SmallVectorImpl<::mlir::Type> &types) {
    return ::strata::inferByTable(context, location, getOperationName(), operands, attributes, types);
  }
}];

/// An op whose result types follow from its operands and attributes.
class Graph_InferredOp<string mnemonic, list<Trait> traits = []>
    : Op<Graph_Dialect, mnemonic, !listconcat(traits, [Pure, DeclareOpInterfaceMethods<InferTypeOpInterface>])> {
  let hasVerifier = 1;
  let hasFolder = 1;
  let extraClassDefinition = !strconcat(forwardVerify, forwardFold, forwardInfer);
}

/// An op that states its result types.
class Graph_DeclaredOp<string mnemonic, list<Trait> traits = []> : Op<Graph_Dialect, mnemonic, !listconcat(traits, [Pure])> {
  let hasVerifier = 1;
  let hasFolder = 1;
  let extraClassDefinition = !strconcat(forwardVerify, forwardFold);
}

class Graph_UnaryOp<string mnemonic, list<Trait> traits = []> : Graph_InferredOp<mnemonic, !listconcat(traits, [SameOperandsAndResultType])> {
  let arguments = (ins AnyRankedTensor:$operand);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$operand attr-dict `:` type($result)";
  let extraClassDefinition = !strconcat(forwardVerify, forwardFold);
}

class Graph_BinaryOp<string mnemonic, list<Trait> traits = []> : Graph_InferredOp<mnemonic, !listconcat(traits, [SameOperandsAndResultType])> {
  let arguments = (ins AnyRankedTensor:$lhs, AnyRankedTensor:$rhs);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($result)";
  let extraClassDefinition = !strconcat(forwardVerify, forwardFold);
}

#endif
