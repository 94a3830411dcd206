//===- ChooseParameters.cpp - Which parameters are trained ----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ChooseParameters.h"
#include "MatchNames.h"
#include "Poplar/Dialect/NN/NN.h"
#include "llvm/ADT/STLExtras.h"

static constexpr llvm::StringRef kWhole = "model.",
                                 kPart = "model.language_model.";

/// What transformers calls a module or a parameter.
static std::string getOuterName(llvm::StringRef name, bool isMultimodal) {
  if (isMultimodal && name.consume_front(kWhole))
    return (kPart + name).str();
  return name.str();
}

/// The opposite.
static std::string getOwnName(llvm::StringRef name, bool isMultimodal) {
  if (isMultimodal && name.consume_front(kPart))
    return (kWhole + name).str();
  return name.str();
}

/// The part of a module's name behind the last dot.
static llvm::StringRef getLastName(llvm::StringRef module) {
  return module.substr(module.rfind('.') + 1);
}

std::vector<std::string> findTargets(mlir::ModuleOp module,
                                     const std::string &pattern,
                                     bool isMultimodal, std::string &error) {
  std::vector<std::string> names;
  for (auto parameter : module.getOps<poplar::nn::ParameterOp>()) {
    llvm::StringRef name = parameter.getSymName();
    auto type = llvm::cast<mlir::RankedTensorType>(parameter.getType());
    if (type.getRank() == 2 && name.consume_back(".weight"))
      names.push_back(getOuterName(name, isMultimodal));
  }
  std::vector<std::string> matched = matchNames(pattern, names, error);
  if (matched.empty()) {
    if (error.empty())
      error = "no module has a name that '" + pattern +
              "' matches from its beginning to its end; the model has, for "
              "example, " +
              (names.size() > 1 ? names[1] : "no linear layer");
    return {};
  }
  std::vector<std::string> targets;
  for (const std::string &name : matched) {
    llvm::StringRef last = getLastName(name), own = name;
    auto isCalled = [&](llvm::StringRef other) {
      return getLastName(other) == last;
    };
    if (llvm::count_if(matched, isCalled) == llvm::count_if(names, isCalled))
      own = last;
    std::string target = getOwnName(own, isMultimodal);
    if (!llvm::is_contained(targets, target))
      targets.push_back(target);
  }
  return targets;
}

std::vector<std::string> findTrained(mlir::ModuleOp module,
                                     const std::vector<std::string> &patterns,
                                     bool isMultimodal, std::string &error) {
  std::vector<std::string> names;
  for (auto parameter : module.getOps<poplar::nn::ParameterOp>())
    names.push_back(getOuterName(parameter.getSymName(), isMultimodal));
  std::vector<std::string> trained;
  for (const std::string &pattern : patterns) {
    std::vector<std::string> matched = matchNames(pattern, names, error);
    if (matched.empty()) {
      if (error.empty())
        error = "no weight has a name that '" + pattern +
                "' matches from its beginning to its end; the model has, for "
                "example, " +
                names.front() + " and " + names.back();
      return {};
    }
    for (const std::string &name : matched)
      trained.push_back(getOwnName(name, isMultimodal));
  }
  return trained;
}

bool isTrained(const std::vector<std::string> &patterns,
               const std::string &name) {
  std::string error;
  return llvm::any_of(patterns, [&](const std::string &pattern) {
    return !matchNames(pattern, {name, getOuterName(name, true)}, error)
                .empty();
  });
}
