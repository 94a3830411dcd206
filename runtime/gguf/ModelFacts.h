//===- ModelFacts.h - What is known of a model ------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_MODELFACTS_H
#define POPLAR_RUNTIME_MODELFACTS_H

#include "program/ModelInfo.h"
#include "support/JSON.h"

#include <optional>
#include <string>
#include <string_view>

namespace poplar::runtime {

/// What decides the function that a program computes, by the keys of
/// config.json, with the defaults of the family filled in (ModelConfig.h).
class ModelFacts {
public:
  explicit ModelFacts(const ModelInfo &Model);

  /// Null if there is no such key, or its value is null.
  const json::Value *find(std::string_view Key) const;
  /// Whether a key is there with a value, other than false.
  bool has(std::string_view Key) const;
  /// Values of keys that are there in every model of the family.
  int64_t getCount(std::string_view Key) const;
  double getNumber(std::string_view Key) const;
  std::string getText(std::string_view Key) const;
  /// Values of keys of which some models lack one.
  std::optional<double> findNumber(std::string_view Key) const;

  /// The whole config.json, for what does not decide the function.
  const json::Value &config() const { return Config; }

private:
  [[noreturn]] void fail(std::string_view Key) const;

  json::Value Facts, Config;
};

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_MODELFACTS_H
