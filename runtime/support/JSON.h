//===- JSON.h - A small, strict JSON reader ---------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For what an executable reads: its own description, safetensors headers and
// state.json. Input may be hostile: depth is bounded, numbers and escapes are
// checked, duplicate keys and trailing text are errors.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_JSON_H
#define POPLAR_RUNTIME_JSON_H

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace poplar::runtime::json {

class Value {
public:
  enum Kind { Null, Boolean, Number, String, Array, Object };

  Kind kind() const { return TheKind; }
  /// The member of an object, or null if there is none (or no object).
  const Value *find(std::string_view Key) const;
  const std::vector<Value> &elements() const { return Elements; }
  const std::vector<std::pair<std::string, Value>> &members() const {
    return Members;
  }
  /// For a reader that changes what it has read. No two members may be given
  /// the same name.
  std::vector<Value> &elements() { return Elements; }
  std::vector<std::pair<std::string, Value>> &members() { return Members; }
  /// Replaces the content of a string.
  void setText(const std::string &Content) { Text = Content; }

  /// Each returns the default when the value has another kind.
  std::string_view asString(std::string_view Default = {}) const {
    return TheKind == String ? std::string_view(Text) : Default;
  }
  double asDouble(double Default = 0) const;
  /// A number as it is written.
  std::string_view getSpelling() const {
    return TheKind == Number ? std::string_view(Text) : std::string_view();
  }
  bool asBool(bool Default = false) const {
    return TheKind == Boolean ? Text == "true" : Default;
  }
  /// True, with the value in Result, if this is an integer of 64 bits.
  bool asInteger(int64_t &Result) const;

  /// Shorthands for a member of an object.
  int64_t integer(std::string_view Key, int64_t Default) const;
  double number(std::string_view Key, double Default) const;
  std::string string(std::string_view Key, std::string_view Default) const;

private:
  friend class Parser;
  Kind TheKind = Null;
  /// The content of a string; the spelling of a number or Boolean.
  std::string Text;
  std::vector<Value> Elements;
  std::vector<std::pair<std::string, Value>> Members;
};

/// Parses all of `Text`; an Error names `Source` and the byte offset.
Value parse(std::string_view Text, const std::string &Source);

/// The JSON string literal of `Text`.
std::string quote(std::string_view Text);

} // namespace poplar::runtime::json

#endif // POPLAR_RUNTIME_JSON_H
