//===- MappedFile.h - A file as memory --------------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_MAPPEDFILE_H
#define POPLAR_RUNTIME_MAPPEDFILE_H

#include <string>
#include <string_view>

namespace poplar::runtime {

/// A read-only mapping; throws an Error naming the file if there is none, or
/// only a pointer of Git LFS. If the file is cut while it is mapped, the next
/// access to what is gone ends the process with an error that names it.
class MappedFile {
public:
  explicit MappedFile(const std::string &Path);
  ~MappedFile();
  MappedFile(MappedFile &&Other) noexcept;
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;

  const std::string &path() const { return Path; }
  const char *data() const { return Data; }
  size_t size() const { return Size; }
  std::string_view text() const { return {Data, Size}; }

private:
  std::string Path;
  const char *Data = nullptr;
  size_t Size = 0;
};

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_MAPPEDFILE_H
