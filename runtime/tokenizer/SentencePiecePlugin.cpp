//===- SentencePiecePlugin.cpp - Calls SentencePiece's library ------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tokenizer/SentencePiecePlugin.h"

#include <sentencepiece_processor.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

using sentencepiece::SentencePieceProcessor;

static SentencePieceProcessor &get(void *Model) {
  return *static_cast<SentencePieceProcessor *>(Model);
}

static void *load(const char *Data, size_t Size, void *User,
                  void (*TakeError)(void *, const char *)) {
  auto Model = std::make_unique<SentencePieceProcessor>();
  auto Status = Model->LoadFromSerializedProto({Data, Size});
  if (Status.ok())
    return Model.release();
  TakeError(User, Status.ToString().c_str());
  return nullptr;
}

static void destroy(void *Model) { delete &get(Model); }

static int64_t size(void *Model) { return get(Model).GetPieceSize(); }

static int isControl(void *Model, int32_t Id) {
  return get(Model).IsControl(Id);
}

static int32_t find(void *Model, const char *Text, size_t Size) {
  // The unknown token's id stands for every piece that there is not.
  int32_t Id = get(Model).PieceToId({Text, Size});
  return get(Model).IdToPiece(Id) == std::string_view(Text, Size) ? Id : -1;
}

static int encode(void *Model, const char *Text, size_t Size, void *User,
                  void (*Take)(void *, const int32_t *, size_t)) {
  std::vector<int> Ids;
  if (!get(Model).Encode({Text, Size}, &Ids).ok())
    return 1;
  Take(User, Ids.data(), Ids.size());
  return 0;
}

static int decode(void *Model, const int32_t *Ids, size_t Count, void *User,
                  void (*Take)(void *, const char *, size_t)) {
  std::string Text;
  if (!get(Model).Decode(std::vector<int>(Ids, Ids + Count), &Text).ok())
    return 1;
  Take(User, Text.data(), Text.size());
  return 0;
}

extern "C" __attribute__((visibility("default"))) const PoplarSentencePiece *
poplar_sentencepiece() {
  static const PoplarSentencePiece Table = {POPLAR_SENTENCEPIECE_MAGIC,
                                            POPLAR_SENTENCEPIECE_VERSION,
                                            load,
                                            destroy,
                                            size,
                                            isControl,
                                            find,
                                            encode,
                                            decode};
  return &Table;
}
