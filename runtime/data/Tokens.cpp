//===- Tokens.cpp - Corpora in text and token files -----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/Tokens.h"
#include "job/Waiting.h"
#include "support/Error.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <glob.h>

using namespace poplar::runtime;

UsedIds::UsedIds(int64_t VocabSize) : Seen(static_cast<size_t>(VocabSize)) {}

std::string UsedIds::describe() const {
  return std::to_string(std::count(Seen.begin(), Seen.end(), 1)) + " of " +
         std::to_string(Seen.size()) + " ids are used, the largest is " +
         std::to_string(Largest);
}

Corpus::Shard Corpus::openShard(const std::string &Path, TokenFormat Format,
                                bool Reports,
                                const TextEncoding *Encoding) const {
  MappedFile File(Path);
  if (File.size() == 0)
    fail("'", Path, "' is empty: there is nothing to train on");
  bool HasTokenizer = Encoding && Encoding->get();
  TokenLayout Layout = findLayout(File, Format, VocabSize, HasTokenizer);
  std::string Note = Layout.IsText ? describeInvalid(File) : "";
  Shard S{Layout.IsText ? Encoding->prepare(File, Reports) : std::move(File),
          Layout,
          nullptr,
          Total,
          0,
          Note};
  if (S.Layout.IsText) {
    S.Layout.Name = "text (" + Encoding->get()->describe() + ")";
    S.Layout.Width = Encoding->width();
    if (S.File.size() == 0)
      fail("'", Path, "' has no tokens: there is nothing to train on");
  }
  size_t Bytes = S.File.size() - S.Layout.HeaderBytes;
  auto Width = static_cast<size_t>(S.Layout.Width);
  if (Bytes % Width != 0)
    fail("'", Path, "' is truncated: ", Bytes,
         " bytes of tokens are not a multiple of ", Width);
  S.Tokens = S.File.data() + S.Layout.HeaderBytes;
  S.Count = static_cast<int64_t>(Bytes / Width);
  if (S.Layout.Declared >= 0 && S.Layout.Declared != S.Count)
    fail("'", Path, "' is truncated or damaged: its header announces ",
         S.Layout.Declared, " tokens and it holds ", S.Count);
  if (S.Count == 0)
    fail("'", Path, "' has a header and no tokens");
  return S;
}

/// The files that a pattern names, sorted. A name is one, too: of a file that
/// is there, whatever characters it has, or of none, which fails to open with
/// the system's reason.
static std::vector<std::string> findFiles(const std::string &Pattern) {
  std::error_code Code;
  if (std::filesystem::exists(Pattern, Code))
    return {Pattern};
  glob_t Matches;
  int Status = glob(Pattern.c_str(), GLOB_NOCHECK, nullptr, &Matches);
  std::vector<std::string> Paths;
  if (Status == 0)
    Paths.assign(Matches.gl_pathv, Matches.gl_pathv + Matches.gl_pathc);
  globfree(&Matches);
  if (Paths.empty())
    fail("no file matches '", Pattern, "'");
  return Paths;
}

Corpus::Corpus(const std::string &Pattern, TokenFormat Format,
               int64_t VocabSize, bool Reports, const TextEncoding *Encoding)
    : Pattern(Pattern), VocabSize(VocabSize), Used(VocabSize) {
  for (const std::string &Path : findFiles(Pattern)) {
    Shards.push_back(openShard(Path, Format, Reports, Encoding));
    Total += Shards.back().Count;
  }
  check(Reports);
}

/// Calls `Visit` with the C++ type of stored tokens.
template <typename F>
static auto withType(const TokenLayout &Layout, const F &Visit) {
  switch (Layout.Width) {
  case 1:
    return Visit(uint8_t());
  case 2:
    return Layout.IsSigned ? Visit(int16_t()) : Visit(uint16_t());
  case 4:
    return Layout.IsSigned ? Visit(int32_t()) : Visit(uint32_t());
  default:
    // Unsigned numbers of 2^63 and more come out negative.
    return Visit(int64_t());
  }
}

/// Hands tokens [Begin, End) to `Take`, until one is outside the vocabulary:
/// its position, or `End`.
template <typename F>
static int64_t scan(const TokenLayout &Layout, const char *Tokens,
                    int64_t Begin, int64_t End, int64_t VocabSize,
                    const F &Take) {
  return withType(Layout, [&](auto Type) {
    int64_t I = Begin;
    for (; I < End; ++I) {
      decltype(Type) Token;
      std::memcpy(&Token, Tokens + I * static_cast<int64_t>(sizeof Token),
                  sizeof Token);
      auto Id = static_cast<int64_t>(Token);
      if (Id < 0 || Id >= VocabSize)
        break;
      Take(Id);
    }
    return I;
  });
}

[[noreturn]] static void failOutside(const MappedFile &File,
                                     const TokenLayout &Layout,
                                     const char *Tokens, int64_t Position,
                                     int64_t VocabSize) {
  int64_t Token = 0;
  withType(Layout, [&](auto Type) {
    std::memcpy(&Type, Tokens + Position * static_cast<int64_t>(sizeof Type),
                sizeof Type);
    Token = static_cast<int64_t>(Type);
    return 0;
  });
  fail("'", File.path(), "': token ", Token, " at position ", Position,
       " is outside the vocabulary of ", VocabSize, " (it is read as ",
       Layout.Name, ")");
}

void Corpus::check(bool Reports) {
  constexpr int64_t Piece = 1 << 24;
  int64_t Rest = int64_t(1) << 30;
  Waiting Report("checking the tokens of '" + Pattern + "'");
  for (const Shard &S : Shards) {
    int64_t Count = std::min(S.Count, Rest / S.Layout.Width);
    Rest -= Count * S.Layout.Width;
    Checked += Count;
    for (int64_t Begin = 0; Begin < Count; Begin += Piece) {
      int64_t End = std::min(Count, Begin + Piece);
      int64_t Stop = scan(S.Layout, S.Tokens, Begin, End, VocabSize,
                          [&](int64_t Id) { Used.add(Id); });
      if (Stop < End)
        failOutside(S.File, S.Layout, S.Tokens, Stop, VocabSize);
      if (Reports)
        Report.step(End * S.Layout.Width);
    }
  }
}

void Corpus::read(int64_t Begin, int64_t Count, int32_t *Out) const {
  auto It = std::upper_bound(
      Shards.begin(), Shards.end(), Begin,
      [](int64_t Position, const Shard &S) { return Position < S.First; });
  for (--It; Count > 0; ++It) {
    int64_t Offset = Begin - It->First;
    int64_t Here = std::min(Count, It->Count - Offset);
    int64_t Stop =
        scan(It->Layout, It->Tokens, Offset, Offset + Here, VocabSize,
             [&](int64_t Id) { *Out++ = static_cast<int32_t>(Id); });
    if (Stop < Offset + Here)
      failOutside(It->File, It->Layout, It->Tokens, Stop, VocabSize);
    Begin += Here;
    Count -= Here;
  }
}

std::string Corpus::describe() const {
  std::vector<std::string> Names;
  for (const Shard &S : Shards)
    if (std::find(Names.begin(), Names.end(), S.Layout.Name) == Names.end())
      Names.push_back(S.Layout.Name);
  std::string Text = "'" + Pattern + "': ";
  for (const std::string &Name : Names)
    Text += Name + ", ";
  if (Shards.size() > 1)
    Text += std::to_string(Shards.size()) + " files, ";
  Text += std::to_string(Total) + " tokens, ";
  if (Checked < Total)
    Text += "of the first " + std::to_string(Checked) + " ";
  return Text + Used.describe();
}

std::string Corpus::note() const {
  std::string Text;
  for (const Shard &S : Shards)
    Text += S.Note;
  return Text;
}

void Corpus::addTo(Fingerprint &Print) const {
  for (const Shard &S : Shards)
    Print.add(S.File);
}
