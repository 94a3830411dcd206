//===- Mutator.h - Damages text at random -----------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For tests that readers survive whatever they are given. The same seed gives
// the same damage everywhere.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_UNITTESTS_SUPPORT_MUTATOR_H
#define POPLAR_UNITTESTS_SUPPORT_MUTATOR_H

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <random>
#include <string>

/// Damages JSON, and files that begin with it, in one to three places.
class Mutator {
public:
  explicit Mutator(uint64_t seed) : engine(seed) {}

  std::string operator()(std::string text) {
    for (size_t places = 1 + draw(3); places > 0; --places)
      mutate(text);
    return text;
  }

private:
  /// Below `bound`. The distributions of the standard library differ from one
  /// to the other.
  size_t draw(size_t bound) { return engine() % bound; }

  void mutate(std::string &text) {
    if (text.empty())
      return;
    size_t position = draw(text.size());
    size_t length = std::min(draw(16), text.size() - position);
    switch (draw(7)) {
    case 0:
      text[position] = static_cast<char>(text[position] ^ (1 << draw(8)));
      break;
    case 1:
      text[position] = static_cast<char>(draw(256));
      break;
    case 2:
      text.erase(position, length);
      break;
    case 3:
      text.insert(draw(text.size()), text.substr(position, length));
      break;
    case 4:
      text.resize(position);
      break;
    default:
      replaceValue(text, position);
    }
  }

  /// Puts something else where the next value stands.
  void replaceValue(std::string &text, size_t position) {
    static const char *const values[] = {"0",
                                         "-1",
                                         "1",
                                         "2",
                                         "3",
                                         "7",
                                         "255",
                                         "65536",
                                         "1e18",
                                         "1e999",
                                         "-0.0",
                                         "0.5",
                                         "1e-300",
                                         "2147483648",
                                         "9223372036854775807",
                                         "9223372036854775808",
                                         "18446744073709551615",
                                         "99999999999999999999999999",
                                         "null",
                                         "true",
                                         "false",
                                         "\"\"",
                                         "\"0\"",
                                         "\"F64\"",
                                         "\"BF16\"",
                                         "\"\\u0000\"",
                                         "\"\\ud800\"",
                                         "\"\xFF\"",
                                         "[]",
                                         "[0]",
                                         "[0,0]",
                                         "[[[[[[[[]]]]]]]]",
                                         "{}",
                                         "{\"a\":{}}",
                                         "{\"rope_type\":\"llama3\"}",
                                         "nan",
                                         "]",
                                         "}",
                                         "",
                                         ",",
                                         ":",
                                         "\""};
    size_t begin = text.find_first_of(":,[", position);
    if (begin == std::string::npos)
      return;
    size_t end = text.find_first_of(",]}", ++begin);
    text.replace(begin, end == std::string::npos ? end : end - begin,
                 values[draw(std::size(values))]);
  }

  std::mt19937_64 engine;
};

#endif // POPLAR_UNITTESTS_SUPPORT_MUTATOR_H
