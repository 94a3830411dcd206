//===- StackedExperts.cpp - Experts in one tensor -------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "checkpoint/StackedExperts.h"
#include "support/Text.h"

#include <algorithm>
#include <memory>

using namespace poplar::runtime;

std::vector<std::string>
poplar::runtime::getStackedLeaves(const std::string &Name,
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
    if (!getStackedLeaves(Name, View).empty())
      Stacked.push_back(Name);
  for (const std::string &Name : Stacked) {
    const TensorView &View = *Files.find(Name);
    std::vector<std::string> Leaves = getStackedLeaves(Name, View);
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

namespace {
/// The matrices of a layer's experts, one after the other.
class Stack {
public:
  Stack(std::vector<TensorSource> Parts, bool Copies)
      : Parts(std::move(Parts)), Copies(Copies),
        Each(this->Parts[0].Shape[0] * this->Parts[0].Shape[1]) {}

  /// Elements [Begin, End). All ranks read, one of them has the elements.
  const float *read(int64_t Begin, int64_t End) {
    if (Copies)
      Values.resize(static_cast<size_t>(End - Begin));
    float *Out = Values.data();
    for (int64_t Last; Begin < End; Begin = Last) {
      int64_t Part = Begin / Each, First = Part * Each;
      Last = std::min(End, First + Each);
      const float *Read =
          Parts[static_cast<size_t>(Part)].Read(Begin - First, Last - First);
      if (Copies)
        Out = std::copy_n(Read, Last - Begin, Out);
    }
    return Values.data();
  }

private:
  std::vector<TensorSource> Parts;
  bool Copies;
  int64_t Each;
  std::vector<float> Values;
};
} // namespace

/// The tensor `Name` of the matrices [Rows, Columns] of `Experts` experts.
static TensorSource join(const std::string &Name, int64_t Experts,
                         std::vector<TensorSource> Parts, bool Copies) {
  auto PerExpert = static_cast<int64_t>(Parts.size()) / Experts;
  std::vector<int64_t> Shape = {Experts, PerExpert * Parts[0].Shape[0],
                                Parts[0].Shape[1]};
  auto All = std::make_shared<Stack>(std::move(Parts), Copies);
  return {Name, std::move(Shape),
          [All](int64_t Begin, int64_t End) { return All->read(Begin, End); }};
}

void poplar::runtime::stackExperts(std::vector<TensorSource> &Tensors,
                                   bool Copies) {
  std::map<std::string, const TensorSource *> ByName;
  for (const TensorSource &T : Tensors)
    ByName.emplace(T.Name, &T);
  std::vector<TensorSource> Stacked;
  for (const TensorSource &T : Tensors) {
    size_t At = T.Name.find(".experts.");
    if (At == std::string::npos) {
      Stacked.push_back(T);
      continue;
    }
    // The first tensor of a layer's experts stands for all of them.
    std::string Module = T.Name.substr(0, At + sizeof(".experts.") - 1);
    if (T.Name != Module + "0.gate_proj.weight")
      continue;
    std::vector<TensorSource> Wide, Narrow;
    int64_t Experts = 0;
    for (;; ++Experts) {
      std::string Expert = Module + std::to_string(Experts) + ".";
      auto Gate = ByName.find(Expert + "gate_proj.weight");
      if (Gate == ByName.end())
        break;
      Wide.push_back(*Gate->second);
      Wide.push_back(*ByName.at(Expert + "up_proj.weight"));
      Narrow.push_back(*ByName.at(Expert + "down_proj.weight"));
    }
    Stacked.push_back(
        join(Module + "gate_up_proj", Experts, std::move(Wide), Copies));
    Stacked.push_back(
        join(Module + "down_proj", Experts, std::move(Narrow), Copies));
  }
  Tensors = std::move(Stacked);
}
