//===- UnitCosts.cpp - How a step's time is cut into calls ----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "UnitCosts.h"

using namespace mlir;
using namespace poplar;

/// FLOPs per byte where the cluster does not say: 160 GFLOP/s against 15 GB/s
/// of a server core, 312 TFLOP/s against 2 TB/s of an A100.
static constexpr double hostBalance = 10, deviceBalance = 150;

UnitCosts::UnitCosts(ModuleOp program, const DeviceType &type)
    : symbols(program) {
  auto flops = type.flops.find(type.precision);
  if (flops != type.flops.end() && type.bandwidth)
    balance = flops->second / *type.bandwidth;
  else
    balance = type.target.rfind("host", 0) == 0 ? hostBalance : deviceBalance;
}

const SmallVector<nn::OpCost> &UnitCosts::getCosts(Operation *op) {
  Operation *body = op;
  if (auto call = dyn_cast<func::CallOp>(op))
    body = symbols.lookup(call.getCallee());
  auto [entry, isNew] = costs.try_emplace(body);
  if (isNew)
    body->walk([&, &list = entry->second](nn::CostOpInterface cost) {
      list.push_back(cost.getCost());
    });
  return entry->second;
}

double UnitCosts::getWork(Operation *op, int64_t batch) {
  if (!isa<func::CallOp, nn::CostOpInterface>(op))
    return 0;
  double work = 0;
  for (const nn::OpCost &cost : getCosts(op)) {
    double bytes = cost.bytes * double(batch) + cost.fixedBytes;
    work += std::max(cost.flops * double(batch), bytes * balance);
  }
  return work;
}
