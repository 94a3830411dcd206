//===- tokenize.cpp - Encodes and decodes texts, and says how long it took ===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// tokenize TOKENIZER encode|decode IN OUT [--special] [--skip-special]
//
// IN and OUT are sequences of a size in 64 bits and as many bytes: texts, or
// ids of 32 bits. Prints the seconds of its thread that the work took, without
// reading and writing. scripts/goldens/check_tokenizers.py runs it.

#include "support/Error.h"
#include "support/Files.h"
#include "support/MappedFile.h"
#include "tokenizer/Tokenizer.h"

#include <cstdio>
#include <cstring>
#include <ctime>
#include <exception>

using namespace poplar::runtime;

static double getSeconds() {
  timespec Now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &Now);
  return static_cast<double>(Now.tv_sec) +
         1e-9 * static_cast<double>(Now.tv_nsec);
}

template <typename T>
static void put(std::string &Out, const T *Data, size_t Count) {
  uint64_t Size = Count * sizeof(T);
  Out.append(reinterpret_cast<const char *>(&Size), sizeof Size);
  Out.append(reinterpret_cast<const char *>(Data), Size);
}

static void run(int Count, char **Arguments) {
  if (Count < 5)
    fail("usage: tokenize TOKENIZER encode|decode IN OUT [--special] "
         "[--skip-special]");
  bool AddSpecial = false, SkipSpecial = false;
  for (int I = 5; I < Count; ++I) {
    AddSpecial |= std::strcmp(Arguments[I], "--special") == 0;
    SkipSpecial |= std::strcmp(Arguments[I], "--skip-special") == 0;
  }
  auto Tok = Tokenizer::load(Arguments[1]);
  auto Encoder = Tok->makeEncoder();
  bool Decodes = std::strcmp(Arguments[2], "decode") == 0;
  MappedFile In(Arguments[3]);
  std::string Out;
  double Seconds = 0;
  std::vector<int32_t> Ids;
  for (size_t Pos = 0; Pos + 8 <= In.size();) {
    uint64_t Size;
    std::memcpy(&Size, In.data() + Pos, 8);
    std::string_view Text = In.text().substr(Pos + 8, Size);
    Pos += 8 + Size;
    double Start = getSeconds();
    if (Decodes) {
      Ids.resize(Size / 4);
      std::memcpy(Ids.data(), Text.data(), Size);
      std::string Result = Tok->decode(Ids.data(), Ids.size(), SkipSpecial);
      Seconds += getSeconds() - Start;
      put(Out, Result.data(), Result.size());
    } else {
      Ids.clear();
      Encoder->encode(Text, AddSpecial, Ids);
      Seconds += getSeconds() - Start;
      put(Out, Ids.data(), Ids.size());
    }
  }
  OutputFile File(Arguments[4]);
  File.write(Out);
  File.close();
  std::printf("%.6f\n", Seconds);
}

int main(int Count, char **Arguments) {
  try {
    run(Count, Arguments);
    return 0;
  } catch (const std::exception &E) {
    std::fprintf(stderr, "tokenize: error: %s\n", E.what());
    return 1;
  }
}
