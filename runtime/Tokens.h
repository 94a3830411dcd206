//===- Tokens.h - Corpora in text and token files ---------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_TOKENS_H
#define POPLAR_RUNTIME_TOKENS_H

#include "Fingerprint.h"
#include "MappedFile.h"

#include <cstdint>
#include <vector>

namespace poplar::runtime {

/// The formats of --data-format.
///   text:     every byte is a token
///   nanogpt:  raw little-endian u16 (nanoGPT's train.bin); also `tokens16`
///   llmc:     256 x i32 header {20240520, version, count, ...}, then u16
///             (version 1) or u32 (version 2): llm.c's .bin
/// Auto is llmc if the header says so, nanogpt for other names in .bin, else
/// text.
enum class TokenFormat { Auto, Text, Tokens16, LLMC };

/// False if there is no format of that name.
bool parseTokenFormat(std::string_view Name, TokenFormat &Result);

/// Memory-mapped shards, read as one long sequence of tokens.
class Corpus {
public:
  /// `Pattern` is a file or a glob, whose matches are taken in sorted order.
  /// Tokens must be below `VocabSize`: those of the first GiB are checked here,
  /// so that no run starts on a damaged file of ordinary size, all of them as
  /// they are read.
  Corpus(const std::string &Pattern, TokenFormat Format, int64_t VocabSize);

  int64_t size() const { return Total; }
  /// Whether tokens are bytes.
  bool isText() const { return Shards.front().Width == 1; }
  const std::string &pattern() const { return Pattern; }
  /// Copies tokens [Begin, Begin + Count).
  void read(int64_t Begin, int64_t Count, int32_t *Out) const;

  void addTo(Fingerprint &Print) const;

private:
  struct Shard {
    MappedFile File;
    const char *Tokens;
    int Width; // bytes per token
    int64_t First, Count;
  };
  Shard openShard(const std::string &Path, TokenFormat Format) const;
  void check() const;

  std::string Pattern;
  int64_t VocabSize, Total = 0;
  std::vector<Shard> Shards;
};

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_TOKENS_H
