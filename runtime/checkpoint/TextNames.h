//===- TextNames.h - Tensors of the model of text ---------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A model that reads pictures has its model of text under `language_model`:
//   model.language_model.layers.0...  and lm_head.weight, since transformers 5
//   language_model.model.layers.0...  and language_model.lm_head.weight, before
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_TEXTNAMES_H
#define POPLAR_RUNTIME_TEXTNAMES_H

#include <string>
#include <string_view>

namespace poplar::runtime {

/// The name that the model of text has for a tensor, `model.layers.0...`; the
/// name itself where it has no `language_model`.
std::string getTextName(const std::string &Name);

/// The opposite, as transformers 5 names tensors and modules.
std::string getMultimodalName(const std::string &Name);

/// Whether a tensor of the larger model belongs to the model of text.
bool isOfText(const std::string &Name);

/// Whether a name is that of a head, which a model whose embeddings are tied
/// has as a copy of them or not at all.
bool isHead(std::string_view Name);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_TEXTNAMES_H
