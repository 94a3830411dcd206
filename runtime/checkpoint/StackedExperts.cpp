//===- StackedExperts.cpp - Experts in one tensor -------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "checkpoint/StackedExperts.h"
#include "support/Text.h"

using namespace poplar::runtime;

/// What the rows of an expert's matrix are, from the first ones on; empty for
/// tensors that are no stacks of experts.
static std::vector<std::string> getLeaves(const std::string &Name,
                                          const TensorView &View) {
  if (View.Shape.size() != 3 || View.Elements == 0 ||
      View.Bytes % View.Elements)
    return {};
  if (endsWith(Name, ".experts.down_proj"))
    return {"down_proj"};
  if (endsWith(Name, ".experts.gate_up_proj") && View.Shape[1] % 2 == 0)
    return {"gate_proj", "up_proj"};
  return {};
}

void poplar::runtime::splitStackedExperts(TensorFiles &Files) {
  std::vector<std::string> Stacked;
  for (const auto &[Name, View] : Files.tensors())
    if (!getLeaves(Name, View).empty())
      Stacked.push_back(Name);
  for (const std::string &Name : Stacked) {
    const TensorView &View = *Files.find(Name);
    std::vector<std::string> Leaves = getLeaves(Name, View);
    int64_t Rows = View.Shape[1] / static_cast<int64_t>(Leaves.size()),
            Columns = View.Shape[2], Begin = 0;
    std::string Module = Name.substr(0, Name.rfind('.') + 1);
    std::map<std::string, TensorView> Parts;
    for (int64_t Expert = 0; Expert < View.Shape[0]; ++Expert)
      for (const std::string &Leaf : Leaves) {
        Parts.emplace(Module + std::to_string(Expert) + "." + Leaf + ".weight",
                      View.getPart(Begin, {Rows, Columns}));
        Begin += Rows * Columns;
      }
    Files.replace(Name, std::move(Parts));
  }
}
