//===- Text.cpp - Text as the ids of a model's tokenizer ------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/Text.h"
#include "comm/Agreement.h"
#include "job/Options.h"
#include "job/Waiting.h"
#include "support/Error.h"
#include "support/Files.h"
#include "support/JSON.h"
#include "tokenizer/LlamaTokenizer.h"
#include "tokenizer/Tables.h"
#include "tokenizer/Tokenizer.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <filesystem>
#include <omp.h>
#include <optional>
#include <sys/file.h>
#include <unistd.h>

using namespace poplar::runtime;

/// A text is encoded in parts of at least this size, which end behind a line.
static constexpr size_t PartBytes = size_t(1) << 20;
/// The version of the files that are kept.
static constexpr uint64_t FormatVersion = 2;

std::vector<int64_t> poplar::runtime::findEnds(const ModelInfo &Model) {
  json::Value Config = json::parse(Model.config, "config.json of the model");
  std::vector<int64_t> Ids;
  auto Add = [&](const json::Value &Value) {
    int64_t Id = 0;
    if (Value.asInteger(Id))
      Ids.push_back(Id);
  };
  const json::Value *End = Config.find("eos_token_id");
  if (End && End->kind() == json::Value::Array)
    for (const json::Value &Each : End->elements())
      Add(Each);
  else if (End)
    Add(*End);
  return Ids;
}

TextEncoding::TextEncoding(const Options &O, const ModelInfo &Model) {
  Path = O.Tokenizer;
  if (Path.empty() && *Model.tokenizer)
    Path = getJobDirectory() + "/tokenizer/" + Model.tokenizer;
  if (Path.empty())
    return;
  MappedFile File(Path);
  Hash = hashBytes(File.text());
  if (O.Tokenizer.empty() && comm::toHex(Hash) != Model.tokenizer_hash)
    fail("'", Path,
         "' is not the tokenizer that the program was built with; build it "
         "again, or name the tokenizer by --tokenizer");
  Tok = Tokenizer::load(Path);
  if (!isTokenizerJSON(File.text()))
    for (const std::string &Each : findTokenizerSettings(Path)) {
      uint64_t Both[] = {Hash, hashBytes(MappedFile(Each).text())};
      Hash = hashBytes({reinterpret_cast<const char *>(Both), sizeof Both});
    }
  // Ids outside the vocabulary, which some tokenizers have, are refused where
  // they are met.
  Width = std::max(Model.vocab_size, Tok->size()) <= 1 << 16 ? 2 : 4;
}

static std::string getCacheDirectory() {
  auto Get = [](const char *Name) {
    const char *Value = std::getenv(Name);
    return std::string(Value ? Value : "");
  };
  if (std::string Own = Get("POPLAR_CACHE"); !Own.empty())
    return Own;
  if (std::string Base = Get("XDG_CACHE_HOME"); !Base.empty())
    return Base + "/poplar";
  if (std::string Home = Get("HOME"); !Home.empty())
    return Home + "/.cache/poplar";
  fail("there is no directory to keep encoded text in; name one by "
       "POPLAR_CACHE");
}

namespace {
/// A lock of the kernel's on a file, which goes with the process.
class FileLock {
public:
  explicit FileLock(const std::string &Path)
      : FD(open(Path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW,
                0644)) {
    if (FD < 0)
      fail("cannot create '", Path, "': ", std::strerror(errno));
    while (flock(FD, LOCK_EX) != 0)
      if (errno != EINTR) {
        close(FD);
        fail("cannot lock '", Path, "': ", std::strerror(errno));
      }
  }
  ~FileLock() { close(FD); }
  FileLock(const FileLock &) = delete;
  FileLock &operator=(const FileLock &) = delete;

private:
  int FD;
};
} // namespace

MappedFile TextEncoding::prepare(const MappedFile &Text, bool Reports) const {
  return keep(Text, "text", [&](const std::string &Out) {
    encode(Text.text(), Text.path(), Out, Reports);
  });
}

/// The content of the file BASE.sum, which describes BASE.ids.
static std::string describeContent(const MappedFile &File) {
  return std::to_string(File.size()) + " bytes, hash " +
         comm::toHex(hashBytes(File.text())) + "\n";
}

/// The file that is kept, if it is as it was written.
static std::optional<MappedFile> openKept(const std::string &Path,
                                          const std::string &SumPath) {
  if (!std::filesystem::exists(Path))
    return std::nullopt;
  MappedFile File(Path);
  if (std::filesystem::exists(SumPath) &&
      MappedFile(SumPath).text() == describeContent(File))
    return File;
  std::fprintf(Notes,
               "note: '%s' is not as it was written (cut, altered, or without "
               "its .sum file); it is made again\n",
               Path.c_str());
  return std::nullopt;
}

MappedFile TextEncoding::keep(
    const MappedFile &Source, const std::string &Kind,
    const std::function<void(const std::string &)> &Write) const {
  std::string Directory = getCacheDirectory();
  // Errors in the source are none of the directory's.
  auto Try = [&](const std::string &Path, const auto &Do) {
    try {
      Do();
    } catch (const Error &E) {
      if (std::string_view(E.what()).find(Path) == std::string_view::npos)
        throw;
      fail(E.what(), "; encoded data are kept there: name another directory by "
                     "POPLAR_CACHE");
    }
  };
  Try(Directory, [&] { createDirectories(Directory); });
  uint64_t Key[] = {FormatVersion,
                    Hash,
                    static_cast<uint64_t>(Width),
                    hashBytes(Kind),
                    hashBytes(Source.text()),
                    Source.size()};
  std::string Base = Directory + "/" +
                     comm::toHex(hashBytes(
                         {reinterpret_cast<const char *>(Key), sizeof Key})) +
                     comm::toHex(Key[4]);
  std::string Final = Base + ".ids", Sum = Base + ".sum";
  std::optional<FileLock> Lock;
  Try(Base, [&] { Lock.emplace(Base + ".lock"); });
  if (std::optional<MappedFile> Kept = openKept(Final, Sum))
    return std::move(*Kept);
  std::string Partial = Base + ".tmp";
  try {
    Try(Base, [&] {
      Write(Partial);
      writeFileAtomically(Sum, describeContent(MappedFile(Partial)));
      renamePath(Partial, Final);
    });
  } catch (...) {
    unlink(Partial.c_str());
    throw;
  }
  return MappedFile(Final);
}

/// The end of the part that begins at `Begin`.
static size_t findPartEnd(std::string_view Text, size_t Begin) {
  if (Text.size() - Begin <= PartBytes)
    return Text.size();
  size_t Line = Text.find('\n', Begin + PartBytes);
  return Line == Text.npos ? Text.size() : Line + 1;
}

void TextEncoding::encode(std::string_view Text, const std::string &Source,
                          const std::string &Out, bool Reports) const {
  OutputFile File(Out);
  Waiting Report("encoding '" + Source + "' with '" + Path + "'");
  auto Threads = static_cast<size_t>(std::max(1, omp_get_max_threads()));
  std::vector<std::unique_ptr<Tokenizer::Encoder>> Encoders;
  for (size_t I = 0; I < Threads; ++I)
    Encoders.push_back(Tok->makeEncoder());
  std::vector<std::vector<int32_t>> Ids(Threads);
  std::vector<std::string_view> Parts;
  std::exception_ptr Failure;
  for (size_t Begin = 0; Begin < Text.size();) {
    Parts.clear();
    while (Parts.size() < Threads && Begin < Text.size()) {
      size_t End = findPartEnd(Text, Begin);
      Parts.push_back(Text.substr(Begin, End - Begin));
      Begin = End;
    }
#pragma omp parallel for schedule(static, 1)
    for (size_t I = 0; I < Parts.size(); ++I)
      try {
        Ids[I].clear();
        Encoders[I]->encode(Parts[I], /*AddSpecial=*/false, Ids[I]);
      } catch (...) {
#pragma omp critical
        Failure = std::current_exception();
      }
    if (Failure)
      std::rethrow_exception(Failure);
    std::string Bytes;
    for (size_t I = 0; I < Parts.size(); ++I)
      for (int32_t Id : Ids[I])
        Bytes.append(reinterpret_cast<const char *>(&Id),
                     static_cast<size_t>(Width));
    File.write(Bytes);
    if (Reports)
      Report.step(static_cast<int64_t>(Begin));
  }
  File.close();
}
