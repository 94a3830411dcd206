//===- CodeCache.cpp - Code that was generated before ---------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CodeCache.h"
#include "Poplar/Support/CacheDirectory.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/CachePruning.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Support/xxhash.h"

using namespace poplar;
using llvm::StringRef;

/// Bytes of all entries, beyond which the oldest go.
static constexpr uint64_t kMostBytes = uint64_t(1) << 30;
/// Hexadecimal digits of a hash.
static constexpr size_t kDigits = 32;

static std::string hashBytes(StringRef bytes) {
  llvm::XXH128_hash_t hash =
      llvm::xxh3_128bits(llvm::arrayRefFromStringRef(bytes));
  return llvm::utohexstr(hash.high64, /*LowerCase=*/true, /*Width=*/16) +
         llvm::utohexstr(hash.low64, /*LowerCase=*/true, /*Width=*/16);
}

CodeCache::CodeCache() {
  std::string base = findCacheDirectory();
  if (base.empty() || llvm::sys::fs::create_directories(base + "/code"))
    return;
  directory = base + "/code";
  llvm::CachePruningPolicy policy;
  policy.MaxSizeBytes = kMostBytes;
  llvm::pruneCache(directory, policy);
}

/// A hash of the program that is running: another may make other code from the
/// same input.
static const std::string &getCompiler() {
  static const std::string compiler = [] {
    auto program = llvm::MemoryBuffer::getFile(
        "/proc/self/exe", /*IsText=*/false, /*RequiresNullTerminator=*/false);
    return (program ? hashBytes((*program)->getBuffer()) : "") +
           LLVM_VERSION_STRING;
  }();
  return compiler;
}

std::string CodeCache::getKey(llvm::ArrayRef<StringRef> parts) {
  std::string hashes = getCompiler();
  for (StringRef part : parts)
    hashes += hashBytes(part);
  return hashBytes(hashes);
}

std::string CodeCache::getPath(StringRef key) const {
  // LLVM removes old files that are named so.
  return directory + "/llvmcache-" + key.str();
}

std::optional<std::string> CodeCache::find(StringRef key) const {
  if (directory.empty())
    return std::nullopt;
  auto file = llvm::MemoryBuffer::getFile(getPath(key), /*IsText=*/false,
                                          /*RequiresNullTerminator=*/false);
  if (!file)
    return std::nullopt;
  // The hash of the code, then the code.
  StringRef content = (*file)->getBuffer();
  if (content.size() < kDigits ||
      hashBytes(content.drop_front(kDigits)) != content.take_front(kDigits))
    return std::nullopt;
  return content.drop_front(kDigits).str();
}

void CodeCache::keep(StringRef key, StringRef code) const {
  if (directory.empty())
    return;
  // Written beside and renamed: others may read or write the same entry.
  llvm::consumeError(
      llvm::writeToOutput(getPath(key), [&](llvm::raw_ostream &out) {
        out << hashBytes(code) << code;
        // A stream with an error that nobody has seen ends the process.
        auto &file = static_cast<llvm::raw_fd_ostream &>(out);
        file.flush();
        std::error_code error = file.error();
        file.clear_error();
        return llvm::errorCodeToError(error);
      }));
}
