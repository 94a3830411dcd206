//===- Tokens.h - Corpora in text and token files ---------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_TOKENS_H
#define POPLAR_RUNTIME_TOKENS_H

#include "data/Text.h"
#include "data/TokenFormat.h"
#include "job/Fingerprint.h"
#include "support/MappedFile.h"

#include <cstdint>
#include <vector>

namespace poplar::runtime {

/// Which ids occur among tokens.
class UsedIds {
public:
  explicit UsedIds(int64_t VocabSize);
  void add(int64_t Id) {
    Seen[static_cast<size_t>(Id)] = 1;
    if (Id > Largest)
      Largest = Id;
  }
  /// "90 of 256 ids are used, the largest is 122".
  std::string describe() const;

private:
  std::vector<uint8_t> Seen;
  int64_t Largest = 0;
};

/// Memory-mapped shards, read as one long sequence of tokens.
class Corpus {
public:
  /// `Pattern` is a file or a glob, whose matches are taken in sorted order.
  /// Tokens must be below `VocabSize`: those of the first GiB are checked here,
  /// so that no run starts on a damaged file of ordinary size, all of them as
  /// they are read. With `Reports`, says every other second how far that has
  /// come. `Encoding` may be null; otherwise text is encoded by it.
  Corpus(const std::string &Pattern, TokenFormat Format, int64_t VocabSize,
         bool Reports = false, const TextEncoding *Encoding = nullptr);

  int64_t size() const { return Total; }
  /// "'PATH': u16, 1000 tokens, 90 of 256 ids are used, the largest is 122".
  std::string describe() const;
  /// Lines to follow, see describeInvalid.
  std::string note() const;
  const std::string &pattern() const { return Pattern; }
  /// Copies tokens [Begin, Begin + Count).
  void read(int64_t Begin, int64_t Count, int32_t *Out) const;

  void addTo(Fingerprint &Print) const;

private:
  struct Shard {
    MappedFile File;
    TokenLayout Layout;
    const char *Tokens;
    int64_t First, Count;
    /// A note on its text, see describeInvalid.
    std::string Note;
  };
  Shard openShard(const std::string &Path, TokenFormat Format, bool Reports,
                  const TextEncoding *Encoding) const;
  void check(bool Reports);

  std::string Pattern;
  int64_t VocabSize, Total = 0;
  /// The tokens that were checked at the start.
  int64_t Checked = 0;
  UsedIds Used;
  std::vector<Shard> Shards;
};

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_TOKENS_H
