//===- Description.h - Reading what a tokenizer.json says -------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_TOKENIZER_DESCRIPTION_H
#define POPLAR_RUNTIME_TOKENIZER_DESCRIPTION_H

#include "support/Error.h"
#include "support/JSON.h"

#include <string>

namespace poplar::runtime {

/// An object of a tokenizer.json, and where it is for errors, such as
/// "'tokenizer.json': pre_tokenizer.pretokenizers[1] (Split)".
class Description {
public:
  Description(const json::Value &Object, std::string Path)
      : Object(Object), Path(std::move(Path)) {
    if (Object.kind() != json::Value::Object)
      fail(this->Path, ": expected an object");
    if (const json::Value *Type = Object.find("type"))
      TheType = Type->asString();
    if (!TheType.empty())
      this->Path += " (" + TheType + ")";
  }

  const std::string &type() const { return TheType; }
  const std::string &path() const { return Path; }
  const json::Value *find(std::string_view Key) const {
    const json::Value *Member = Object.find(Key);
    return Member && Member->kind() != json::Value::Null ? Member : nullptr;
  }

  template <typename... Ts> [[noreturn]] void refuse(const Ts &...What) const {
    fail(Path, ": ", What...);
  }
  const json::Value &get(std::string_view Key, json::Value::Kind Kind,
                         const char *Expected) const {
    const json::Value *Member = find(Key);
    if (!Member || Member->kind() != Kind)
      refuse("expected ", Expected, " as '", Key, "'");
    return *Member;
  }
  std::string getString(std::string_view Key) const {
    return std::string(get(Key, json::Value::String, "a string").asString());
  }
  std::string getString(std::string_view Key, const char *Default) const {
    return find(Key) ? getString(Key) : Default;
  }
  bool getBool(std::string_view Key, bool Default) const {
    return find(Key) ? get(Key, json::Value::Boolean, "true or false").asBool()
                     : Default;
  }
  int64_t getInteger(std::string_view Key, int64_t Default) const {
    int64_t Result = Default;
    const json::Value *Member = find(Key);
    if (Member && (!Member->asInteger(Result) || Result < 0))
      refuse("expected an integer that is not negative as '", Key, "'");
    return Result;
  }
  Description getObject(std::string_view Key) const {
    return {get(Key, json::Value::Object, "an object"), getPathOf(Key)};
  }
  /// Calls `Take` with every object of an array.
  template <typename Callback>
  void forEach(std::string_view Key, const Callback &Take) const {
    size_t I = 0;
    for (const json::Value &Element :
         get(Key, json::Value::Array, "an array").elements())
      Take(Description(Element,
                       getPathOf(Key) + "[" + std::to_string(I++) + "]"));
  }

private:
  std::string getPathOf(std::string_view Key) const {
    // A colon follows the name of the file.
    return Path + (Path.back() == '\'' ? ": " : ".") + std::string(Key);
  }

  const json::Value &Object;
  std::string Path, TheType;
};

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_TOKENIZER_DESCRIPTION_H
