//===- ClusterView.cpp - From cluster ops to plain data -------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/Cluster/Cluster.h"
#include "llvm/ADT/DenseMap.h"

using namespace mlir;
using namespace poplar;
using namespace poplar::cluster;

namespace {
class ViewBuilder {
public:
  ClusterView build(ModuleOp module);

private:
  void add(DeviceTypeOp op);
  void add(NodeOp op);
  void add(LinkOp op);
  void add(ProfileOp op);

  ClusterView view;
  llvm::DenseMap<StringAttr, int> types, nodes;
};
} // namespace

static std::string getOr(std::optional<StringRef> text, StringRef fallback) {
  return text.value_or(fallback).str();
}

static std::optional<double> toDouble(std::optional<APFloat> value) {
  if (!value)
    return std::nullopt;
  return value->convertToDouble();
}

template <typename T> static std::optional<int64_t> toInteger(T value) {
  if (!value)
    return std::nullopt;
  return static_cast<int64_t>(*value);
}

void ViewBuilder::add(DeviceTypeOp op) {
  types[op.getSymNameAttr()] = static_cast<int>(view.types.size());
  DeviceType &type = view.types.emplace_back();
  type.name = op.getSymName().str();
  type.target = op.getTarget().str();
  type.memory = *op.getMemory();
  type.precision = op.getPrecision();
  type.recompute = op.getRecompute();
  type.isRecomputeFixed = op.getFixedRecompute();
  if (DictionaryAttr flops = op.getFlopsAttr())
    for (NamedAttribute entry : flops)
      type.flops[*parseWord<NumberFormat>(entry.getName().getValue())] =
          cast<FloatAttr>(entry.getValue()).getValueAsDouble();
  type.bandwidth = toDouble(op.getBandwidth());
  type.power = toDouble(op.getPower());
  type.price = toDouble(op.getPrice());
  type.threads = toInteger(op.getThreads());
}

void ViewBuilder::add(NodeOp op) {
  int index = static_cast<int>(view.nodes.size());
  nodes[op.getSymNameAttr()] = index;
  view.nodes.push_back({op.getSymName().str(),
                        static_cast<int>(view.ranks.size()),
                        static_cast<int>(op.getDevices().size())});
  for (auto device : op.getDevices().getAsRange<FlatSymbolRefAttr>())
    view.ranks.push_back({index, types.lookup(device.getAttr())});
}

void ViewBuilder::add(LinkOp op) {
  LinkSpeed speed = {op.getLatency().convertToDouble(),
                     op.getBandwidth().convertToDouble(),
                     toDouble(op.getOverhead()).value_or(0)};
  bool inside = op.getKind() == LinkKind::Inside;
  if (op.isDefault()) {
    (inside ? view.defaultInside : view.defaultBetween) = speed;
    return;
  }
  int first = nodes.lookup(op.getFirstAttr().getAttr());
  int second = inside ? first : nodes.lookup(op.getSecondAttr().getAttr());
  view.links[{first, second}] = speed;
  if (op.getKind() == LinkKind::Between)
    view.links[{second, first}] = speed;
}

void ViewBuilder::add(ProfileOp op) {
  DeviceProfile &profile = view.profiles.emplace_back();
  profile.type = types.lookup(op.getDeviceTypeAttr().getAttr());
  profile.stage = static_cast<int>(op.getStage());
  profile.microBatches = op.getMicroBatches().vec();
  profile.seconds = op.getSeconds().vec();
  profile.spread = op.getSpread().value_or(ArrayRef<double>()).vec();
  profile.maxMicroBatch = toInteger(op.getMaxMicroBatch());
  if (op.getFixedBytes())
    profile.memory = {static_cast<int64_t>(*op.getFixedBytes()),
                      static_cast<int64_t>(*op.getBytesPerSample())};
  profile.optimizerSeconds = toDouble(op.getOptimizer());
  const DeviceType &type = view.types[profile.type];
  profile.precision = op.getPrecision().value_or(type.precision);
  profile.recompute = op.getRecompute().value_or(type.recompute);
  profile.isEstimate = op.getEstimate();
  profile.model = getOr(op.getModel(), "");
}

ClusterView ViewBuilder::build(ModuleOp module) {
  // By kind: ops may refer to others that come later in the module.
  for (DeviceTypeOp op : module.getOps<DeviceTypeOp>())
    add(op);
  for (NodeOp op : module.getOps<NodeOp>())
    add(op);
  for (LinkOp op : module.getOps<LinkOp>())
    add(op);
  for (ProfileOp op : module.getOps<ProfileOp>())
    add(op);
  return std::move(view);
}

ClusterView poplar::cluster::buildClusterView(ModuleOp module) {
  return ViewBuilder().build(module);
}
