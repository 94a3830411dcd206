//===- MergeUnitResults.cpp - Units return each value once ----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Conversion/Kernels/Passes.h"
#include "Poplar/Dialect/NN/NN.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/STLExtras.h"

namespace poplar {
#define GEN_PASS_DEF_MERGEUNITRESULTS
#include "Poplar/Conversion/Kernels/Passes.h.inc"
} // namespace poplar

using namespace mlir;
using namespace poplar;

/// For each result, the first one that is the same value.
static SmallVector<unsigned> findFirst(Operation *terminator) {
  SmallVector<unsigned> first;
  llvm::DenseMap<Value, unsigned> seen;
  for (auto [index, value] : llvm::enumerate(terminator->getOperands()))
    first.push_back(seen.insert({value, index}).first->second);
  return first;
}

/// Reads the first of equal results, and has no others.
static void replaceCall(func::CallOp call, ArrayRef<unsigned> first,
                        const llvm::BitVector &repeated) {
  OpBuilder builder(call);
  SmallVector<Type> types;
  SmallVector<OpResult> kept;
  for (OpResult result : call.getResults()) {
    unsigned index = result.getResultNumber();
    if (repeated[index]) {
      result.replaceAllUsesWith(call.getResult(first[index]));
      continue;
    }
    types.push_back(result.getType());
    kept.push_back(result);
  }
  auto made = func::CallOp::create(builder, call.getLoc(), call.getCallee(),
                                   types, call.getOperands());
  made->setDiscardableAttrs(call->getDiscardableAttrDictionary());
  for (auto [old, result] : llvm::zip_equal(kept, made.getResults()))
    old.replaceAllUsesWith(result);
  call.erase();
}

namespace {
struct MergeUnitResultsPass
    : public poplar::impl::MergeUnitResultsBase<MergeUnitResultsPass> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    SymbolTableCollection symbols;
    SymbolUserMap users(symbols, module);
    for (auto unit : module.getOps<func::FuncOp>())
      if (unit->hasAttr(nn::kUnitAttr) && !unit.isExternal())
        merge(unit, users);
  }

private:
  void merge(func::FuncOp unit, const SymbolUserMap &users) {
    Operation *terminator = unit.getBody().front().getTerminator();
    SmallVector<unsigned> first = findFirst(terminator);
    llvm::BitVector repeated(first.size());
    for (auto [index, other] : llvm::enumerate(first))
      repeated[index] = other != index;
    if (repeated.none())
      return;
    for (Operation *user : users.getUsers(unit))
      if (auto call = dyn_cast<func::CallOp>(user))
        replaceCall(call, first, repeated);
    terminator->eraseOperands(repeated);
    if (failed(unit.eraseResults(repeated)))
      llvm_unreachable("a function type may have any results");
  }
};
} // namespace
