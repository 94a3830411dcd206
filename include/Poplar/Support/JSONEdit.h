//===- JSONEdit.h - Changing files of JSON ----------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_SUPPORT_JSONEDIT_H
#define POPLAR_SUPPORT_JSONEDIT_H

#include <string>
#include <vector>

namespace poplar::json {

/// One change of a document.
struct Edit {
  enum Kind {
    /// The value at the place becomes `value`; objects on the way are made.
    Set,
    /// `value` is put behind the elements of the array at the place.
    Append
  };
  Kind kind;
  /// A pointer of RFC 6901, such as /added_tokens/3/special.
  std::string place;
  /// JSON.
  std::string value;
};

/// The text of a document after some changes, indented by two spaces. Members
/// keep their order. Empty with `error` set if the text, a value or a place is
/// none; `name` names the document there.
std::string edit(const std::string &text, const std::string &name,
                 const std::vector<Edit> &edits, std::string &error);

/// A string as JSON. The text is UTF-8.
std::string quote(const std::string &text);

} // namespace poplar::json

#endif // POPLAR_SUPPORT_JSONEDIT_H
