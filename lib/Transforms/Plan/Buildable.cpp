//===- Buildable.cpp - Clusters and plans that can be built ---------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Transforms/Plan/Buildable.h"
#include "Poplar/Dialect/Cluster/Cluster.h"
#include "Poplar/Dialect/NN/Model.h"
#include "Poplar/Dialect/Zero/PlanFacts.h"
#include <map>

using namespace poplar;
using namespace mlir;

std::string poplar::explainUnbuildable(ModuleOp module, const std::string &name,
                                       const std::string &target,
                                       NumberFormat precision) {
  std::string reason = explainUnbuildable(name, target);
  if (reason.empty() && nn::Model::of(module).getFP8Products().value_or(false))
    reason = explainNoFP8(name, target, precision);
  return reason;
}

/// By the name of the device type.
static std::map<std::string, std::string> explainTypes(ModuleOp module) {
  std::map<std::string, std::string> reasons;
  for (auto type : module.getOps<cluster::DeviceTypeOp>()) {
    std::string name = type.getSymName().str();
    std::string reason = explainUnbuildable(
        module, name, type.getTarget().str(), type.getPrecision());
    if (!reason.empty())
      reasons[name] = reason;
  }
  return reasons;
}

static void eraseNode(ModuleOp module, cluster::NodeOp node) {
  StringRef name = node.getSymName();
  for (auto link : llvm::make_early_inc_range(module.getOps<cluster::LinkOp>()))
    if (link.getFirst() == name || link.getSecond() == name)
      link.erase();
  node.erase();
}

/// A node of the cluster, and the devices that it keeps.
using NodeDevices = std::pair<cluster::NodeOp, ArrayAttr>;

static void setDevices(ModuleOp module, ArrayRef<NodeDevices> nodes) {
  for (auto [node, devices] : nodes)
    if (devices.empty())
      eraseNode(module, node);
    else
      cluster::NodeOp(node).setDevicesAttr(devices);
}

void poplar::keepRanks(ModuleOp module, ArrayRef<int> kept) {
  Builder builder(module);
  SmallVector<NodeDevices> nodes;
  int rank = 0;
  for (auto node : module.getOps<cluster::NodeOp>()) {
    SmallVector<Attribute> devices;
    for (Attribute device : node.getDevices())
      if (llvm::binary_search(kept, rank++))
        devices.push_back(device);
    nodes.emplace_back(node, builder.getArrayAttr(devices));
  }
  setDevices(module, nodes);
}

std::vector<UnbuildableDevices> poplar::dropUnbuildable(ModuleOp module,
                                                        std::string &error) {
  std::map<std::string, std::string> reasons = explainTypes(module);
  std::map<std::string, int64_t> counts;
  Builder builder(module);
  SmallVector<NodeDevices> kept;
  bool isAnyLeft = false;
  for (auto node : module.getOps<cluster::NodeOp>()) {
    SmallVector<Attribute> devices;
    for (Attribute device : node.getDevices()) {
      auto name = cast<FlatSymbolRefAttr>(device).getValue().str();
      if (reasons.count(name))
        ++counts[name];
      else
        devices.push_back(device);
    }
    isAnyLeft |= !devices.empty();
    kept.emplace_back(node, builder.getArrayAttr(devices));
  }
  if (!isAnyLeft && !counts.empty()) {
    error = reasons[counts.begin()->first] +
            "; --hypothetical plans for it all the same";
    return {};
  }
  std::vector<UnbuildableDevices> dropped;
  for (const auto &[name, count] : counts)
    dropped.push_back({name, count, reasons[name]});
  if (!dropped.empty())
    setDevices(module, kept);
  return dropped;
}

std::string poplar::explainUnbuildable(ModuleOp module) {
  auto plans = module.getOps<zero::PlanOp>();
  if (plans.empty())
    return "";
  ClusterView cluster = cluster::buildClusterView(module);
  Plan plan = zero::readPlan(*plans.begin());
  std::string reason = explainUnbuildable(cluster, plan);
  for (const Plan::Rank &rank : plan.ranks) {
    if (!reason.empty())
      break;
    if (std::optional<int> index = cluster.findType(rank.type)) {
      const DeviceType &type = cluster.types[*index];
      reason =
          explainUnbuildable(module, type.name, type.target, type.precision);
    }
  }
  return reason;
}
