//===- LoopOps.td - what the loop level adds to scf, vector and memref ----===//

#ifndef STRATA_LOOP_OPS_TD
#define STRATA_LOOP_OPS_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/Dialect/SCF/IR/DeviceMappingInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Loop_Dialect : Dialect {
  let name = "loop";
  let cppNamespace = "::strata::loop";
  let summary = "collectives and mappings of scheduled loop nests; every op has a sequential meaning";
  let useDefaultAttributePrinterParser = 1;
  let usePropertiesForAttributes = 0;
}

def Loop_TaskAttr : AttrDef<Loop_Dialect, "Task", [DeclareAttrInterfaceMethods<DeviceMappingAttrInterface>]> {
  let mnemonic = "task";
  let summary = "maps the outermost forall of a CPU kernel to tasks of the thread pool";
  let parameters = (ins);
  let extraClassDefinition = [{
    int64_t $cppClass::getMappingId() const { return 0; }
    bool $cppClass::isLinearMapping() const { return true; }
    int64_t $cppClass::getRelativeIndex() const { return 0; }
  }];
}

def Loop_CombineKind : I32EnumAttr<"CombineKind", "how a collective combines", [
    I32EnumAttrCase<"Add", 0, "add">, I32EnumAttrCase<"Mul", 1, "mul">, I32EnumAttrCase<"Max", 2, "max">,
    I32EnumAttrCase<"Min", 3, "min">, I32EnumAttrCase<"And", 4, "and">, I32EnumAttrCase<"Or", 5, "or">]> {
  let cppNamespace = "::strata::loop";
}

def Loop_ScatterKind : I32EnumAttr<"ScatterKind", "what happens to an element that is scattered to", [
    I32EnumAttrCase<"Set", 0, "set">, I32EnumAttrCase<"Add", 1, "add">, I32EnumAttrCase<"Mul", 2, "mul">,
    I32EnumAttrCase<"Max", 3, "max">, I32EnumAttrCase<"Min", 4, "min">]> {
  let cppNamespace = "::strata::loop";
}

def Loop_ScatterOp : Op<Loop_Dialect, "scatter", [Pure]> {
  let summary = "the destination with slices along one dimension replaced by updates or combined with them";
  let description = [{
    An op of the tensor level, as linalg has none for it: element `(i…, j…, k…)` of the updates goes to `(i…, indices(j…), k…)` of the
    result, which is the destination elsewhere. A negative index counts from the end; what is still outside is left out, which
    `in_bounds` says of none. Where two updates have one place, `set` keeps one of them.
  }];
  let arguments = (ins AnyRankedTensor:$updates, AnyRankedTensor:$dest, AnyRankedTensor:$indices, Loop_ScatterKind:$kind, I64Attr:$dim, UnitAttr:$in_bounds);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$kind $updates `into` $dest `at` $indices `dim` `=` $dim (`in_bounds` $in_bounds^)? attr-dict `:` functional-type(operands, results)";
}

def Loop_ScanOp : Op<Loop_Dialect, "scan", [Pure]> {
  let summary = "running combination along a dimension, kept in f32 for narrower floats";
  let description = [{ An op of the tensor level, as linalg has none for it. }];
  let arguments = (ins AnyRankedTensor:$source, Loop_CombineKind:$kind, I64Attr:$dim);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$kind $source `dim` `=` $dim attr-dict `:` functional-type(operands, results)";
}

def Loop_SortOp : Op<Loop_Dialect, "sort", [Pure]> {
  let summary = "the elements along a dimension in order, and the positions they had";
  let description = [{
    An op of the tensor level, as linalg has none for it. Equal elements keep their order in both directions; NaN is the largest, and -0 equals 0.
    Integers are two's complement numbers but where `natural` says that they have no sign.
  }];
  let arguments = (ins AnyRankedTensor:$source, I64Attr:$dim, BoolAttr:$descending, UnitAttr:$natural);
  let results = (outs AnyRankedTensor:$values, AnyRankedTensor:$indices);
  let assemblyFormat = "$source `dim` `=` $dim `descending` `=` $descending (`natural` $natural^)? attr-dict `:` functional-type(operands, results)";
}

def Loop_CheckIndexOp : Op<Loop_Dialect, "check_index", [MemoryEffects<[MemWrite]>, AllTypesMatch<["index", "result"]>]> {
  let summary = "an index that is within a dimension; another one is reported";
  let description = [{
    Where `wrap` is true, `size` is added to a negative index first. One that is then outside of `0..size` is an error of the program:
    a GPU stops with a device-side assertion, on a CPU the call fails when the kernel is done, and the result is 0 until then. Stands in
    bodies of the tensor level, too, where it counts for the elements that are computed.
  }];
  let arguments = (ins SignlessIntegerLike:$index, Index:$size, BoolAttr:$wrap, StrAttr:$message);
  let results = (outs SignlessIntegerLike:$result);
  let assemblyFormat = "$index `below` $size `wrap` `=` $wrap $message attr-dict `:` type($index)";
}

def Loop_AllReduceOp : Op<Loop_Dialect, "all_reduce"> {
  let summary = "combines a private array over its threads, in place";
  let description = [{
    `%buffer : memref<TxKx…>` in private memory. For each k the values `buffer[0, k] … buffer[T-1, k]` are combined in butterfly order
    (offsets 16, 8, 4, 2, 1 inside each group of 32, then the groups in the same way) and every `buffer[t, k]` becomes the result.
    Scope: the warp inside a warp forall (T = 32), else the block. Integers are signed for max and min; max and min of floats
    give NaN where an operand is NaN.
  }];
  let arguments = (ins Arg<AnyMemRef, "private array", [MemRead, MemWrite]>:$buffer, Loop_CombineKind:$kind);
  let assemblyFormat = "$kind $buffer attr-dict `:` type($buffer)";
  let hasVerifier = 1;
}

def Loop_ArriveOp : Op<Loop_Dialect, "arrive", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "whether a block is the last of several to come here";
  let description = [{
    Adds 1 to a ticket, by each of `count` blocks once; the block that makes it `count` sets it back to 0 and gets true, the others get
    false. That block sees everything that the others wrote before they arrived. Stands between the thread foralls of a block; `count` is
    the same in all of them. Tickets are an argument marked `loop.tickets`: 0 when the kernel starts, and again when it ends.
  }];
  let arguments = (ins Arg<MemRefRankOf<[I32], [1]>, "tickets", [MemRead, MemWrite]>:$tickets, Index:$at, Index:$count);
  let results = (outs I1:$last);
  let assemblyFormat = "$tickets `[` $at `]` `of` $count attr-dict `:` type($tickets)";
}

#endif
