//===- SentencePiecePlugin.h - What the plug-in for SentencePiece offers *- C++
//-*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_TOKENIZER_SENTENCEPIECEPLUGIN_H
#define POPLAR_RUNTIME_TOKENIZER_SENTENCEPIECEPLUGIN_H

#include <stddef.h>
#include <stdint.h>

#define POPLAR_SENTENCEPIECE_MAGIC 0x50535031u
#define POPLAR_SENTENCEPIECE_VERSION 1u
#define POPLAR_SENTENCEPIECE_ENTRY "poplar_sentencepiece"

#ifdef __cplusplus
extern "C" {
#endif

/// Functions that return int return 0 on success.
typedef struct PoplarSentencePiece {
  uint32_t magic, version;
  /// Reads a model from memory. Null on failure.
  void *(*load)(const char *data, size_t size, void *user,
                void (*take_error)(void *user, const char *message));
  void (*destroy)(void *model);
  int64_t (*size)(void *model);
  /// Whether a token stands for no text.
  int (*is_control)(void *model, int32_t id);
  /// The id of a piece, or -1.
  int32_t (*find)(void *model, const char *text, size_t size);
  int (*encode)(void *model, const char *text, size_t size, void *user,
                void (*take)(void *user, const int32_t *ids, size_t count));
  int (*decode)(void *model, const int32_t *ids, size_t count, void *user,
                void (*take)(void *user, const char *text, size_t size));
} PoplarSentencePiece;

typedef const PoplarSentencePiece *(*PoplarSentencePieceEntry)(void);

#ifdef __cplusplus
}
#endif

#endif // POPLAR_RUNTIME_TOKENIZER_SENTENCEPIECEPLUGIN_H
