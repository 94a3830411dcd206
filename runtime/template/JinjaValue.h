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

/// Steps, bytes and depth that a template may take. A template is a program
/// that comes with a model, and is not trusted.
class Budget {
public:
  void step() { spend(Steps, 1); }
  void bytes(size_t Count) { spend(Bytes, Count); }

  /// Counts how deep the C++ stack is, in calls, blocks and values.
  class Deeper {
  public:
    explicit Deeper(Budget &B);
    ~Deeper() { --B.Depth; }
    Deeper(const Deeper &) = delete;
    Deeper &operator=(const Deeper &) = delete;

  private:
    Budget &B;
  };

private:
  static void spend(size_t &Left, size_t Count);
  size_t Steps = 2'000'000, Bytes = size_t(256) << 20;
  int Depth = 0;
};

/// The arguments of json.dumps.
struct JSONStyle {
  /// -1 for one line.
  int Indent = -1;
  bool IsASCII = false, IsSorted = false;
  std::string ItemSeparator, KeySeparator = ": ";
};

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
    /// A generator of Python: its elements can be read once.
    Iterator,
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
  JinjaValue(List L);
  static JinjaValue tuple(List L);
  static JinjaValue iterator(List L);
  /// What keys() of a dictionary and the like have: no item has a number.
  static JinjaValue view(List L);
  /// Text that is HTML: text that is added to it is escaped.
  static JinjaValue markup(std::string Text);
  explicit JinjaValue(Entries E, Kind K = Mapping);
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
  bool isTuple() const { return TheKind == Sequence && Number == Tuple; }
  bool isView() const { return TheKind == Sequence && Number == View; }
  bool isMarkup() const { return TheKind == String && Number; }
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

  /// Tells dictionaries that are equal from one that is the same.
  const void *identity() const { return Members.get(); }

  /// The name of a member with this key. A whole number is a key, too: its name
  /// begins with a byte that no string has.
  std::string toKey() const;
  static JinjaValue fromKey(const std::string &Name);
  /// Null if there is none.
  const JinjaValue *find(std::string_view Key) const;
  bool isTrue() const;
  bool equals(const JinjaValue &Other, Budget &B) const;
  /// As Python's str() and repr() have it.
  std::string print(Budget &B) const;
  std::string repr(Budget &B) const;
  /// As json.dumps has it.
  std::string toJSON(const JSONStyle &Style, Budget &B) const;
  /// The items of a loop: elements, keys or characters. An iterator has none
  /// behind that.
  List iterate(Budget &B) const;
  /// len() of Python.
  int64_t countItems() const;
  const char *typeName() const;

private:
  enum Form { Plain, Tuple, View };
  explicit JinjaValue(Kind K) : TheKind(K) {}
  /// Notes a part of a list or dictionary.
  void stack(const JinjaValue &Part);

  Kind TheKind = Undefined;
  int Height = 0;
  /// Also the form of a sequence, and whether a string is markup.
  int64_t Number = 0;
  double Real = 0;
  std::shared_ptr<std::string> Text;
  std::shared_ptr<List> Elements;
  std::shared_ptr<Entries> Members;
  std::shared_ptr<Function> Call;
};

/// Adds a member, or changes the one that there is.
void addMember(Entries &Members, const std::string &Name, JinjaValue Content);

/// -1, 0 or 1; an error if the two cannot be compared.
int compare(const JinjaValue &A, const JinjaValue &B, Budget &Limits);
bool contains(const JinjaValue &Whole, const JinjaValue &Part, Budget &B);

} // namespace poplar::runtime::jinja

#endif // POPLAR_RUNTIME_JINJAVALUE_H
