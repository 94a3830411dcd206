//===- DetectHost.cpp - The cluster file of the machine at hand -----------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/Cluster/Cluster.h"
#include "Poplar/Import/Cluster.h"
#include "Poplar/Support/HostCPU.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Threading.h"

using namespace mlir;
using namespace poplar;
using namespace poplar::cluster;

std::vector<std::string> poplar::getHostTypes(const HostMachine &machine) {
  std::vector<std::string> names;
  for (const TargetInfo &target : getTargetInfos())
    if (!target.instructions.empty() &&
        llvm::all_of(target.instructions, [&](std::string_view feature) {
          return llvm::is_contained(machine.features, feature);
        }))
      names.emplace_back(target.getChip());
  return names;
}

LogicalResult poplar::detectHost(HostMachine &machine, std::string &error) {
  machine.processor = getHostCPU().name;
  machine.features = getHostCPU().features;
  machine.cores = static_cast<int>(
      llvm::heavyweight_hardware_concurrency().compute_thread_count());
  // "MemAvailable:   22341368 kB"
  constexpr llvm::StringLiteral file = "/proc/meminfo", key = "MemAvailable:";
  auto buffer = llvm::MemoryBuffer::getFileAsStream(file);
  if (!buffer) {
    error = file.str() + ": " + buffer.getError().message();
    return failure();
  }
  StringRef line = (*buffer)->getBuffer();
  line =
      line.substr(line.find(key)).take_until([](char c) { return c == '\n'; });
  int64_t kibibytes = 0;
  if (!line.consume_front(key) || !line.consume_back("kB") ||
      line.trim().getAsInteger(10, kibibytes)) {
    error = file.str() + ": holds no line '" + key.str() + " N kB'";
    return failure();
  }
  machine.memory = kibibytes * 1024;
  return success();
}

OwningOpRef<ModuleOp>
poplar::describeHost(const HostMachine &machine,
                     const std::vector<std::pair<std::string, int>> &ranks,
                     MLIRContext &context, std::string &error) {
  std::vector<std::string> types = getHostTypes(machine);
  types.insert(types.begin(), "host");
  int64_t numRanks = 0;
  for (const auto &[type, count] : ranks) {
    if (!llvm::is_contained(types, type)) {
      error = "this machine (" + machine.processor + ") has no host type '" +
              type + "' (it has: " + llvm::join(types, ", ") + ")";
      return {};
    }
    numRanks += count;
  }
  if (numRanks < 1 || numRanks > machine.cores) {
    error = "a rank needs a core of its own: " + std::to_string(numRanks) +
            " ranks were asked for, expected 1 to " +
            std::to_string(machine.cores);
    return {};
  }

  context.loadDialect<ClusterDialect>();
  Location loc = UnknownLoc::get(&context);
  OwningOpRef<ModuleOp> module = ModuleOp::create(loc);
  OpBuilder builder = OpBuilder::atBlockEnd(module->getBody());
  auto getText = [&](const Twine &text) { return builder.getStringAttr(text); };
  StringAttr source =
      getText("detected: " + machine.processor + ", equal shares of " +
              Twine(machine.cores) + " cores; ranks: " + Twine(numRanks));
  for (const std::string &type : types) {
    StringAttr target = getText(type == "host" ? type : "host:" + type);
    DeviceTypeOp::create(
        builder, loc, getText(type), target,
        builder.getI64IntegerAttr(
            std::min(machine.memory / numRanks, kMaxBytes)),
        getFormatAttr(&context,
                      findTargetInfo(target.getValue())->formats.front()),
        getText("keep"), /*flops=*/nullptr, /*bandwidth=*/nullptr,
        /*power=*/nullptr, /*price=*/nullptr,
        builder.getI64IntegerAttr(machine.cores / numRanks), source,
        /*fixed_recompute=*/UnitAttr());
  }
  SmallVector<Attribute> devices;
  for (const auto &[type, count] : ranks)
    devices.append(count, FlatSymbolRefAttr::get(&context, type));
  NodeOp::create(builder, loc, getText("localhost"),
                 builder.getArrayAttr(devices));
  LinkOp::create(builder, loc, LinkKindAttr::get(&context, LinkKind::Inside),
                 /*first=*/nullptr, /*second=*/nullptr,
                 builder.getF64FloatAttr(2e-6), builder.getF64FloatAttr(5e9),
                 builder.getF64FloatAttr(2e-10),
                 getText("assumed of shared memory, not measured"));
  return module;
}
