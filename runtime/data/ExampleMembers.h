//===- ExampleMembers.h - Which members of examples are read ----*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_EXAMPLEMEMBERS_H
#define POPLAR_RUNTIME_EXAMPLEMEMBERS_H

#include "support/JSON.h"

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace poplar::runtime {

/// The shapes that an object of a file of examples may have.
enum class ExampleShape {
  Text,
  Completion,
  Alpaca,
  Messages,
  ShareGPT,
  Segments,
  Ids
};

/// How a pair of answers is given: `chosen` and `rejected` are texts, lists of
/// messages, or a message or a text each that answers `messages`.
enum class PairShape { Texts, Chats, Messages };

/// Members of examples and of their messages. The list of those that may be
/// there is closed: a member is read, or it is known to be metadata, or the
/// user ignores it by name, or it says nothing (null, or an empty string, list
/// or object). Every other member is an error, because it may change what the
/// example means.
class ExampleMembers {
public:
  /// `Ignored` are names of members, those of messages as "messages.NAME".
  explicit ExampleMembers(const std::vector<std::string> &Ignored);

  /// The shape of an object, all members of which are checked but the messages.
  /// `Where` names the object in errors.
  ExampleShape findShape(const json::Value &Object,
                         const std::string &Where) const;
  /// The same of an object with a pair of answers.
  PairShape findPairShape(const json::Value &Object,
                          const std::string &Where) const;
  /// Fails if a member of an object is not on the list. `Prefix` is "messages."
  /// for messages.
  void checkMembers(const json::Value &Object,
                    const std::vector<std::string_view> &Read,
                    const char *Prefix, const std::string &Where) const;
  /// Whether a message counts if it is an answer: `weight` is not 0, and
  /// `train` is not false.
  bool readWeight(const json::Value &Message, bool IsAnswer,
                  const std::string &Where) const;

  /// A member of an object. Null, which stands for none in files of which all
  /// rows have the same columns, is none, and so is a member that is ignored.
  const json::Value *find(const json::Value &Object,
                          std::string_view Key) const;

  /// A member of a message.
  const json::Value *findInMessage(const json::Value &Message,
                                   const std::string &Key) const;

private:
  std::set<std::string, std::less<>> Ignored;
};

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_EXAMPLEMEMBERS_H
