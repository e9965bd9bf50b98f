// The generated op definitions are compiled in shards: one file of all of them is slow to compile.
#include "Graph.h"
#include "llvm/ADT/TypeSwitch.h"
using namespace mlir;
#define GET_OP_DEFS_0
#include "GraphOps.cpp.inc"
