//===- CodeCache.h - Code that was generated before -------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Keeps what code generators made, by a hash of what they made it from, in
// $POPLAR_CACHE/code ($XDG_CACHE_HOME/poplar/code, ~/.cache/poplar/code). A
// plan that changes the batches of a job changes no kernel, so that building it
// again generates its tables and nothing else.
//
// Nothing depends on the cache: without a directory, on a full disk, or if an
// entry is damaged, code is generated.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_TARGET_CODECACHE_H
#define POPLAR_LIB_TARGET_CODECACHE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <optional>
#include <string>

namespace poplar {

class CodeCache {
public:
  /// Removes the entries not used for the longest time if all together take
  /// more than a gibibyte; looks for that once in twenty minutes.
  CodeCache();

  /// The key of what this compiler makes from `parts`, as 32 hexadecimal
  /// digits.
  static std::string getKey(llvm::ArrayRef<llvm::StringRef> parts);

  /// What was kept with a key; nothing if that is not there or damaged.
  std::optional<std::string> find(llvm::StringRef key) const;
  void keep(llvm::StringRef key, llvm::StringRef code) const;

private:
  std::string getPath(llvm::StringRef key) const;

  /// Empty where there is none.
  std::string directory;
};

} // namespace poplar

#endif // POPLAR_LIB_TARGET_CODECACHE_H
