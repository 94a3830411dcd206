//===- SentencePieceFile.h - What a tokenizer.model holds -------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_TOKENIZER_SENTENCEPIECEFILE_H
#define POPLAR_RUNTIME_TOKENIZER_SENTENCEPIECEFILE_H

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace poplar::runtime {

/// The members of SentencePiece's ModelProto that decide how text is encoded
/// and decoded, with the defaults of sentencepiece_model.proto.
struct SentencePieceFile {
  /// Reads a message of Protocol Buffers. Throws an Error that names what is
  /// damaged or not supported.
  SentencePieceFile(std::string_view Data, const std::string &Path);

  enum PieceType : int64_t {
    Normal = 1,
    Unknown,
    Control,
    UserDefined,
    Unused,
    Byte
  };
  struct Piece {
    std::string Text;
    float Score = 0;
    PieceType Type = Normal;
  };
  std::vector<Piece> Pieces;
  bool IsBPE = false;
  /// Unknown characters become bytes.
  bool FallsBack = false;
  /// "▁" stands behind words and not before them.
  bool MarksEnds = false;
  bool AddsMark = true, RemovesSpaces = true, EscapesSpaces = true;
  /// The text to which the unknown piece is decoded.
  std::string UnknownText = " \xE2\x81\x87 ";
  std::string CharsMap;
  std::string Path;
};

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_TOKENIZER_SENTENCEPIECEFILE_H
