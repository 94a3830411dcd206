//===- ExecEntries.cpp - Roles of functions, and their inputs -------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/Exec/Exec.h"

using namespace mlir;
using namespace poplar;
using namespace poplar::exec;

LogicalResult
InputsAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError,
                   int64_t ids, int64_t targets, int64_t keys,
                   int64_t positions, int64_t dloss) {
  for (int64_t place : {ids, targets, keys, positions, dloss})
    if (place < -1)
      return emitError() << "an input lies at " << place
                         << ", expected an offset of 0 or more";
  return success();
}

void EntryOp::build(OpBuilder &builder, OperationState &state, nn::Entry role,
                    FunctionOp function, int64_t chunk) {
  build(builder, state, nn::getName(role), function.getSymName(),
        uint64_t(chunk));
}

LogicalResult EntryOp::verify() {
  std::optional<nn::Entry> role = parseWord<nn::Entry>(getRole());
  if (!role || *role == nn::Entry::Model)
    return emitOpError("has the unknown role '") << getRole() << "'";
  for (auto other : cast<ModuleOp>((*this)->getParentOp()).getOps<EntryOp>()) {
    if (other == *this)
      break;
    if (other.getRole() != getRole() || other.getChunk() != getChunk())
      continue;
    InFlightDiagnostic diagnostic = emitOpError("duplicates the role '")
                                    << getRole() << "'";
    diagnostic.attachNote(other.getLoc()) << "the first one";
    return diagnostic;
  }
  return success();
}

namespace {
/// What the functions of a role have in common.
struct Role {
  /// None of roles that steps and turns play.
  std::optional<FunctionKind> kind;
  bool takesIds, takesTargets, takesLoss, decodes, hasResult;
};
} // namespace

static Role getRole(nn::Entry entry) {
  switch (entry) {
  case nn::Entry::Train:
  case nn::Entry::TrainLast:
    return {FunctionKind::Step, true, true, true, false, true};
  case nn::Entry::Evaluate:
  case nn::Entry::Infer:
    return {std::nullopt, true, true, false, false, true};
  case nn::Entry::Decode:
  case nn::Entry::Prefill:
    return {std::nullopt, true, false, false, true, true};
  case nn::Entry::Update:
    return {FunctionKind::Step, false, false, false, false, false};
  case nn::Entry::Forward:
    return {FunctionKind::Turn, true, true, false, false, true};
  case nn::Entry::Backward:
  case nn::Entry::BackwardLast:
    return {FunctionKind::Turn, true, true, true, false, false};
  case nn::Entry::Model:
    break;
  }
  llvm_unreachable("@model is no function of a program");
}

LogicalResult EntryOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto function =
      symbols.lookupNearestSymbolFrom<FunctionOp>(*this, getFunctionAttr());
  if (!function || function.getKind() == FunctionKind::Unit)
    return emitOpError("names ")
           << getFunctionAttr() << ", which is not a step or a turn";
  auto refuse = [&](StringRef fault) {
    InFlightDiagnostic diagnostic = emitOpError("has the role '")
                                    << getRole() << "', but "
                                    << getFunctionAttr() << " " << fault;
    diagnostic.attachNote(function.getLoc()) << "the function";
    return diagnostic;
  };
  Role role = ::getRole(getEntry());
  bool isTurn = function.getKind() == FunctionKind::Turn;
  if (role.kind && *role.kind != function.getKind())
    return refuse(isTurn ? "is a turn" : "is a step");
  if (!isTurn && getChunk() != 0)
    return refuse("is a step, which has no chunk");
  if (role.decodes != function.getDecoding().has_value())
    return refuse(role.decodes ? "does not say how many tokens it decodes"
                               : "decodes");
  if (!role.hasResult && function.getResult())
    return refuse("has a result");
  InputsAttr inputs = function.getInputsAttr();
  if (!inputs)
    return role.decodes ? refuse("takes no ids and positions")
                        : LogicalResult(success());
  if (!role.takesIds)
    return refuse("takes inputs");
  if (!role.takesTargets && (inputs.getTargets() >= 0 || inputs.getKeys() >= 0))
    return refuse("takes targets or keys");
  if (!role.takesLoss && inputs.getDloss() >= 0)
    return refuse("takes the gradient of a loss");
  if (role.decodes && (inputs.getIds() < 0 || inputs.getPositions() < 0))
    return refuse("does not take both ids and positions");
  return success();
}
