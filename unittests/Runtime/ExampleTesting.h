//===- ExampleTesting.h - What becomes of examples --------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_UNITTESTS_RUNTIME_EXAMPLETESTING_H
#define POPLAR_UNITTESTS_RUNTIME_EXAMPLETESTING_H

#include "TestSupport.h"
#include "data/Examples.h"
#include "support/Error.h"

#include <gtest/gtest.h>

namespace poplar::runtime {

inline const std::string Inputs = POPLAR_TOKENIZER_INPUTS;

inline std::string messageOf(ExampleEncoder &Encoder, const std::string &Text) {
  try {
    Encoder.encode(json::parse(Text, "text"), "here");
  } catch (const Error &E) {
    return E.what();
  }
  return "no error";
}

#define EXPECT_MENTIONS(Message, Part)                                         \
  EXPECT_NE(std::string(Message).find(Part), std::string::npos) << Message

/// The text of the tokens that count, or of all.
inline std::string decode(const Tokenizer &T, const Example &E, bool All) {
  std::vector<int32_t> Ids;
  for (size_t I = 0; I < E.Ids.size(); ++I)
    if (All || E.Counts[I])
      Ids.push_back(E.Ids[I]);
  return T.decode(Ids.data(), Ids.size(), /*SkipSpecial=*/false);
}

} // namespace poplar::runtime

#endif // POPLAR_UNITTESTS_RUNTIME_EXAMPLETESTING_H
