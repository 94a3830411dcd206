//===- TextConfig.h - The model of text in a larger model -------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_IMPORT_TEXTCONFIG_H
#define POPLAR_LIB_IMPORT_TEXTCONFIG_H

#include "Poplar/Support/JSON.h"
#include <memory>
#include <string>

namespace poplar::import {

/// The configuration of the model of text alone, as a document of its own, from
/// one whose architecture reads pictures as well as text. Without pictures,
/// both compute the same logits. Null if `document` is of no such
/// architecture; an error in it if it is, but cannot be read.
/// `findArchitecture` gives the one of a model_type of text, or none.
std::unique_ptr<json::Document>
extractTextConfig(json::Document &document, const std::string &name,
                  std::string (*findArchitecture)(const std::string &));

/// The architectures that extractTextConfig knows, separated by commas.
std::string listMultimodalArchitectures();

} // namespace poplar::import

#endif // POPLAR_LIB_IMPORT_TEXTCONFIG_H
