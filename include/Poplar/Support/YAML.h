//===- YAML.h - Reading YAML with located errors ----------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A thin layer over a YAML library that throws: no exception leaves it. A file
// is read completely or refused with one error and its place:
//   recipe.yaml:3:1: duplicate key `seed`; the first one is in line 1
// What a reader could miss is refused: duplicate keys, anchors, aliases, merge
// keys, tags, and a second document.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_SUPPORT_YAML_H
#define POPLAR_SUPPORT_YAML_H

#include <optional>
#include <string>
#include <vector>

namespace poplar::yaml {

/// Both are counted from 1.
struct Position {
  int line = 0, column = 0;
};

struct Member;

/// A value, with all that is in it. What a scalar means, readers decide.
struct Content {
  enum Kind { Null, Scalar, List, Map };

  Kind kind = Null;
  Position place;
  /// The text of a scalar; quotes around it make it a string.
  std::string text;
  bool isQuoted = false;
  std::vector<Content> elements;
  std::vector<Member> members;

  /// The value on one line, in short, for messages and tables.
  std::string describe() const;
  /// Null if there is no such member.
  const Content *find(const std::string &key) const;
};

struct Member {
  std::string key;
  Position place;
  Content value;
};

/// "name:3:14: message".
std::string formatError(const std::string &name, Position place,
                        const std::string &message);

/// Reads a file, which holds one document. Fails with `error` set.
std::optional<Content> readFile(const std::string &path, std::string &error);
/// Reads a text, which errors call `name`.
std::optional<Content> parse(const std::string &text, const std::string &name,
                             std::string &error);

} // namespace poplar::yaml

#endif // POPLAR_SUPPORT_YAML_H
