//===- ModelConfig.cpp - Compares a config.json with a program ------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "checkpoint/ModelConfig.h"
#include "support/Error.h"
#include "support/JSON.h"
#include "support/MappedFile.h"

#include <algorithm>
#include <cstdio>
#include <set>

using namespace poplar::runtime;
using json::Value;

static bool isEqual(const Value &A, const Value &B) {
  if (A.kind() != B.kind())
    return false;
  switch (A.kind()) {
  case Value::Null:
    return true;
  case Value::Boolean:
    return A.asBool() == B.asBool();
  case Value::Number:
    return A.asDouble() == B.asDouble();
  case Value::String:
    return A.asString() == B.asString();
  case Value::Array:
    return std::equal(A.elements().begin(), A.elements().end(),
                      B.elements().begin(), B.elements().end(), isEqual);
  case Value::Object:
    return std::equal(A.members().begin(), A.members().end(),
                      B.members().begin(), B.members().end(),
                      [](const auto &Left, const auto &Right) {
                        return Left.first == Right.first &&
                               isEqual(Left.second, Right.second);
                      });
  }
  return false;
}

/// For an error message, which shows no more than the beginning.
static std::string format(const Value &V) {
  std::string Text;
  switch (V.kind()) {
  case Value::Null:
    return "null";
  case Value::Boolean:
    return V.asBool() ? "true" : "false";
  case Value::Number: {
    int64_t Integer;
    if (V.asInteger(Integer))
      return std::to_string(Integer);
    char Buffer[32];
    std::snprintf(Buffer, sizeof(Buffer), "%.10g", V.asDouble());
    return Buffer;
  }
  case Value::String:
    return json::quote(V.asString().substr(0, 80));
  case Value::Array:
    for (const Value &Element : V.elements())
      if (Text.size() < 160)
        Text += (Text.empty() ? "" : ", ") + format(Element);
    return "[" + Text + "]";
  case Value::Object:
    return "an object";
  }
  return Text;
}

/// The value at a path; null if there is none. A name may have dots itself.
static const Value *findPath(const Value &Root, std::string_view Path) {
  if (const Value *Member = Root.find(Path))
    return Member;
  size_t Dot = Path.find('.');
  if (Dot == std::string_view::npos)
    return nullptr;
  const Value *Outer = Root.find(Path.substr(0, Dot));
  return Outer ? findPath(*Outer, Path.substr(Dot + 1)) : nullptr;
}

namespace {
class ConfigComparison {
public:
  ConfigComparison(const Value &Facts, const Value &Whole,
                   const std::string &Path)
      : Facts(Facts), Whole(Whole), Config(findConfig(Facts, Whole)),
        Path(Path) {}

  bool isMultimodal() const { return &Config != &Whole; }

  void check() const {
    checkFamily();
    if (const Value *List = Facts.find("facts"))
      for (const Value &Fact : List->elements())
        checkFact(Fact);
    std::set<std::string_view> Known;
    if (const Value *List = Facts.find("known"))
      for (const Value &Name : List->elements())
        Known.insert(Name.asString());
    checkNames(Config, "", Known);
  }

private:
  /// The configuration of the model of text, where it is part of another.
  static const Value &findConfig(const Value &Facts, const Value &Whole) {
    std::string Ours = Facts.string("multimodal", "");
    const Value *Names = Whole.find("architectures"),
                *Text = Whole.find("text_config");
    bool IsPart = !Ours.empty() && Text && Text->kind() == Value::Object &&
                  Names && !Names->elements().empty() &&
                  Names->elements()[0].asString() == Ours;
    return IsPart ? *Text : Whole;
  }

  [[noreturn]] void mismatch(std::string_view Key, const std::string &Theirs,
                             const std::string &Ours) const {
    fail("'", Path, "' is of another model: ", Key, " is ", Theirs,
         ", and this program was built with ", Ours);
  }

  void checkFamily() const {
    if (Config.kind() != Value::Object)
      fail("'", Path, "': expected an object");
    const Value *Type = Config.find("model_type");
    std::string Ours = Facts.string("model_type", "");
    if (Type && Type->kind() != Value::Null) {
      if (Type->asString() != Ours)
        mismatch("model_type", format(*Type), json::quote(Ours));
      return;
    }
    const Value *Names = Config.find("architectures");
    Ours = Facts.string("architecture", "");
    if (!isMultimodal() && Names && !Names->elements().empty() &&
        Names->elements()[0].asString() != Ours)
      mismatch("architectures", format(*Names), json::quote(Ours));
  }

  void checkFact(const Value &Fact) const {
    const Value *Keys = Fact.find("keys"), *Values = Fact.find("values");
    if (!Keys || !Values || Keys->elements().empty() ||
        Values->elements().empty())
      fail("the program's description of its model is damaged");
    std::string_view Key = Keys->elements()[0].asString();
    const Value *Found = nullptr;
    for (const Value &Name : Keys->elements())
      if (const Value *V = findPath(Config, Name.asString());
          V && (!Found || Found->kind() == Value::Null)) {
        Found = V;
        Key = Name.asString();
      }
    // The one key of the model of text that may stand beside text_config.
    if (!Found && isMultimodal() && Key == "tie_word_embeddings")
      Found = Whole.find(Key);
    std::string Theirs = Found ? format(*Found) : "absent";
    bool Absent = !Found;
    if (Found && Found->kind() == Value::Null) {
      const Value *OfNull = Fact.find("null");
      Absent = !OfNull;
      Found = OfNull;
    }
    if (Absent) {
      Found = Fact.find("absent");
      if (Found)
        Theirs += " (which means " + format(*Found) + ")";
    }
    for (const Value &Accepted : Values->elements())
      if (Found && isEqual(*Found, Accepted))
        return;
    mismatch(Key, Theirs, format(Values->elements()[0]));
  }

  void checkNames(const Value &Object, const std::string &Prefix,
                  const std::set<std::string_view> &Known) const {
    for (const auto &[Name, Member] : Object.members()) {
      std::string Full = Prefix + Name;
      if (!Known.count(Full))
        fail("'", Path, "' has the key ", Full,
             ", which may change what the model computes and is unknown to "
             "this program (where it changes nothing: import with "
             "--ignore-key ",
             Full, ", or remove it)");
      // Members are listed where an object is read.
      auto Below = Known.lower_bound(Full + ".");
      if (Below != Known.end() && Below->rfind(Full + ".", 0) == 0)
        checkNames(Member, Full + ".", Known);
    }
  }

  const Value &Facts, &Whole, &Config;
  const std::string &Path;
};
} // namespace

bool poplar::runtime::checkModelConfig(const std::string &Facts,
                                       const std::string &Path) {
  MappedFile File(Path);
  Value Config = json::parse(File.text(), "'" + Path + "'");
  Value Program = json::parse(Facts, "the program's description of its model");
  ConfigComparison Comparison(Program, Config, Path);
  Comparison.check();
  return Comparison.isMultimodal();
}
