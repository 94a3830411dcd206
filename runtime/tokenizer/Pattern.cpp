//===- Pattern.cpp - What Split and Replace look for ----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tokenizer/Pattern.h"

using namespace poplar::runtime;

Pattern::Pattern(const Description &D) {
  Description What = D.getObject("pattern");
  if (What.find("String"))
    Plain = What.getString("String");
  else
    Expression = std::make_unique<Regex>(What.getString("Regex"), D.path());
  if (!Expression && Plain.empty())
    D.refuse("the pattern is empty");
}

void poplar::runtime::findString(std::string_view Text, std::string_view String,
                                 std::vector<Match> &Out) {
  Out.clear();
  size_t Previous = 0;
  for (size_t At; (At = Text.find(String, Previous)) != Text.npos;) {
    if (At != Previous)
      Out.push_back({Previous, At, false});
    Out.push_back({At, At + String.size(), true});
    Previous = At + String.size();
  }
  if (Previous != Text.size())
    Out.push_back({Previous, Text.size(), false});
}

void Pattern::findAll(std::string_view Text, Regex::Scratch &S,
                      std::vector<Match> &Out) const {
  if (Expression)
    Expression->findAll(Text, S, Out);
  else
    findString(Text, Plain, Out);
}
