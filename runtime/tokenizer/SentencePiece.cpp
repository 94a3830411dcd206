//===- SentencePiece.cpp - Tokenizers of SentencePiece --------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "support/Error.h"
#include "support/MappedFile.h"
#include "support/Plugin.h"
#include "tokenizer/SentencePiecePlugin.h"
#include "tokenizer/Tokenizer.h"
#include "tokenizer/Unicode.h"

#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>

using namespace poplar::runtime;

static const PoplarSentencePiece &getTable(void *Library,
                                           const std::string &Path) {
  auto Entry = reinterpret_cast<PoplarSentencePieceEntry>(
      dlsym(Library, POPLAR_SENTENCEPIECE_ENTRY));
  const PoplarSentencePiece *Table = Entry ? Entry() : nullptr;
  if (!Table || Table->magic != POPLAR_SENTENCEPIECE_MAGIC ||
      Table->version != POPLAR_SENTENCEPIECE_VERSION)
    fail("'", Path, "' is not the plug-in for SentencePiece of this version");
  return *Table;
}

static const PoplarSentencePiece &loadPlugin(const std::string &Model) {
  constexpr int Flags = RTLD_NOW | RTLD_LOCAL;
  static const char *Variable = "POPLAR_SENTENCEPIECE_PLUGIN";
  if (const char *Named = std::getenv(Variable)) {
    void *Library = dlopen(Named, Flags);
    if (!Library)
      fail(Variable, "=", Named, " cannot be loaded: ", dlerror());
    return getTable(Library, Named);
  }
  std::string Tried;
  for (const std::string &Path : getPluginPaths("libpoplar_sentencepiece.so")) {
    if (void *Library = dlopen(Path.c_str(), Flags))
      return getTable(Library, Path);
    bool Exists = std::filesystem::exists(Path);
    Tried += "\n  " + Path + (Exists ? std::string(": ") + dlerror() : "");
  }
  fail("'", Model,
       "' is read by SentencePiece's library, and the plug-in for it was not "
       "found or cannot be loaded. On Debian, apt-get install "
       "libsentencepiece-dev before Poplar is built, and libsentencepiece0 "
       "where it runs. Tried:",
       Tried);
}

namespace {

class SentencePieceTokenizer : public Tokenizer {
public:
  explicit SentencePieceTokenizer(const std::string &Path)
      : Table(loadPlugin(Path)) {
    MappedFile File(Path);
    std::string Why;
    TheModel = Table.load(File.data(), File.size(), &Why,
                          [](void *User, const char *Message) {
                            *static_cast<std::string *>(User) = Message;
                          });
    if (!TheModel)
      fail("'", Path,
           "' is neither a tokenizer.json of Hugging Face nor a model of "
           "SentencePiece: ",
           Why);
  }
  ~SentencePieceTokenizer() override { Table.destroy(TheModel); }

  std::unique_ptr<Encoder> makeEncoder() const override;
  std::string decode(const int32_t *Ids, size_t Count,
                     bool SkipSpecial) const override {
    std::vector<int32_t> Known;
    for (size_t I = 0; I < Count; ++I)
      if (Ids[I] >= 0 && Ids[I] < size() &&
          !(SkipSpecial && Table.is_control(TheModel, Ids[I])))
        Known.push_back(Ids[I]);
    std::string Text, Storage;
    auto Take = [](void *User, const char *Data, size_t Size) {
      static_cast<std::string *>(User)->assign(Data, Size);
    };
    if (Table.decode(TheModel, Known.data(), Known.size(), &Text, Take))
      fail("SentencePiece cannot decode ", Count, " ids");
    return std::string(unicode::repair(Text, Storage));
  }
  int64_t size() const override { return Table.size(TheModel); }
  int32_t find(std::string_view Token) const override {
    return Table.find(TheModel, Token.data(), Token.size());
  }
  std::string describe() const override {
    return "SentencePiece, " + std::to_string(size()) + " tokens";
  }

private:
  friend class SentencePieceEncoder;
  const PoplarSentencePiece &Table;
  void *TheModel;
};

class SentencePieceEncoder : public Tokenizer::Encoder {
public:
  explicit SentencePieceEncoder(const SentencePieceTokenizer &T) : T(T) {}
  void encode(std::string_view Text, bool, std::vector<int32_t> &Ids) override {
    Text = unicode::repair(Text, Repaired);
    auto Take = [](void *User, const int32_t *New, size_t Count) {
      auto &Ids = *static_cast<std::vector<int32_t> *>(User);
      Ids.insert(Ids.end(), New, New + Count);
    };
    if (T.Table.encode(T.TheModel, Text.data(), Text.size(), &Ids, Take))
      fail("SentencePiece cannot encode a text of ", Text.size(), " bytes");
  }

private:
  const SentencePieceTokenizer &T;
  std::string Repaired;
};

} // namespace

std::unique_ptr<Tokenizer::Encoder>
SentencePieceTokenizer::makeEncoder() const {
  return std::make_unique<SentencePieceEncoder>(*this);
}

std::unique_ptr<Tokenizer>
poplar::runtime::readSentencePiece(const std::string &Path) {
  return std::make_unique<SentencePieceTokenizer>(Path);
}
