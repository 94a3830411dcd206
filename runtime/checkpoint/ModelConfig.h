//===- ModelConfig.h - Compares a config.json with a program ----*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_MODELCONFIG_H
#define POPLAR_RUNTIME_MODELCONFIG_H

#include <string>

namespace poplar::runtime {

/// Fails, with the key and both values, unless the config.json at `Path`
/// describes the function that the program computes. `Facts` is what the
/// importer wrote (`config_facts` of the description): a JSON object with
///   model_type, architecture  of the family
///   facts   [{keys, values, absent, null}]: the first key (a path such as
///           rope_parameters.factor) that the configuration has must hold one
///           of `values`, the program's being the first; `absent` is what its
///           lack means, and `null` what null means (by default the same)
///   known   names of all keys that are facts or change nothing
///   multimodal  the architecture whose model of text this is, if it is one: a
///           configuration of that architecture has the keys in text_config
/// What the runtime knows of families is in it.
/// Returns whether the configuration is of the larger model.
bool checkModelConfig(const std::string &Facts, const std::string &Path);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_MODELCONFIG_H
