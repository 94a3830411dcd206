//===- YAML.cpp - Reading YAML with located errors ------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Support/YAML.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

using namespace poplar::yaml;

/// Files are written by hand.
static constexpr size_t kLargestFile = 1 << 20;
/// Characters of a scalar that a description shows.
static constexpr size_t kLongestScalar = 60;

static Position toPlace(const YAML::Mark &mark) {
  return {mark.line + 1, mark.column + 1};
}

namespace {

/// What ends the reading, beside exceptions of the library.
struct Refusal {
  Position place;
  std::string message;
};

/// Builds the tree of a document from the events of the parser.
class Builder : public YAML::EventHandler {
public:
  Content take() { return std::move(root); }

  void OnDocumentStart(const YAML::Mark &) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark &mark, YAML::anchor_t anchor) override {
    begin(mark, "?", anchor, Content::Null);
    end();
  }

  void OnAlias(const YAML::Mark &mark, YAML::anchor_t) override {
    throw Refusal{toPlace(mark),
                  "aliases are not read: write the value out here"};
  }

  void OnScalar(const YAML::Mark &mark, const std::string &tag,
                YAML::anchor_t anchor, const std::string &value) override {
    if (isKeyDue()) {
      takeKey(mark, tag, anchor, value);
      return;
    }
    Content &node = begin(mark, tag, anchor, Content::Scalar);
    node.text = value;
    node.isQuoted = tag == "!";
    end();
  }

  void OnSequenceStart(const YAML::Mark &mark, const std::string &tag,
                       YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    begin(mark, tag, anchor, Content::List);
  }
  void OnSequenceEnd() override { end(); }

  void OnMapStart(const YAML::Mark &mark, const std::string &tag,
                  YAML::anchor_t anchor, YAML::EmitterStyle::value) override {
    begin(mark, tag, anchor, Content::Map);
  }
  void OnMapEnd() override { end(); }

private:
  /// A value that is not complete. The member of a map exists once its key has
  /// been read.
  struct Open {
    Content node;
    bool hasKey = false;
  };

  bool isKeyDue() const {
    return !open.empty() && open.back().node.kind == Content::Map &&
           !open.back().hasKey;
  }

  static void check(const YAML::Mark &mark, const std::string &tag,
                    YAML::anchor_t anchor) {
    if (anchor != 0)
      throw Refusal{toPlace(mark),
                    "anchors are not read: write the value out where it is "
                    "needed"};
    if (!tag.empty() && tag != "?" && tag != "!")
      throw Refusal{toPlace(mark), "the tag " + tag + " is not read"};
  }

  void takeKey(const YAML::Mark &mark, const std::string &tag,
               YAML::anchor_t anchor, const std::string &key) {
    check(mark, tag, anchor);
    if (key == "<<")
      throw Refusal{toPlace(mark),
                    "merge keys are not read: write the members out here"};
    Content &map = open.back().node;
    for (const Member &other : map.members)
      if (other.key == key)
        throw Refusal{toPlace(mark), "duplicate key `" + key +
                                         "`; the first one is in line " +
                                         std::to_string(other.place.line)};
    map.members.push_back({key, toPlace(mark), {}});
    open.back().hasKey = true;
  }

  Content &begin(const YAML::Mark &mark, const std::string &tag,
                 YAML::anchor_t anchor, Content::Kind kind) {
    check(mark, tag, anchor);
    if (isKeyDue())
      throw Refusal{toPlace(mark), "a key is a word, and not null, a list or a "
                                   "map"};
    open.emplace_back();
    open.back().node.kind = kind;
    open.back().node.place = toPlace(mark);
    return open.back().node;
  }

  void end() {
    Content node = std::move(open.back().node);
    open.pop_back();
    if (open.empty()) {
      root = std::move(node);
      return;
    }
    Open &parent = open.back();
    if (parent.node.kind == Content::List) {
      parent.node.elements.push_back(std::move(node));
      return;
    }
    parent.node.members.back().value = std::move(node);
    parent.hasKey = false;
  }

  std::vector<Open> open;
  Content root;
};

} // namespace

std::string poplar::yaml::formatError(const std::string &name, Position place,
                                      const std::string &message) {
  return name + ":" + std::to_string(place.line) + ":" +
         std::to_string(place.column) + ": " + message;
}

std::string Content::describe() const {
  switch (kind) {
  case Null:
    return "null";
  case Scalar: {
    std::string shown =
        text.substr(0, text.find('\n')).substr(0, kLongestScalar);
    return shown.size() < text.size() ? shown + "..." : shown;
  }
  case List:
  case Map:
    break;
  }
  std::string all;
  for (const Content &element : elements)
    all += (all.empty() ? "" : ", ") + element.describe();
  for (const Member &member : members)
    all +=
        (all.empty() ? "" : ", ") + member.key + ": " + member.value.describe();
  return kind == List ? "[" + all + "]" : "{" + all + "}";
}

const Content *Content::find(const std::string &key) const {
  for (const Member &member : members)
    if (member.key == key)
      return &member.value;
  return nullptr;
}

std::optional<Content> poplar::yaml::readFile(const std::string &path,
                                              std::string &error) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    error = path + ": " + std::strerror(errno);
    return std::nullopt;
  }
  std::string text;
  char part[4096];
  while (text.size() <= kLargestFile &&
         (file.read(part, sizeof(part)) || file.gcount() > 0))
    text.append(part, static_cast<size_t>(file.gcount()));
  if (file.bad()) {
    error = path + ": cannot be read";
    return std::nullopt;
  }
  if (text.size() > kLargestFile) {
    error = path + ": has more than " + std::to_string(kLargestFile) + " bytes";
    return std::nullopt;
  }
  return parse(text, path, error);
}

std::optional<Content> poplar::yaml::parse(const std::string &text,
                                           const std::string &name,
                                           std::string &error) {
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    Builder builder, second;
    if (!parser.HandleNextDocument(builder))
      return Content();
    Content root = builder.take();
    if (parser.HandleNextDocument(second))
      throw Refusal{second.take().place,
                    "a second document begins here, and one is expected"};
    return root;
  } catch (const Refusal &refusal) {
    error = formatError(name, refusal.place, refusal.message);
  } catch (const YAML::Exception &exception) {
    error = formatError(name, toPlace(exception.mark),
                        "syntax error - " + exception.msg);
  }
  return std::nullopt;
}
