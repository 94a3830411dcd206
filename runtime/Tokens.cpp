//===- Tokens.cpp - Corpora in text and token files -----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tokens.h"
#include "Error.h"

#include <algorithm>
#include <cstring>
#include <glob.h>

using namespace poplar::runtime;

bool poplar::runtime::parseTokenFormat(std::string_view Name,
                                       TokenFormat &Result) {
  if (Name == "auto")
    Result = TokenFormat::Auto;
  else if (Name == "text")
    Result = TokenFormat::Text;
  else if (Name == "nanogpt" || Name == "tokens16")
    Result = TokenFormat::Tokens16;
  else if (Name == "llmc")
    Result = TokenFormat::LLMC;
  else
    return false;
  return true;
}

static constexpr int32_t LLMCMagic = 20240520;
static constexpr size_t LLMCHeaderBytes = 256 * sizeof(int32_t);

static bool hasLLMCHeader(const MappedFile &File) {
  int32_t Magic;
  if (File.size() < LLMCHeaderBytes)
    return false;
  std::memcpy(&Magic, File.data(), sizeof(Magic));
  return Magic == LLMCMagic;
}

static TokenFormat detectFormat(const MappedFile &File) {
  if (hasLLMCHeader(File))
    return TokenFormat::LLMC;
  std::string_view Path = File.path();
  bool IsBin = Path.size() > 4 && Path.substr(Path.size() - 4) == ".bin";
  return IsBin ? TokenFormat::Tokens16 : TokenFormat::Text;
}

Corpus::Shard Corpus::openShard(const std::string &Path,
                                TokenFormat Format) const {
  Shard S{MappedFile(Path), nullptr, 1, Total, 0};
  if (S.File.size() == 0)
    fail("'", Path, "' is empty: there is nothing to train on");
  if (Format == TokenFormat::Auto)
    Format = detectFormat(S.File);
  size_t Header = 0;
  int64_t Declared = -1;
  if (Format == TokenFormat::Tokens16) {
    S.Width = 2;
  } else if (Format == TokenFormat::LLMC) {
    if (!hasLLMCHeader(S.File))
      fail("'", Path, "' has no llm.c header (magic ", LLMCMagic,
           "); give its --data-format");
    int32_t Fields[3];
    std::memcpy(Fields, S.File.data(), sizeof(Fields));
    if (Fields[1] != 1 && Fields[1] != 2)
      fail("'", Path, "' is of llm.c version ", Fields[1],
           "; versions 1 and 2 are known");
    Header = LLMCHeaderBytes;
    S.Width = Fields[1] == 1 ? 2 : 4;
    Declared = Fields[2];
  } else if (VocabSize < 256) {
    fail("'", Path,
         "' is read as text, whose tokens are bytes, but the model "
         "has a vocabulary of only ",
         VocabSize, "; it must be at least 256");
  }
  size_t Bytes = S.File.size() - Header;
  if (Bytes % static_cast<size_t>(S.Width) != 0)
    fail("'", Path, "' is truncated: ", Bytes,
         " bytes of tokens are not a multiple of ", S.Width);
  S.Tokens = S.File.data() + Header;
  S.Count = static_cast<int64_t>(Bytes) / S.Width;
  if (Declared >= 0 && Declared != S.Count)
    fail("'", Path, "' is truncated or damaged: its header promises ", Declared,
         " tokens and it holds ", S.Count);
  return S;
}

Corpus::Corpus(const std::string &Pattern, TokenFormat Format,
               int64_t VocabSize)
    : Pattern(Pattern), VocabSize(VocabSize) {
  glob_t Matches;
  // Sorted by name. A name without matches goes through as it is, and fails
  // to open with the system's reason.
  int Status = glob(Pattern.c_str(), GLOB_NOCHECK, nullptr, &Matches);
  std::vector<std::string> Paths;
  if (Status == 0)
    Paths.assign(Matches.gl_pathv, Matches.gl_pathv + Matches.gl_pathc);
  globfree(&Matches);
  if (Paths.empty())
    fail("no file matches '", Pattern, "'");
  for (const std::string &Path : Paths) {
    Shards.push_back(openShard(Path, Format));
    Total += Shards.back().Count;
  }
  check();
}

/// `Width` is that of the stored tokens; the low bytes come first.
static uint32_t loadToken(const char *Tokens, int Width, int64_t Index) {
  uint32_t Token = 0;
  std::memcpy(&Token, Tokens + Index * Width, static_cast<size_t>(Width));
  return Token;
}

static bool isToken(uint32_t Token, int64_t VocabSize) {
  return Token < static_cast<uint64_t>(VocabSize);
}

[[noreturn]] static void failOutside(const MappedFile &File, uint32_t Token,
                                     int64_t Position, int64_t VocabSize) {
  fail("'", File.path(), "': token ", Token, " at position ", Position,
       " is outside the vocabulary of ", VocabSize);
}

void Corpus::check() const {
  int64_t Rest = int64_t(1) << 30;
  for (const Shard &S : Shards) {
    // Narrow tokens cannot be too large for a wide vocabulary.
    if (S.Width < 4 && VocabSize >= int64_t(1) << 8 * S.Width)
      continue;
    int64_t Count = std::min(S.Count, Rest / S.Width);
    Rest -= Count * S.Width;
    for (int64_t I = 0; I < Count; ++I)
      if (uint32_t Token = loadToken(S.Tokens, S.Width, I);
          !isToken(Token, VocabSize))
        failOutside(S.File, Token, I, VocabSize);
  }
}

void Corpus::read(int64_t Begin, int64_t Count, int32_t *Out) const {
  auto It = std::upper_bound(
      Shards.begin(), Shards.end(), Begin,
      [](int64_t Position, const Shard &S) { return Position < S.First; });
  for (--It; Count > 0; ++It) {
    int64_t Offset = Begin - It->First;
    int64_t Here = std::min(Count, It->Count - Offset);
    for (int64_t I = 0; I < Here; ++I) {
      uint32_t Token = loadToken(It->Tokens, It->Width, Offset + I);
      if (!isToken(Token, VocabSize))
        failOutside(It->File, Token, Offset + I, VocabSize);
      Out[I] = static_cast<int32_t>(Token);
    }
    Begin += Here;
    Out += Here;
    Count -= Here;
  }
}

void Corpus::addTo(Fingerprint &Print) const {
  for (const Shard &S : Shards)
    Print.add(S.File);
}
