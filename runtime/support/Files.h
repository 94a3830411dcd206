//===- Files.h - Writing files so that they are whole or absent -*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_FILES_H
#define POPLAR_RUNTIME_FILES_H

#include <cstdint>
#include <string>
#include <string_view>

namespace poplar::runtime {

/// A file being written. Any failure (a full disk, say) is an Error naming the
/// file; a file that was not closed is incomplete and its maker removes it.
/// Symbolic links are not followed: who made them may be another user.
class OutputFile {
public:
  /// Overwrites what is there, or removes it first: then no other name of that
  /// file shows what is written.
  explicit OutputFile(const std::string &Path, bool RemovesFirst = false);
  ~OutputFile();
  OutputFile(const OutputFile &) = delete;
  OutputFile &operator=(const OutputFile &) = delete;

  void write(const void *Data, size_t Bytes);
  void write(std::string_view Text) { write(Text.data(), Text.size()); }
  /// Waits until the content is on the disk, and closes.
  void close();

private:
  std::string Path;
  int FD = -1;
};

/// A lock on a directory, which one process of all hosts can have, for as long
/// as it lives: an Error names who has it. It is a lock of the kernel's on the
/// file `lock`, which goes with the process however that ends. A file of that
/// name that is no lock is an Error, and stays as it is.
class DirectoryLock {
public:
  explicit DirectoryLock(const std::string &Directory);
  /// An Error if a process has the lock. Makes no file.
  static void checkFree(const std::string &Directory);
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock &) = delete;
  DirectoryLock &operator=(const DirectoryLock &) = delete;

private:
  std::string Path;
  int FD = -1;
};

/// The directory that `poplar build` wrote, around that of the executable.
/// Empty if the system does not tell.
std::string getJobDirectory();
/// Writes `Text` under another name and renames it to `Path`.
void writeFileAtomically(const std::string &Path, std::string_view Text);
/// Makes symlink `Path` point at `Target` without a moment of absence.
void replaceSymlink(const std::string &Target, const std::string &Path);
/// Makes renames in a directory durable.
void syncDirectory(const std::string &Path);
void createDirectories(const std::string &Path);
/// Renames a file or directory.
void renamePath(const std::string &From, const std::string &To);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_FILES_H
