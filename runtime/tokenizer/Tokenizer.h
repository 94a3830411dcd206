//===- Tokenizer.h - From text to the ids of a model and back ---*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_TOKENIZER_TOKENIZER_H
#define POPLAR_RUNTIME_TOKENIZER_TOKENIZER_H

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace poplar::runtime {

/// The tokenizer of a model: a tokenizer.json of Hugging Face or a
/// tokenizer.model of SentencePiece. Ids are the same as those of PyPI's
/// `tokenizers` and `sentencepiece`. It does not change; several threads may
/// use it, each with an encoder of its own.
class Tokenizer {
public:
  virtual ~Tokenizer() = default;

  /// Reads a file; its content decides which kind it is. The added tokens and
  /// settings of a tokenizer.model are read from the files beside it. Throws an
  /// Error that names what is not supported.
  static std::unique_ptr<Tokenizer> load(const std::string &Path);

  /// A cache of the pieces that one thread has encoded.
  class Encoder {
  public:
    virtual ~Encoder() = default;
    /// Appends the ids of a text. Bytes that are not UTF-8 count as U+FFFD.
    /// With `AddSpecial`, the tokens that frame a text are put around it, if
    /// the files name any.
    virtual void encode(std::string_view Text, bool AddSpecial,
                        std::vector<int32_t> &Ids) = 0;
    /// Appends the ids of a text without a frame. Returns for each of `Ends`
    /// how many of them the text before that byte begins with when it is
    /// encoded alone.
    virtual std::vector<size_t> encodePrefixes(std::string_view Text,
                                               const std::vector<size_t> &Ends,
                                               std::vector<int32_t> &Ids);
  };
  virtual std::unique_ptr<Encoder> makeEncoder() const = 0;

  /// The text of ids, which is valid UTF-8. Ids without a token are left out.
  virtual std::string decode(const int32_t *Ids, size_t Count,
                             bool SkipSpecial) const = 0;

  /// The largest id is one less.
  virtual int64_t size() const = 0;
  /// The id of a token, as it is written in the file, or -1.
  virtual int32_t find(std::string_view Token) const = 0;
  /// The id of a token that is found in a text as it is, before the text is
  /// cut, or -1: a special or an added one.
  virtual int32_t findAdded(std::string_view Token) const = 0;
  /// The tokens that are put before a text.
  virtual std::vector<int32_t> getBefore() const { return {}; }
  /// "BPE, 50257 tokens", for people.
  virtual std::string describe() const = 0;

  std::vector<int32_t> encode(std::string_view Text,
                              bool AddSpecial = true) const {
    std::vector<int32_t> Ids;
    makeEncoder()->encode(Text, AddSpecial, Ids);
    return Ids;
  }
};

/// Whether a file is a tokenizer.json by its content.
bool isTokenizerJSON(std::string_view Text);
std::unique_ptr<Tokenizer> readTokenizerJSON(std::string_view Text,
                                             const std::string &Path);
std::unique_ptr<Tokenizer> readSentencePiece(const std::string &Path);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_TOKENIZER_TOKENIZER_H
