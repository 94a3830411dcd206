//===- ChooseParameters.h - Which parameters are trained --------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Parameters by regular expressions for their whole names, which are those of
// checkpoints. A model of text in a larger model is called as there, since
// transformers 5: model.language_model in place of model.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_TOOLS_CHOOSEPARAMETERS_H
#define POPLAR_TOOLS_CHOOSEPARAMETERS_H

#include "mlir/IR/BuiltinOps.h"
#include <string>
#include <vector>

/// The modules whose whole names a regular expression matches, as PEFT compares
/// target_modules that are a text; by their last names where it matches all
/// modules of such a name. Empty with `error` set if there are none.
std::vector<std::string> findTargets(mlir::ModuleOp module,
                                     const std::string &pattern,
                                     bool isMultimodal, std::string &error);

/// The parameters that the expressions match, in any order. Empty with `error`
/// set if an expression matches none.
std::vector<std::string> findTrained(mlir::ModuleOp module,
                                     const std::vector<std::string> &patterns,
                                     bool isMultimodal, std::string &error);

/// Whether one of the expressions matches the name of a parameter, as it is
/// called in a larger model or not.
bool isTrained(const std::vector<std::string> &patterns,
               const std::string &name);

#endif // POPLAR_TOOLS_CHOOSEPARAMETERS_H
