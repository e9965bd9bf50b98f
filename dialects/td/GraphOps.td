//===- GraphOps.td - the ops of the graph dialect -------------------------===//
//
// Grouped by theme, as the rows in `src/ops/` are.

#ifndef STRATA_GRAPH_OPS_TD
#define STRATA_GRAPH_OPS_TD

include "GraphBase.td"

//===--- constants ---===//

def Graph_ConstantOp : Graph_DeclaredOp<"constant", [ConstantLike]> {
  let summary = "a literal tensor";
  let arguments = (ins ElementsAttr:$value);
  let results = (outs AnyRankedTensor:$result);
  // The value says the type.
  let assemblyFormat = "attr-dict custom<TypedElements>($value, type($result))";
}
def Graph_IotaOp : Graph_DeclaredOp<"iota"> {
  let summary = "0, 1, 2, … along one dimension";
  let arguments = (ins I64Attr:$dim);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "`dim` `=` $dim attr-dict `:` type($result)";
}
def Graph_DimOp : Graph_DeclaredOp<"dim"> {
  let summary = "the value of an expression over the symbols, as a tensor of rank 0";
  let arguments = (ins Graph_DimsAttr:$expr);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$expr attr-dict `:` type($result)";
}

//===--- pointwise ---===//

def Graph_CastOp : Graph_DeclaredOp<"cast"> {
  let summary = "conversion to another element type";
  let arguments = (ins AnyRankedTensor:$operand);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$operand attr-dict `:` functional-type(operands, results)";
}
def Graph_AbsOp : Graph_UnaryOp<"abs"> { let summary = "absolute value"; }
def Graph_CeilOp : Graph_UnaryOp<"ceil"> { let summary = "next integer above"; }
def Graph_CosOp : Graph_UnaryOp<"cos"> { let summary = "cosine"; }
def Graph_ErfOp : Graph_UnaryOp<"erf"> { let summary = "error function"; }
def Graph_ExpOp : Graph_UnaryOp<"exp"> { let summary = "exponential"; }
def Graph_Exp2Op : Graph_UnaryOp<"exp2"> { let summary = "power of two"; }
def Graph_Expm1Op : Graph_UnaryOp<"expm1"> { let summary = "exp(x) - 1, accurate near 0"; }
def Graph_FloorOp : Graph_UnaryOp<"floor"> { let summary = "next integer below"; }
def Graph_LogOp : Graph_UnaryOp<"log"> { let summary = "natural logarithm"; }
def Graph_Log1pOp : Graph_UnaryOp<"log1p"> { let summary = "log(1 + x), accurate near 0"; }
def Graph_LogisticOp : Graph_UnaryOp<"logistic"> { let summary = "1 / (1 + exp(-x))"; }
def Graph_NegOp : Graph_UnaryOp<"neg"> { let summary = "negation"; }
def Graph_NotOp : Graph_UnaryOp<"not"> { let summary = "bitwise complement; logical for i1"; }
def Graph_RoundOp : Graph_UnaryOp<"round"> { let summary = "nearest integer, ties to even"; }
def Graph_RsqrtOp : Graph_UnaryOp<"rsqrt"> { let summary = "1 / sqrt(x)"; }
def Graph_SignOp : Graph_UnaryOp<"sign"> { let summary = "-1, 0 or 1; NaN stays"; }
def Graph_SinOp : Graph_UnaryOp<"sin"> { let summary = "sine"; }
def Graph_SqrtOp : Graph_UnaryOp<"sqrt"> { let summary = "square root"; }
def Graph_TanhOp : Graph_UnaryOp<"tanh"> { let summary = "hyperbolic tangent"; }

def Graph_AddOp : Graph_BinaryOp<"add", [Commutative]> { let summary = "sum; logical or for i1"; }
def Graph_AndOp : Graph_BinaryOp<"and", [Commutative]> { let summary = "bitwise and"; }
def Graph_Atan2Op : Graph_BinaryOp<"atan2"> { let summary = "angle of the point (second operand, first operand)"; }
def Graph_DivOp : Graph_BinaryOp<"div"> { let summary = "quotient; integers truncate towards zero"; }
def Graph_MaxOp : Graph_BinaryOp<"max", [Commutative]> { let summary = "larger; NaN if either is"; }
def Graph_MinOp : Graph_BinaryOp<"min", [Commutative]> { let summary = "smaller; NaN if either is"; }
def Graph_MulOp : Graph_BinaryOp<"mul", [Commutative]> { let summary = "product; logical and for i1"; }
def Graph_OrOp : Graph_BinaryOp<"or", [Commutative]> { let summary = "bitwise or"; }
def Graph_PowOp : Graph_BinaryOp<"pow"> { let summary = "power"; }
def Graph_RemOp : Graph_BinaryOp<"rem"> { let summary = "remainder with the sign of the dividend"; }
def Graph_SubOp : Graph_BinaryOp<"sub"> { let summary = "difference"; }
def Graph_XorOp : Graph_BinaryOp<"xor", [Commutative]> { let summary = "bitwise exclusive or"; }

def Graph_PolynomialOp : Graph_UnaryOp<"polynomial"> {
  let summary = "polynomial with constant coefficients, that of the highest power first";
  let arguments = (ins AnyRankedTensor:$operand, DenseF64ArrayAttr:$coefficients);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$operand `coefficients` `=` $coefficients attr-dict `:` type($result)";
}

def Graph_BitcastOp : Graph_DeclaredOp<"bitcast"> {
  let summary = "the same bits in another element type";
  let arguments = (ins AnyRankedTensor:$operand);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$operand attr-dict `:` functional-type(operands, results)";
}
def Graph_CopysignOp : Graph_BinaryOp<"copysign"> { let summary = "magnitude of the first operand with the sign of the second"; }
def Graph_ShiftLeftOp : Graph_BinaryOp<"shift_left"> { let summary = "shift to the left; 0 for amounts out of range"; }
def Graph_ShiftRightOp : Graph_BinaryOp<"shift_right"> { let summary = "arithmetic shift to the right; amounts out of range shift as far as there are bits"; }

def Graph_CompareOp : Graph_InferredOp<"compare"> {
  let summary = "comparison; integers as signed; NaN compares unequal to everything";
  let arguments = (ins AnyRankedTensor:$lhs, AnyRankedTensor:$rhs, Graph_CompareDirection:$direction);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$direction $lhs `,` $rhs attr-dict `:` functional-type(operands, results)";
}
def Graph_SelectOp : Graph_InferredOp<"select"> {
  let summary = "element of the second operand where the first is 1, of the third where it is 0";
  let arguments = (ins AnyRankedTensor:$pred, AnyRankedTensor:$on_true, AnyRankedTensor:$on_false);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$pred `,` $on_true `,` $on_false attr-dict `:` functional-type(operands, results)";
}

//===--- views ---===//

def Graph_BroadcastOp : Graph_DeclaredOp<"broadcast"> {
  let summary = "repetition along new dimensions, or along dimensions of size 1";
  let arguments = (ins AnyRankedTensor:$operand, DenseI64ArrayAttr:$dims);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$operand `dims` `=` $dims attr-dict `:` functional-type(operands, results)";
}
def Graph_ReshapeOp : Graph_DeclaredOp<"reshape"> {
  let summary = "the same elements in row-major order under another shape";
  let arguments = (ins AnyRankedTensor:$operand);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$operand attr-dict `:` functional-type(operands, results)";
}
def Graph_TransposeOp : Graph_InferredOp<"transpose"> {
  let summary = "permutation of dimensions: result dimension i is operand dimension permutation[i]";
  let arguments = (ins AnyRankedTensor:$operand, DenseI64ArrayAttr:$permutation);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$operand `permutation` `=` $permutation attr-dict `:` functional-type(operands, results)";
}
def Graph_SliceOp : Graph_InferredOp<"slice"> {
  let summary = "elements start, start + stride, … below limit, per dimension";
  let arguments = (ins AnyRankedTensor:$operand, Graph_DimsAttr:$starts, Graph_DimsAttr:$limits, DenseI64ArrayAttr:$strides);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$operand `from` $starts `to` $limits `by` $strides attr-dict `:` functional-type(operands, results)";
}
def Graph_PadOp : Graph_InferredOp<"pad"> {
  let summary = "a value before and after, per dimension; negative amounts cut";
  let arguments = (ins AnyRankedTensor:$operand, AnyRankedTensor:$value, Graph_DimsAttr:$low, Graph_DimsAttr:$high);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$operand `with` $value `low` $low `high` $high attr-dict `:` functional-type(operands, results)";
}
def Graph_ConcatOp : Graph_InferredOp<"concat"> {
  let summary = "tensors one after another along a dimension";
  let arguments = (ins Variadic<AnyRankedTensor>:$operands, I64Attr:$dim);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$operands `dim` `=` $dim attr-dict `:` functional-type(operands, results)";
}

//===--- reductions ---===//

def Graph_ReduceOp : Graph_InferredOp<"reduce"> {
  let summary = "combination over some dimensions, which vanish";
  let arguments = (ins AnyRankedTensor:$operand, Graph_ReduceKind:$kind, DenseI64ArrayAttr:$dims);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$kind $operand `dims` `=` $dims attr-dict `:` functional-type(operands, results)";
}
def Graph_ArgReduceOp : Graph_InferredOp<"arg_reduce"> {
  let summary = "position (i64) of the first largest or smallest element along a dimension, which vanishes; the first NaN wins";
  let arguments = (ins AnyRankedTensor:$operand, Graph_ArgKind:$kind, I64Attr:$dim);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$kind $operand `dim` `=` $dim attr-dict `:` functional-type(operands, results)";
}
def Graph_ScanOp : Graph_UnaryOp<"scan"> {
  let summary = "running combination along a dimension: element i of the result combines the operand's elements 0 … i";
  let arguments = (ins AnyRankedTensor:$operand, Graph_ScanKind:$kind, I64Attr:$dim);
  let assemblyFormat = "$kind $operand `dim` `=` $dim attr-dict `:` type($result)";
}
def Graph_SortOp : Graph_InferredOp<"sort"> {
  let summary = "the elements along a dimension in order, and the positions (i64) they had; equal ones keep their order, NaN is the largest";
  let arguments = (ins AnyRankedTensor:$operand, I64Attr:$dim, BoolAttr:$descending);
  let results = (outs AnyRankedTensor:$values, AnyRankedTensor:$indices);
  // Folding of ops with several results has another signature, and there is nothing to fold.
  let hasFolder = 0;
  let extraClassDefinition = !strconcat(forwardVerify, forwardInfer);
  let assemblyFormat = "$operand `dim` `=` $dim `descending` `=` $descending attr-dict `:` functional-type(operands, results)";
}
def Graph_ReduceWindowOp : Graph_InferredOp<"reduce_window"> {
  let summary = "combination over sliding windows; what lies outside is the neutral element";
  let arguments = (ins AnyRankedTensor:$operand, Graph_ReduceKind:$kind, DenseI64ArrayAttr:$window, DenseI64ArrayAttr:$strides,
                   DenseI64ArrayAttr:$low, DenseI64ArrayAttr:$high, DenseI64ArrayAttr:$dilation);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$kind $operand `window` `=` $window `strides` `=` $strides `low` `=` $low `high` `=` $high `dilation` `=` $dilation attr-dict `:` functional-type(operands, results)";
}

//===--- products ---===//

def Graph_DotGeneralOp : Graph_InferredOp<"dot_general"> {
  let summary = "sums of products over contracting dimensions; result: batch, rest of lhs, rest of rhs";
  let arguments = (ins AnyRankedTensor:$lhs, AnyRankedTensor:$rhs, DenseI64ArrayAttr:$lhs_batch, DenseI64ArrayAttr:$rhs_batch,
                   DenseI64ArrayAttr:$lhs_contracting, DenseI64ArrayAttr:$rhs_contracting);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$lhs `,` $rhs `batch` `=` $lhs_batch `x` $rhs_batch `contracting` `=` $lhs_contracting `x` $rhs_contracting attr-dict `:` functional-type(operands, results)";
}
def Graph_LinearOp : Graph_InferredOp<"linear"> {
  let summary = "dot_general, plus a bias along the last dimension of the result, rounded once";
  let arguments = (ins AnyRankedTensor:$lhs, AnyRankedTensor:$rhs, AnyRankedTensor:$bias, DenseI64ArrayAttr:$lhs_batch, DenseI64ArrayAttr:$rhs_batch,
                   DenseI64ArrayAttr:$lhs_contracting, DenseI64ArrayAttr:$rhs_contracting);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$lhs `,` $rhs `bias` $bias `batch` `=` $lhs_batch `x` $rhs_batch `contracting` `=` $lhs_contracting `x` $rhs_contracting attr-dict `:` functional-type(operands, results)";
}
def Graph_ConvolutionOp : Graph_InferredOp<"convolution"> {
  let summary = "cross-correlation: input [n, c, spatial…], weight [o, c/groups, spatial…], result [n, o, spatial…]";
  let arguments = (ins AnyRankedTensor:$input, AnyRankedTensor:$weight, DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$low, DenseI64ArrayAttr:$high,
                   DenseI64ArrayAttr:$dilation, I64Attr:$groups);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input `,` $weight `strides` `=` $strides `low` `=` $low `high` `=` $high `dilation` `=` $dilation `groups` `=` $groups attr-dict `:` functional-type(operands, results)";
}

//===--- indexing ---===//

def Graph_GatherOp : Graph_InferredOp<"gather"> {
  let summary = "slices of the operand along one dimension, picked by an integer tensor whose shape replaces that dimension";
  let arguments = (ins AnyRankedTensor:$operand, AnyRankedTensor:$indices, I64Attr:$dim);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$operand `at` $indices `dim` `=` $dim attr-dict `:` functional-type(operands, results)";
}

def Graph_ScatterOp : Graph_InferredOp<"scatter"> {
  let summary = "the operand with slices along one dimension, picked by an integer tensor, replaced by updates or combined with them";
  let arguments = (ins AnyRankedTensor:$operand, AnyRankedTensor:$indices, AnyRankedTensor:$updates, Graph_ScatterKind:$kind, I64Attr:$dim);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$kind $updates `into` $operand `at` $indices `dim` `=` $dim attr-dict `:` functional-type(operands, results)";
}

def Graph_CheckIndexOp : Graph_UnaryOp<"check_index"> {
  let summary = "indices of a dimension, or an error where one is outside of it";
  let arguments = (ins AnyRankedTensor:$operand, Graph_DimsAttr:$size, BoolAttr:$wrap, StrAttr:$message);
  let assemblyFormat = "$operand `below` $size `wrap` `=` $wrap $message attr-dict `:` type($result)";
}

//===--- composites ---===//

def Graph_SoftmaxOp : Graph_UnaryOp<"softmax"> {
  let summary = "exp(x - max) / sum(exp(x - max)) along a dimension";
  let arguments = (ins AnyRankedTensor:$operand, I64Attr:$dim);
  let assemblyFormat = "$operand `dim` `=` $dim attr-dict `:` type($result)";
}
def Graph_LayerNormOp : Graph_InferredOp<"layer_norm"> {
  let summary = "(x - mean) / sqrt(variance + epsilon) over the last dimensions, times weight, plus bias";
  let arguments = (ins AnyRankedTensor:$operand, Variadic<AnyRankedTensor>:$affine, I64Attr:$dims, F64Attr:$epsilon);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$operand (`affine` `(` $affine^ `)`)? `dims` `=` $dims `epsilon` `=` $epsilon attr-dict `:` functional-type(operands, results)";
}
def Graph_AttentionOp : Graph_InferredOp<"attention"> {
  let summary = "softmax(q · kᵀ · scale + bias) · v over [batch…, length, width], with an optional causal mask";
  let arguments = (ins AnyRankedTensor:$query, AnyRankedTensor:$key, AnyRankedTensor:$value, Variadic<AnyRankedTensor>:$bias, F64Attr:$scale, BoolAttr:$causal);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$query `,` $key `,` $value (`bias` `(` $bias^ `)`)? `scale` `=` $scale `causal` `=` $causal attr-dict `:` functional-type(operands, results)";
}

//===--- calls ---===//

def Graph_CallOp : Graph_DeclaredOp<"call", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "a call of a function of this module; `symbols` gives its symbols in terms of the caller's";
  let arguments = (ins Variadic<AnyRankedTensor>:$operands, FlatSymbolRefAttr:$callee, Graph_DimsAttr:$symbols);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let assemblyFormat = "$callee `(` $operands `)` `symbols` `=` $symbols attr-dict `:` functional-type(operands, results)";
  let hasFolder = 0;
  let extraClassDefinition = !strconcat(forwardVerify, [{
    ::llvm::LogicalResult $cppClass::verifySymbolUses(::mlir::SymbolTableCollection &table) {
      if (!table.lookupNearestSymbolFrom(*this, getCalleeAttr()))
        return emitOpError("calls @") << getCallee() << ", which this module does not define";
      return ::mlir::success();
    }
  }]);
}
def Graph_CustomCallOp : Op<Graph_Dialect, "custom_call", []> {
  let summary = "an op without a lowering, run by the embedding program";
  let arguments = (ins Variadic<AnyRankedTensor>:$operands, StrAttr:$target, StrAttr:$payload, StrAttr:$reason, Graph_DimsAttr:$symbols,
                       OptionalAttr<DenseI64ArrayAttr>:$layouts, OptionalAttr<Graph_DimsAttr>:$sizes, OptionalAttr<DenseI64ArrayAttr>:$as_is);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let assemblyFormat = "$target `(` $operands `)` `symbols` `=` $symbols `payload` $payload `reason` $reason attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let extraClassDefinition = forwardVerify;
}

#endif
