//===- JinjaValue.h - Values of a chat template -----------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_JINJAVALUE_H
#define POPLAR_RUNTIME_JINJAVALUE_H

#include "support/JSON.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace poplar::runtime::jinja {

class JinjaValue;
using List = std::vector<JinjaValue>;
using Entries = std::vector<std::pair<std::string, JinjaValue>>;
/// Arguments of a call, those by name behind the others.
struct Arguments {
  List Places;
  Entries Names;
};
using Function = std::function<JinjaValue(const Arguments &)>;

/// A value as Python has it. Lists and dictionaries are shared and do not
/// change; only a namespace does.
class JinjaValue {
public:
  enum Kind {
    Undefined,
    None,
    Boolean,
    Integer,
    Float,
    String,
    Sequence,
    Mapping,
    Namespace,
    Callable
  };

  JinjaValue() = default;
  static JinjaValue none() { return JinjaValue(None); }
  JinjaValue(bool B) : TheKind(Boolean), Number(B) {}
  JinjaValue(int64_t I) : TheKind(Integer), Number(I) {}
  JinjaValue(double D) : TheKind(Float), Real(D) {}
  JinjaValue(std::string S)
      : TheKind(String), Text(std::make_shared<std::string>(std::move(S))) {}
  JinjaValue(const char *S) : JinjaValue(std::string(S)) {}
  JinjaValue(List L)
      : TheKind(Sequence), Elements(std::make_shared<List>(std::move(L))) {}
  explicit JinjaValue(Entries E, Kind K = Mapping)
      : TheKind(K), Members(std::make_shared<Entries>(std::move(E))) {}
  JinjaValue(Function F)
      : TheKind(Callable), Call(std::make_shared<Function>(std::move(F))) {}
  /// A name that has no value; errors speak of it.
  static JinjaValue undefined(std::string Name);
  static JinjaValue fromJSON(const json::Value &J);

  Kind kind() const { return TheKind; }
  bool is(Kind K) const { return TheKind == K; }
  bool isNumber() const {
    return TheKind == Boolean || TheKind == Integer || TheKind == Float;
  }
  bool isWhole() const { return TheKind == Boolean || TheKind == Integer; }
  bool isDictionary() const {
    return TheKind == Mapping || TheKind == Namespace;
  }
  int64_t integer() const { return Number; }
  double real() const {
    return TheKind == Float ? Real : static_cast<double>(Number);
  }
  const std::string &string() const { return *Text; }
  const List &list() const { return *Elements; }
  const Entries &members() const { return *Members; }
  Entries &changeMembers() const { return *Members; }
  const Function &function() const { return *Call; }
  /// The name of what is undefined.
  std::string name() const { return Text ? *Text : ""; }

  /// Null if there is none.
  const JinjaValue *find(std::string_view Key) const;
  bool isTrue() const;
  bool equals(const JinjaValue &Other) const;
  /// As Python's str() and repr() have it.
  std::string print() const;
  std::string repr() const;
  /// As json.dumps(ensure_ascii=False) has it; `Indent` is -1 for one line.
  std::string toJSON(int Indent = -1, int Depth = 0) const;
  /// The items of a loop: elements, keys or characters.
  List iterate() const;
  const char *typeName() const;

private:
  explicit JinjaValue(Kind K) : TheKind(K) {}

  Kind TheKind = Undefined;
  int64_t Number = 0;
  double Real = 0;
  std::shared_ptr<std::string> Text;
  std::shared_ptr<List> Elements;
  std::shared_ptr<Entries> Members;
  std::shared_ptr<Function> Call;
};

/// Steps and bytes that a template may take. A template is a program that comes
/// with a model, and is not trusted.
class Budget {
public:
  void step() { spend(Steps, 1); }
  void bytes(size_t Count) { spend(Bytes, Count); }
  void reset() {
    Steps = 2'000'000;
    Bytes = size_t(256) << 20;
  }

private:
  static void spend(size_t &Left, size_t Count);
  size_t Steps = 0, Bytes = 0;
};

/// A filter (`| NAME`), a test (`is NAME`) or a method (`.NAME()`). The first
/// argument is what it is applied to.
JinjaValue applyFilter(const std::string &Name, const Arguments &Args,
                       Budget &B);
bool applyTest(const std::string &Name, const Arguments &Args);
/// A method of a string or dictionary; undefined if there is none.
JinjaValue findMethod(const JinjaValue &Object, const std::string &Name,
                      Budget &B);

/// -1, 0 or 1; an error if the two cannot be compared.
int compare(const JinjaValue &A, const JinjaValue &B);
bool contains(const JinjaValue &Whole, const JinjaValue &Part);

} // namespace poplar::runtime::jinja

#endif // POPLAR_RUNTIME_JINJAVALUE_H
