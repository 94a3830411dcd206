//===- TokenFormat.h - What a file of data is ------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The formats of --data-format (docs/data.md). What can be told by its content
// is; what cannot is an error that names the option.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_TOKENFORMAT_H
#define POPLAR_RUNTIME_TOKENFORMAT_H

#include "support/MappedFile.h"

#include <cstdint>
#include <string>

namespace poplar::runtime {

///   text:  encoded by the model's tokenizer; without one, every byte is a
///          token of a model with a vocabulary of 256
///   bytes: every byte is a token, whatever the file and the vocabulary
///   u16, u32, i32, i64: token ids without a header, little-endian;
///          nanogpt and tokens16 are other names for u16
///   llmc:  llm.c's header, then u16 or u32
///   npy:   an array that numpy.save wrote
enum class TokenFormat { Auto, Text, Bytes, U16, U32, I32, I64, LLMC, Npy };

/// False if there is no format of that name.
bool parseTokenFormat(std::string_view Name, TokenFormat &Result);
/// "auto, text, ...".
std::string listTokenFormats();

/// Fails if the file is one of a known kind that holds neither tokens nor text
/// as they are, such as an archive, with what to do instead.
void refuseContainers(const MappedFile &File);

/// Whether a file is called .json or .jsonl, or begins as an object, or an
/// array of objects, of JSON does.
bool isJSON(const MappedFile &File);

/// `Text` without the mark of UTF-8 that some editors begin files with.
std::string_view skipMark(std::string_view Text);

/// A line that says of a text that its first MiB is not UTF-8; empty if it is.
std::string describeInvalid(const MappedFile &File);

/// The layout of the tokens in a file.
struct TokenLayout {
  /// The name of the format, for output.
  std::string Name;
  /// Bytes per token, the lowest first.
  int Width = 1;
  bool IsSigned = false;
  size_t HeaderBytes = 0;
  /// The number of tokens in the header; -1 without one.
  int64_t Declared = -1;
  /// Whether the model's tokenizer has to encode it.
  bool IsText = false;
};

/// Throws an Error, with the remedy, if the file is not of `Format` or, for
/// Auto, of none that can be told by its content.
TokenLayout findLayout(const MappedFile &File, TokenFormat Format,
                       int64_t VocabSize, bool HasTokenizer = false);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_TOKENFORMAT_H
