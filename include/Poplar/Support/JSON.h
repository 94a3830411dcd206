//===- JSON.h - Reading JSON with located errors ----------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A thin layer over a JSON library that throws: no exception leaves it, and
// what is wrong with a file is said once, with the place:
//   config.json:3:14: syntax error - unexpected end of input
//   cluster.json: nodes[2].count: expected an integer, found a string
// Readers ask for what they need and look at the error once, at the end: the
// first failure is kept, and getters that fail return a harmless value.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_SUPPORT_JSON_H
#define POPLAR_SUPPORT_JSON_H

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace poplar::json {

class Document;

/// A place in a document, which may be absent (a missing key) or null. Valid
/// as long as its document.
class Value {
public:
  /// Absent and null are the same to most configurations.
  bool isPresent() const;
  /// Present, and the literal null.
  bool isNull() const;
  bool isObject() const;
  bool isArray() const;
  bool isString() const;
  bool isNumber() const;

  /// Member of an object, absent if there is none. An error if this is present
  /// but no object.
  Value operator[](const std::string &key) const;
  /// Element of an array. An error if there is none.
  Value operator[](size_t index) const;
  /// Elements of an array or members of an object, else 0.
  size_t size() const;
  /// Names of an object's members, sorted.
  std::vector<std::string> keys() const;

  /// The value; an error if it is absent, of another type, or out of range.
  bool getBool() const;
  int64_t
  getInteger(int64_t minimum = std::numeric_limits<int64_t>::min(),
             int64_t maximum = std::numeric_limits<int64_t>::max()) const;
  double getNumber() const;
  std::string getString() const;

  /// The same, but `fallback` where the value is absent or null.
  bool getBool(bool fallback) const {
    return isPresent() ? getBool() : fallback;
  }
  double getNumber(double fallback) const {
    return isPresent() ? getNumber() : fallback;
  }
  std::string getString(const std::string &fallback) const {
    return isPresent() ? getString() : fallback;
  }

  /// The value in short, for error messages.
  std::string describe() const;
  /// The value as JSON on one line; empty if it is absent.
  std::string dump() const;
  /// Where it is: `nodes[2].count`.
  const std::string &getPath() const { return path; }

  /// Records `<file>: <path>: <message>` unless an error is recorded already.
  void error(const std::string &message) const;

private:
  friend class Document;
  Value(Document *document, const void *node, std::string path)
      : document(document), node(node), path(std::move(path)) {}

  Document *document;
  const void *node; // of the JSON library; null if absent
  std::string path;
};

/// A parsed file and the first error found in it.
class Document {
public:
  /// Reads `file`, which error messages call `name`. On failure the document is
  /// empty and has an error.
  static std::unique_ptr<Document> open(const std::string &file,
                                        const std::string &name);
  static std::unique_ptr<Document> parse(std::string text,
                                         const std::string &name);
  ~Document();

  Value getRoot();
  /// The text that was parsed, without what was removed since.
  const std::string &getText() const { return text; }
  /// Removes the member at `path`, as in `rope_parameters.factor`. False if
  /// there is none. Values that were obtained before are invalid.
  bool remove(const std::string &path);

  bool hasError() const { return !message.empty(); }
  const std::string &getError() const { return message; }
  /// Records `<file>: <message>` unless an error is recorded already.
  void error(const std::string &message);

private:
  friend class Value;
  explicit Document(const std::string &name);

  std::string name, text, message;
  struct Tree;
  std::unique_ptr<Tree> tree;
};

} // namespace poplar::json

#endif // POPLAR_SUPPORT_JSON_H
