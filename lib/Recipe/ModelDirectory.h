//===- ModelDirectory.h - Where the model of a recipe lies ------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_RECIPE_MODELDIRECTORY_H
#define POPLAR_LIB_RECIPE_MODELDIRECTORY_H

#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <string>

namespace poplar {

/// The path of a file in a directory.
std::string joinPath(llvm::StringRef directory, llvm::StringRef name);

/// The directory that holds a model: `name` itself if there is such a
/// directory, or the snapshot of a `revision` (empty for main) that the cache
/// of the Hugging Face Hub has. Empty if there is neither.
std::string findModelDirectory(const std::string &name,
                               const std::string &revision);

/// A special token of the tokenizer beside the model, such as `eos_token`;
/// empty if tokenizer_config.json does not say.
std::string readSpecialToken(const std::string &directory,
                             const std::string &name);

/// The rows of the embedding by config.json; 0 if it does not say.
int64_t readVocabularySize(const std::string &directory);

/// The family of the model by config.json, as in `gpt_neox`; empty if it does
/// not say.
std::string readModelType(const std::string &directory);

/// A value of config.json on one line, as in `0.02`, `true` or `"silu"`; empty
/// if it is not there.
std::string readConfigValue(const std::string &directory,
                            const std::string &key);

/// The version of the tokenizer that mistral-common reads, as in `v7`; empty if
/// tekken.json does not say.
std::string readTekkenVersion(const std::string &directory);

/// Whether tokenizer.json cuts text into words as tekken.json does.
bool splitsAsTekken(const std::string &directory);

/// Whether the model comes with a template for conversations.
bool shipsChatTemplate(const std::string &directory);

} // namespace poplar

#endif // POPLAR_LIB_RECIPE_MODELDIRECTORY_H
