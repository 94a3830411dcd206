//===- Fingerprint.cpp - What files hold, in a line -----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "job/Fingerprint.h"
#include "comm/Agreement.h"
#include "support/RunDirectory.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <filesystem>

using namespace poplar::runtime;
namespace fs = std::filesystem;

/// Bytes that are hashed between two reports of progress, and in one block.
static constexpr size_t PieceBytes = 32 << 20, BlockBytes = 64 << 10;
/// Bytes hashed per checkpoint file.
static constexpr int64_t CheckpointBytes = 64 << 20;

void Fingerprint::hash(const char *Data, size_t Size) {
  while (Size) {
    size_t Now = std::min(Size, PieceBytes);
    Hash = XXH3_64bits_withSeed(Data, Now, Hash);
    Data += Now;
    Size -= Now;
    Read += static_cast<int64_t>(Now);
    if (OnProgress)
      OnProgress(Read);
  }
}

void Fingerprint::add(std::string_view Text) {
  ++Files;
  Bytes += static_cast<int64_t>(Text.size());
  uint64_t Size = Text.size();
  Hash = XXH3_64bits_withSeed(&Size, sizeof Size, Hash);
  if (static_cast<int64_t>(Text.size()) <= Whole)
    return hash(Text.data(), Text.size());
  size_t Half = static_cast<size_t>(Whole) / 4;
  hash(Text.data(), Half);
  hash(Text.data() + Text.size() - Half, Half);
  size_t Blocks = std::max<size_t>(2 * Half / BlockBytes, 1);
  size_t Between = Text.size() - 2 * Half;
  for (size_t I = 0; I < Blocks; ++I) {
    size_t Begin = Between / Blocks * I;
    hash(Text.data() + Half + Begin, std::min(BlockBytes, Between - Begin));
  }
}

void Fingerprint::add(const MappedFile &File) { add(File.text()); }

std::string Fingerprint::describe() const {
  if (Files == 0)
    return "nothing";
  return std::to_string(Bytes) + " bytes" +
         (Files > 1 ? " in " + std::to_string(Files) + " files" : "") +
         " with the hash " + comm::toHex(Hash);
}

/// Whether a file of a checkpoint decides what is loaded.
static bool isRead(const std::string &Name) {
  auto EndsWith = [&](std::string_view End) {
    return Name.size() >= End.size() &&
           Name.compare(Name.size() - End.size(), End.size(), End) == 0;
  };
  return EndsWith(".safetensors") || EndsWith(".safetensors.index.json") ||
         Name == "config.json" || Name == "adapter_config.json" ||
         Name == "state.json";
}

std::string poplar::runtime::describeCheckpoint(const std::string &Path) {
  std::string Latest = findLatestCheckpoint(Path);
  fs::path Root = Latest.empty() ? Path : Latest;
  std::vector<std::string> Paths;
  std::error_code Code;
  if (fs::is_directory(Root, Code)) {
    for (const fs::directory_entry &Entry : fs::directory_iterator(Root, Code))
      if (isRead(Entry.path().filename()))
        Paths.push_back(Entry.path());
  } else {
    Paths.push_back(Root);
  }
  std::sort(Paths.begin(), Paths.end());
  Fingerprint Print(CheckpointBytes);
  for (const std::string &One : Paths)
    Print.add(MappedFile(One));
  return Print.describe();
}
