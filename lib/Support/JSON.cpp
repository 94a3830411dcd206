//===- JSON.cpp - Reading JSON with located errors ------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// The one source compiled with exceptions for the JSON library's sake; it
// includes nothing of LLVM.

#include "Poplar/Support/JSON.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>

using namespace poplar::json;
using Node = nlohmann::json;

/// No configuration is longer; a device or a checkpoint given by mistake is.
static constexpr size_t kMaxBytes = size_t(64) << 20;

/// The same for arrays and objects in each other, as in the runtime's reader:
/// each level takes memory.
static constexpr size_t kMaxDepth = 64;

struct Document::Tree {
  Node root;
};

static const Node *get(const void *node) {
  return static_cast<const Node *>(node);
}

//===----------------------------------------------------------------------===//
// Document
//===----------------------------------------------------------------------===//

Document::Document(const std::string &name)
    : name(name), tree(std::make_unique<Tree>()) {}

Document::~Document() = default;

void Document::error(const std::string &what) {
  if (message.empty())
    message = name + ": " + what;
}

Value Document::getRoot() { return Value(this, &tree->root, ""); }

std::unique_ptr<Document> Document::open(const std::string &file,
                                         const std::string &name) {
  auto fail = [&](const std::string &what) {
    std::unique_ptr<Document> document(new Document(name));
    document->error(what);
    return document;
  };
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored))
    return fail("is a directory");
  errno = 0;
  std::ifstream stream(file, std::ios::binary);
  if (!stream)
    return fail(std::strerror(errno ? errno : ENOENT));
  std::string text;
  char chunk[4096];
  do {
    stream.read(chunk, sizeof(chunk));
    text.append(chunk, stream.gcount());
  } while (stream && text.size() <= kMaxBytes);
  if (stream.bad())
    return fail("cannot be read");
  if (text.size() > kMaxBytes)
    return fail("longer than 64 MiB, which is not a configuration");
  return parse(std::move(text), name);
}

namespace {
/// Goes through a text before a tree is made of it, for what the tree does not
/// show: where an error is, and members of one name, of which it would keep the
/// last.
class Checker : public nlohmann::json_sax<Node> {
public:
  explicit Checker(const std::string &source) : source(source) {}

  /// What follows the file's name in the error; empty if all is well.
  std::string message;

  bool null() override { return value(); }
  bool boolean(bool) override { return value(); }
  bool number_integer(number_integer_t) override { return value(); }
  bool number_unsigned(number_unsigned_t) override { return value(); }
  bool number_float(number_float_t, const string_t &) override {
    return value();
  }
  bool string(string_t &) override { return value(); }
  bool binary(binary_t &) override { return value(); }
  bool start_object(size_t) override { return start(/*isArray=*/false); }
  bool start_array(size_t) override { return start(/*isArray=*/true); }
  bool end_object() override { return end(); }
  bool end_array() override { return end(); }

  bool key(string_t &name) override {
    scopes.back().key = name;
    if (scopes.back().keys.insert(name).second)
      return true;
    message = ": " + getPath() + ": is given twice";
    return false;
  }

  bool parse_error(size_t byte, const std::string &,
                   const nlohmann::json::exception &e) override {
    // The library counts bytes from 1 and stops after the one it dislikes.
    size_t end = std::min(byte ? byte - 1 : 0, source.size());
    size_t line = 1 + std::count(source.begin(), source.begin() + end, '\n');
    size_t lineStart = end ? source.rfind('\n', end - 1) : std::string::npos;
    size_t column = end - (lineStart == std::string::npos ? 0 : lineStart + 1);
    // "[id] parse error at line L, column C: syntax error while parsing ..." or
    // "[id] number overflow ...".
    std::string what = e.what();
    for (const char *prefix : {"] ", ": "})
      if (size_t at = what.find(prefix); at != std::string::npos)
        what.erase(0, at + 2);
    for (char &c : what)
      if (static_cast<unsigned char>(c) < ' ')
        c = ' ';
    message = ":" + std::to_string(line) + ":" + std::to_string(column + 1) +
              ": " + what;
    return false;
  }

private:
  struct Scope {
    bool isArray;
    size_t index = 0;
    std::string key;
    std::set<std::string> keys;
  };

  bool value() {
    if (!scopes.empty())
      ++scopes.back().index;
    return true;
  }
  bool start(bool isArray) {
    if (scopes.size() == kMaxDepth) {
      message = ": is nested deeper than " + std::to_string(kMaxDepth) +
                " levels, which is not a configuration";
      return false;
    }
    scopes.push_back({isArray});
    return true;
  }
  bool end() {
    scopes.pop_back();
    return value();
  }
  std::string getPath() const {
    std::string path;
    for (const Scope &scope : scopes)
      if (scope.isArray)
        path += "[" + std::to_string(scope.index) + "]";
      else
        path += (path.empty() ? "" : ".") + scope.key;
    return path;
  }

  const std::string &source;
  std::vector<Scope> scopes;
};
} // namespace

std::unique_ptr<Document> Document::parse(std::string text,
                                          const std::string &name) {
  std::unique_ptr<Document> document(new Document(name));
  document->text = std::move(text);
  Checker checker(document->text);
  try {
    if (Node::sax_parse(document->text, &checker))
      document->tree->root = Node::parse(document->text);
    else
      document->message = name + checker.message;
  } catch (const std::exception &e) {
    document->error(e.what());
  }
  return document;
}

bool Document::remove(const std::string &path) {
  Node *object = &tree->root;
  size_t begin = 0;
  for (size_t dot; (dot = path.find('.', begin)) != std::string::npos;
       begin = dot + 1) {
    auto member = object->find(path.substr(begin, dot - begin));
    if (!object->is_object() || member == object->end())
      return false;
    object = &*member;
  }
  if (!object->is_object() || !object->erase(path.substr(begin)))
    return false;
  text = tree->root.dump(2, ' ', /*ensure_ascii=*/true,
                         Node::error_handler_t::replace) +
         "\n";
  return true;
}

//===----------------------------------------------------------------------===//
// Value
//===----------------------------------------------------------------------===//

bool Value::isPresent() const { return node && !get(node)->is_null(); }
bool Value::isNull() const { return node && get(node)->is_null(); }
bool Value::isObject() const { return node && get(node)->is_object(); }
bool Value::isArray() const { return node && get(node)->is_array(); }
bool Value::isString() const { return node && get(node)->is_string(); }
bool Value::isNumber() const { return node && get(node)->is_number(); }

size_t Value::size() const {
  return isObject() || isArray() ? get(node)->size() : 0;
}

std::vector<std::string> Value::keys() const {
  std::vector<std::string> names;
  if (isObject())
    for (const auto &member : get(node)->items())
      names.push_back(member.key());
  return names;
}

std::string Value::describe() const {
  if (!node)
    return "nothing";
  switch (get(node)->type()) {
  case Node::value_t::object:
    return "an object";
  case Node::value_t::array:
    return "an array";
  case Node::value_t::string:
    return "a string";
  default:
    return get(node)->dump();
  }
}

std::string Value::dump() const {
  return node ? get(node)->dump(-1, ' ', /*ensure_ascii=*/true,
                                Node::error_handler_t::replace)
              : "";
}

void Value::error(const std::string &what) const {
  document->error(path.empty() ? what : path + ": " + what);
}

Value Value::operator[](const std::string &key) const {
  std::string place = path.empty() ? key : path + "." + key;
  if (!isPresent())
    return Value(document, nullptr, place);
  if (!isObject()) {
    error("expected an object, found " + describe());
    return Value(document, nullptr, place);
  }
  auto member = get(node)->find(key);
  return Value(document, member == get(node)->end() ? nullptr : &*member,
               place);
}

Value Value::operator[](size_t index) const {
  std::string place = path + "[" + std::to_string(index) + "]";
  if (!isArray()) {
    error("expected an array, found " + describe());
    return Value(document, nullptr, place);
  }
  if (index >= size()) {
    error("expected more than " + std::to_string(index) + " elements, found " +
          std::to_string(size()));
    return Value(document, nullptr, place);
  }
  return Value(document, &(*get(node))[index], place);
}

bool Value::getBool() const {
  if (node && get(node)->is_boolean())
    return get(node)->get<bool>();
  error("expected true or false, found " + describe());
  return false;
}

int64_t Value::getInteger(int64_t minimum, int64_t maximum) const {
  if (!node || !get(node)->is_number_integer()) {
    error("expected an integer, found " + describe());
    return minimum;
  }
  bool fits = !get(node)->is_number_unsigned() ||
              get(node)->get<uint64_t>() <=
                  uint64_t(std::numeric_limits<int64_t>::max());
  int64_t value = fits ? get(node)->get<int64_t>() : 0;
  if (fits && value >= minimum && value <= maximum)
    return value;
  error("expected an integer from " + std::to_string(minimum) + " to " +
        std::to_string(maximum) + ", found " + describe());
  return minimum;
}

double Value::getNumber() const {
  if (isNumber())
    return get(node)->get<double>();
  error("expected a number, found " + describe());
  return 0;
}

std::string Value::getString() const {
  if (isString())
    return get(node)->get<std::string>();
  error("expected a string, found " + describe());
  return "";
}
