//===- ZeroDialect.cpp - The zero dialect ---------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Dialect/Zero/Zero.h"
#include "Poplar/Planner/Model/WireFormat.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace poplar;
using namespace poplar::zero;

#include "Poplar/Dialect/Zero/ZeroDialect.cpp.inc"
#include "Poplar/Dialect/Zero/ZeroEnums.cpp.inc"
#include "Poplar/Dialect/Zero/ZeroInterfaces.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "Poplar/Dialect/Zero/ZeroTypes.cpp.inc"

void ZeroDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "Poplar/Dialect/Zero/ZeroOps.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "Poplar/Dialect/Zero/ZeroTypes.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// ProgramInfo
//===----------------------------------------------------------------------===//

FloatType zero::getFloatType(MLIRContext *context, StringRef name) {
  return llvm::StringSwitch<FloatType>(name)
      .Case("f32", Float32Type::get(context))
      .Case("bf16", BFloat16Type::get(context))
      .Case("f16", Float16Type::get(context))
      .Default({});
}

Type zero::getWireType(MLIRContext *context, StringRef name) {
  if (name == "i8")
    return IntegerType::get(context, 8);
  return getFloatType(context, name);
}

double zero::getWireBytes(Type wire) {
  return wire.isInteger() ? getElementBytes("i8")
                          : wire.getIntOrFloatBitWidth() / 8.0;
}

ProgramInfo ProgramInfo::get(ModuleOp module) {
  ProgramInfo info;
  auto attr = module->getAttrOfType<DictionaryAttr>(kProgramAttr);
  if (!attr)
    return info;
  auto text = [&](StringRef name, std::string &value) {
    if (auto entry = attr.getAs<StringAttr>(name))
      value = entry.getValue().str();
  };
  auto integer = [&](StringRef name, int64_t &value) {
    if (auto entry = attr.getAs<IntegerAttr>(name))
      value = entry.getInt();
  };
  text("device_type", info.deviceType);
  text("target", info.target);
  text("precision", info.precision);
  if (auto policy = attr.getAs<StringAttr>("recompute"))
    info.recompute = cluster::symbolizeRecomputePolicy(policy).value_or(
        cluster::RecomputePolicy::Keep);
  info.mixedRecompute = attr.contains("mixed_recompute");
  integer("stage", info.stage);
  integer("world_size", info.worldSize);
  integer("group", info.group);
  integer("groups", info.numGroups);
  integer("chunks", info.numChunks);
  text("wire", info.wire);
  text("gradient_wire", info.gradientWire);
  info.hasLossyParameters = attr.contains("lossy_parameters");
  text("received", info.received);
  text("sent", info.sent);
  info.scaled = attr.contains("scaled");
  integer("position", info.position);
  if (auto parts = attr.getAs<DenseI64ArrayAttr>("parts"))
    info.parts = SmallVector<int64_t, 0>(parts.asArrayRef());
  return info;
}

DictionaryAttr ProgramInfo::getAttr(MLIRContext *context) const {
  Builder builder(context);
  auto text = [&](StringRef name, StringRef value) {
    return builder.getNamedAttr(name, builder.getStringAttr(value));
  };
  auto integer = [&](StringRef name, int64_t value) {
    return builder.getNamedAttr(name, builder.getI64IntegerAttr(value));
  };
  SmallVector<NamedAttribute> entries = {
      text("device_type", deviceType),
      text("target", target),
      text("precision", precision),
      text("recompute", cluster::stringifyRecomputePolicy(recompute)),
      integer("stage", stage),
      integer("world_size", worldSize),
      text("wire", wire)};
  if (gradientWire != "f32")
    entries.push_back(text("gradient_wire", gradientWire));
  if (hasLossyParameters)
    entries.push_back(
        builder.getNamedAttr("lossy_parameters", builder.getUnitAttr()));
  if (mixedRecompute)
    entries.push_back(
        builder.getNamedAttr("mixed_recompute", builder.getUnitAttr()));
  if (scaled)
    entries.push_back(builder.getNamedAttr("scaled", builder.getUnitAttr()));
  if (!received.empty())
    entries.push_back(text("received", received));
  if (!sent.empty())
    entries.push_back(text("sent", sent));
  if (isPipelineStage())
    entries.append({integer("group", group), integer("groups", numGroups)});
  if (numChunks > 1)
    entries.push_back(integer("chunks", numChunks));
  if (sharesUnits()) {
    entries.push_back(
        builder.getNamedAttr("parts", builder.getDenseI64ArrayAttr(parts)));
    entries.push_back(integer("position", position));
  }
  return builder.getDictionaryAttr(entries);
}

std::string ProgramInfo::getProgramName() const {
  std::string name = deviceType;
  if (isPipelineStage())
    name += ".stage" + std::to_string(group);
  if (sharesUnits())
    name += ".part" + std::to_string(position);
  return name;
}

std::string zero::getProgramName(PlanOp plan, int64_t rank) {
  RankOp op = plan.getRanks()[rank];
  SmallVector<GroupOp, 0> groups = plan.getGroups();
  ProgramInfo info;
  info.deviceType = op.getDeviceType().str();
  info.group = int64_t(op.getGroup());
  info.numGroups = std::max<int64_t>(1, int64_t(groups.size()));
  if (!groups.empty()) {
    info.parts = groups[info.group].getPartsOfRanks();
    info.position = plan.getPosition(rank);
  }
  return info.getProgramName();
}

std::string ProgramInfo::getTurnName(StringRef pass, int64_t chunk) const {
  return pass.str() + (numChunks > 1 ? ".chunk" + std::to_string(chunk) : "");
}

int64_t ProgramInfo::getOwnChunk(MessageKind kind, bool sends,
                                 int64_t otherGroup, int64_t otherChunk) const {
  bool isOtherBehind = (kind == MessageKind::Activation) == sends;
  int64_t place =
      otherChunk * numGroups + otherGroup + (isOtherBehind ? -1 : 1);
  // Of a message that goes nowhere, which --zero-verify-stages tells of.
  return std::clamp<int64_t>(place / numGroups, 0, numChunks - 1);
}

int64_t zero::getChunk(Operation *function) {
  auto chunk = function->getAttrOfType<IntegerAttr>(kTurnAttr);
  return chunk ? chunk.getInt() : 0;
}

int64_t ProgramInfo::getStage(BucketOp bucket) const {
  return bucket.getStage().value_or(stage);
}

bool ProgramInfo::holds(BucketOp bucket) const {
  return bucket.isUsedBy(group, position);
}

bool ProgramInfo::isShared(BucketOp bucket) const {
  return bucket.getGroups() && bucket.getGroups()->size() > 1;
}

bool ProgramInfo::hasOwnMaster(BucketOp bucket) const {
  int64_t held = getStage(bucket);
  return hasLossyParameters && worldSize > 1 && (held == 1 || held == 2) &&
         getWorkingFormat() == "f32" && !bucket.getFrozen();
}

int64_t zero::countResidual(PlanOp plan, const ProgramInfo &info,
                            BucketOp bucket, int64_t rank) {
  if (info.gradientWire == "f32" || info.worldSize == 1 || bucket.getFrozen())
    return 0;
  // As Topology and ReduceScatter of the runtime do it, which checks the
  // number.
  llvm::StringMap<SmallVector<int64_t>> nodes;
  SmallVector<RankOp, 0> ranks = plan.getRanks();
  for (auto [index, op] : llvm::enumerate(ranks))
    nodes[op.getNode()].push_back(index);
  ArrayRef<int64_t> bounds = *bucket.getBounds(),
                    members = nodes[ranks[rank].getNode()];
  int64_t elements = 0;
  for (auto [slice, owner] : llvm::enumerate(ranks)) {
    bool isOwn = int64_t(slice) == rank && info.getStage(bucket) == 0,
         crosses = owner.getNode() != ranks[rank].getNode() &&
                   members[slice % members.size()] == rank;
    if (crosses || (isOwn && nodes.size() > 1))
      elements += bounds[slice + 1] - bounds[slice];
  }
  return elements;
}

//===----------------------------------------------------------------------===//
// BucketLayout
//===----------------------------------------------------------------------===//

BucketLayout::BucketLayout(ArrayRef<int64_t> sizes) {
  for (int64_t size : sizes) {
    offsets.push_back(elements);
    elements += llvm::alignTo(size, kAlignment);
  }
}

FailureOr<BucketLayout> BucketLayout::get(BucketOp bucket,
                                          SymbolTableCollection &symbols) {
  SmallVector<int64_t> sizes;
  for (auto name : bucket.getParameters().getAsRange<FlatSymbolRefAttr>()) {
    auto parameter =
        symbols.lookupNearestSymbolFrom<nn::ParameterOp>(bucket, name);
    if (!parameter)
      return failure();
    sizes.push_back(
        cast<RankedTensorType>(parameter.getType()).getNumElements());
  }
  return BucketLayout(sizes);
}
