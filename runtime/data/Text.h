//===- Text.h - Text as the ids of a model's tokenizer ----------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_TEXT_H
#define POPLAR_RUNTIME_TEXT_H

#include "support/MappedFile.h"
#include "tokenizer/Tokenizer.h"

#include <functional>

namespace poplar::runtime {

struct ModelInfo;
struct Options;

/// The tokenizer of a job, or none.
class TextEncoding {
public:
  /// Loads the tokenizer of --tokenizer, or the one that `poplar build` put
  /// into the job's directory. It may have ids outside the model's vocabulary.
  TextEncoding(const Options &O, const ModelInfo &Model);

  /// Null if the model has none: then text is bytes.
  const Tokenizer *get() const { return Tok.get(); }
  const std::string &path() const { return Path; }

  /// The ids of a text, 2 bytes each, or 4 if the vocabulary needs them. They
  /// are kept in a file, whose name is a hash of the text and the tokenizer,
  /// in $POPLAR_CACHE, $XDG_CACHE_HOME/poplar or ~/.cache/poplar: only the
  /// first process of a host encodes a text. A file beside it has its length
  /// and hash: one that was cut or altered is made again, with a note. With
  /// `Reports`, says every other second how far that has come.
  MappedFile prepare(const MappedFile &Text, bool Reports) const;
  /// The file that `Write(Path)` makes from `Source`, cached in the same way.
  /// `Kind` distinguishes it from other files made from the same source.
  MappedFile keep(const MappedFile &Source, const std::string &Kind,
                  const std::function<void(const std::string &)> &Write) const;
  /// Bytes of an id in a prepared file.
  int width() const { return Width; }

private:
  void encode(std::string_view Text, const std::string &Source,
              const std::string &Out, bool Reports) const;

  std::unique_ptr<Tokenizer> Tok;
  std::string Path;
  uint64_t Hash = 0;
  int Width = 2;
};

/// The ids that end a text, by eos_token_id of the model's config.json: none,
/// one, or several, of which the first is put behind texts in training.
std::vector<int64_t> findEnds(const ModelInfo &Model);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_TEXT_H
