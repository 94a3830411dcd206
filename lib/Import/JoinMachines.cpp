//===- JoinMachines.cpp - One cluster of several machines -----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Import/JoinMachines.h"
#include "Poplar/Dialect/Cluster/Cluster.h"
#include "Poplar/Support/Names.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Verifier.h"
#include <algorithm>
#include <set>

using namespace mlir;
using namespace poplar;
using namespace poplar::cluster;

namespace {

class MachineJoiner {
public:
  MachineJoiner(MLIRContext &context, std::string &error)
      : error(error), module(ModuleOp::create(UnknownLoc::get(&context))),
        builder(OpBuilder::atBlockEnd(module->getBody())) {}

  bool add(const DetectedMachine &machine);
  void connect(const NetworkSpeed &network);

  std::string &error;
  OwningOpRef<ModuleOp> module;

private:
  StringAttr addType(DeviceTypeOp type, StringRef machine);

  OpBuilder builder;
  std::set<std::string> names;
};

} // namespace

/// What a type is, apart from its name and its memory.
static DictionaryAttr getNature(DeviceTypeOp type) {
  NamedAttrList attributes(type->getAttrs());
  attributes.erase(type.getSymNameAttrName());
  attributes.erase(type.getMemoryAttrName());
  return attributes.getDictionary(type.getContext());
}

/// The name of the type in the joined cluster.
StringAttr MachineJoiner::addType(DeviceTypeOp type, StringRef machine) {
  std::string name = type.getSymName().str();
  for (DeviceTypeOp other : module->getOps<DeviceTypeOp>()) {
    if (getNature(other) == getNature(type)) {
      if (other.getMemory() && type.getMemory())
        other.setMemory(std::min(*other.getMemory(), *type.getMemory()));
      return other.getSymNameAttr();
    }
    if (other.getSymName() == type.getSymName())
      name = (machine + "-" + type.getSymName()).str();
  }
  builder.setInsertionPointToStart(module->getBody());
  auto added = cast<DeviceTypeOp>(builder.clone(*type.getOperation()));
  added.setSymName(name);
  builder.setInsertionPointToEnd(module->getBody());
  return added.getSymNameAttr();
}

bool MachineJoiner::add(const DetectedMachine &machine) {
  if (!isName(machine.name) || !names.insert(machine.name).second) {
    error = isName(machine.name)
                ? machine.name + " is named twice"
                : showName(machine.name) + ": " + describeNameRule();
    return false;
  }
  ModuleOp cluster = machine.cluster.get();
  SymbolTable symbols(cluster);
  for (NodeOp node : cluster.getOps<NodeOp>()) {
    SmallVector<Attribute> devices;
    for (auto device : node.getDevices().getAsRange<FlatSymbolRefAttr>()) {
      auto type = symbols.lookup<DeviceTypeOp>(device.getValue());
      if (type.getTarget() == "host") {
        error = machine.name + ": has no GPUs, and programs for 'host' are "
                               "built on the machine that they run on; "
                               "--devices names what its CPU is to run as, "
                               "such as avx2-f32=1";
        return false;
      }
      devices.push_back(FlatSymbolRefAttr::get(addType(type, machine.name)));
    }
    NodeOp::create(builder, node.getLoc(), builder.getStringAttr(machine.name),
                   builder.getArrayAttr(devices));
  }
  for (LinkOp link : cluster.getOps<LinkOp>()) {
    auto inside = cast<LinkOp>(builder.clone(*link.getOperation()));
    inside.setFirst(machine.name);
  }
  return true;
}

void MachineJoiner::connect(const NetworkSpeed &network) {
  LinkOp::create(builder, module->getLoc(),
                 LinkKindAttr::get(builder.getContext(), LinkKind::Between),
                 /*first=*/nullptr, /*second=*/nullptr,
                 builder.getF64FloatAttr(network.latency),
                 builder.getF64FloatAttr(network.bandwidth),
                 /*overhead=*/nullptr, builder.getStringAttr(network.source));
}

OwningOpRef<ModuleOp>
poplar::joinMachines(const std::vector<DetectedMachine> &machines,
                     const NetworkSpeed &network, MLIRContext &context,
                     std::string &error) {
  context.loadDialect<ClusterDialect>();
  MachineJoiner joiner(context, error);
  for (const DetectedMachine &machine : machines)
    if (!joiner.add(machine))
      return {};
  joiner.connect(network);
  if (succeeded(verify(*joiner.module)))
    return std::move(joiner.module);
  error = "the machines make no cluster";
  return {};
}
