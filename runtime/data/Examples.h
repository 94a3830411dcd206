//===- Examples.h - Examples in JSON, of which some tokens count *- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_EXAMPLES_H
#define POPLAR_RUNTIME_EXAMPLES_H

#include "data/ChatTemplate.h"
#include "data/Data.h"
#include "support/JSON.h"

namespace poplar::runtime {

/// The ids of an example, and whether each is a target.
struct Example {
  std::vector<int32_t> Ids;
  std::vector<bool> Counts;
};

/// Turns objects of JSON into ids. An object has
///   text                           all tokens count
///   prompt, completion             those of the completion
///   instruction, input, output     the same, in Alpaca's words
///   messages [{role, content}]     those of the assistant, by the chat
///                                  template that the tokenizer's tokens show
/// The token that ends a text, a completion or an answer counts as well.
class ExampleEncoder {
public:
  /// `EndId` is the model's eos_token_id, or -1.
  ExampleEncoder(const Tokenizer &Tok, int32_t EndId);

  /// `Where` names the object in errors.
  Example encode(const json::Value &Object, const std::string &Where);

private:
  const ChatTemplate &getChat(const std::string &Where) const;
  Example encodeChat(const RenderedChat &Chat);
  Example encodeCompletion(const std::string &Prompt,
                           const std::string &Completion,
                           const std::string &Where);
  void addEnd(Example &E, const std::string &Where) const;
  std::vector<int32_t> encodeText(std::string_view Text, bool AddSpecial);

  std::unique_ptr<Tokenizer::Encoder> Encoder;
  /// Null if the tokenizer has the tokens of none.
  const ChatTemplate *Chat;
  int32_t EndId;
};

/// Examples of a file, each in a sample of its own: what is too long is cut,
/// what is short is filled up with positions that do not count.
class ExampleSource : public SampleSource {
public:
  /// The examples [Begin, End) of a file that prepareExamples() made of the
  /// file `Name`, in another order in every epoch if `Shuffle`.
  ExampleSource(std::shared_ptr<const MappedFile> File, std::string Name,
                int64_t Begin, int64_t End, const ModelInfo &Model,
                uint64_t Seed, bool Shuffle);

  int64_t size() const override { return Count; }
  void read(int64_t Index, int32_t *Ids, int32_t *Targets) override;
  bool needsMasking() const override { return false; }
  void addTo(Fingerprint &Print) const { Print.add(*File); }
  /// "'PATH': JSON, 1000 examples, 61234 of 99999 tokens count, 3 are longer
  /// than 1024 tokens and cut".
  std::string describe() const;

private:
  std::shared_ptr<const MappedFile> File;
  std::string Name;
  const ModelInfo &Model;
  int64_t Begin, Count;
  uint64_t Seed;
  bool Shuffle;
};

/// Whether a file is to be read as examples: JSON, of a model with a tokenizer.
bool isExamples(const std::string &Path, const std::string &Format,
                const TextEncoding &Encoding);

/// The encoded examples of a file, kept as encoded text is.
std::shared_ptr<const MappedFile> prepareExamples(const std::string &Path,
                                                  const TextEncoding &Encoding,
                                                  const ModelInfo &Model,
                                                  bool Reports);
/// Number of examples in such a file.
int64_t countExamples(const MappedFile &File);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_EXAMPLES_H
