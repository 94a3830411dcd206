//===- TextNames.cpp - Tensors of the model of text -----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "checkpoint/TextNames.h"
#include "support/Text.h"

using namespace poplar::runtime;

static const std::string Whole = "model.", Part = "language_model.",
                         Head = "lm_head";

static bool startsWith(const std::string &Name, const std::string &Prefix) {
  return Name.compare(0, Prefix.size(), Prefix) == 0;
}

std::string poplar::runtime::getTextName(const std::string &Name) {
  if (startsWith(Name, Part))
    return Name.substr(Part.size());
  if (startsWith(Name, Whole + Part))
    return Whole + Name.substr(Whole.size() + Part.size());
  return Name;
}

std::string poplar::runtime::getMultimodalName(const std::string &Name) {
  return startsWith(Name, Whole) ? Whole + Part + Name.substr(Whole.size())
                                 : Name;
}

bool poplar::runtime::isOfText(const std::string &Name) {
  return startsWith(Name, Part) || startsWith(Name, Whole + Part) ||
         startsWith(Name, Head);
}

bool poplar::runtime::isHead(std::string_view Name) {
  return endsWith(Name, "lm_head.weight") || endsWith(Name, "lm_head.bias") ||
         endsWith(Name, "embed_out.weight") ||
         endsWith(Name, "decoder.weight") || endsWith(Name, "decoder.bias");
}
