//===- Files.cpp - Several files at once ----------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Driver/Files.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/Signals.h"
#include "llvm/Support/raw_ostream.h"
#include <unistd.h>
#include <utility>

using namespace poplar;

std::error_code poplar::createDirectories(llvm::StringRef path) {
  // By default, LLVM's function shuts others out of what they may read.
  return llvm::sys::fs::create_directories(path, /*IgnoreExisting=*/true,
                                           llvm::sys::fs::all_all);
}

std::string poplar::formatModule(mlir::ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module->print(stream);
  stream << "\n";
  return text;
}

/// True if everything reached the file; a stream destroyed with an error
/// pending would end the process.
static bool write(llvm::raw_fd_ostream &stream, const std::string &contents,
                  const std::string &path, std::string &error) {
  stream << contents;
  stream.flush();
  if (!stream.has_error())
    return true;
  error = path + ": " + stream.error().message();
  stream.clear_error();
  return false;
}

/// What is no regular file (a device, a pipe) cannot be replaced, only written.
static bool isReplaced(const std::string &path) {
  llvm::sys::fs::file_status status;
  return path != "-" &&
         (llvm::sys::fs::status(path, status) ||
          status.type() == llvm::sys::fs::file_type::regular_file);
}

/// Writes what isReplaced() is false of.
static bool writeDirectly(const std::string &path, const std::string &contents,
                          std::string &error) {
  if (path == "-")
    return write(llvm::outs(), contents, "standard output", error);
  std::error_code code;
  llvm::raw_fd_ostream stream(path, code);
  if (code) {
    error = path + ": " + code.message();
    return false;
  }
  return write(stream, contents, path, error);
}

namespace {
/// A file that is to replace the one at `path`, beside it, as a file is only
/// renamed atomically within a file system. Removed unless it is kept.
/// (llvm::sys::fs::TempFile would replace each % of a path.)
class PartialFile {
public:
  PartialFile() = default;
  PartialFile(PartialFile &&other) : name(std::exchange(other.name, "")) {}
  ~PartialFile() {
    if (name.empty())
      return;
    llvm::sys::fs::remove(name);
    llvm::sys::DontRemoveFileOnSignal(name);
  }

  std::error_code write(const std::string &path, const std::string &contents) {
    namespace fs = llvm::sys::fs;
    std::string partial = path + ".tmp-" + std::to_string(getpid());
    fs::remove(partial); // of a process that was killed
    int descriptor;
    if (std::error_code code = fs::openFileForWrite(
            partial, descriptor, fs::CD_CreateNew, fs::OF_None,
            fs::all_read | fs::owner_write | fs::group_write))
      return code;
    name = partial;
    llvm::sys::RemoveFileOnSignal(name);
    llvm::raw_fd_ostream stream(descriptor, /*shouldClose=*/true);
    stream << contents;
    stream.close();
    std::error_code code = stream.error();
    stream.clear_error();
    return code;
  }

  std::error_code keep(const std::string &path) {
    std::error_code code = llvm::sys::fs::rename(name, path);
    if (!code)
      llvm::sys::DontRemoveFileOnSignal(std::exchange(name, ""));
    return code;
  }

private:
  std::string name;
};
} // namespace

bool poplar::writeFiles(
    const std::vector<std::pair<std::string, std::string>> &files,
    std::string &error) {
  auto report = [&](const std::string &path, std::error_code code) {
    if (code)
      error = path + ": " + code.message();
    return !code;
  };
  std::vector<std::pair<std::string, PartialFile>> pending;
  for (const auto &[path, contents] : files)
    if (isReplaced(path)) {
      pending.emplace_back(path, PartialFile());
      if (!report(path, pending.back().second.write(path, contents)))
        return false;
    }
  for (const auto &[path, contents] : files)
    if (!isReplaced(path) && !writeDirectly(path, contents, error))
      return false;
  for (auto &[path, file] : pending)
    if (!report(path, file.keep(path)))
      return false;
  return true;
}

bool poplar::writeFile(const std::string &path, const std::string &contents,
                       std::string &error) {
  return writeFiles({{path, contents}}, error);
}

bool poplar::copyExecutable(const std::string &from, const std::string &path,
                            std::string &error) {
  namespace fs = llvm::sys::fs;
  std::string partial = path + ".tmp" + std::to_string(getpid());
  llvm::FileRemover remover(partial);
  std::error_code code = fs::copy_file(from, partial);
  if (!code)
    code = fs::setPermissions(partial,
                              fs::all_read | fs::all_exe | fs::owner_write);
  if (!code)
    code = fs::rename(partial, path);
  if (!code)
    remover.releaseFile();
  else
    error = (fs::exists(from) ? path : from) + ": " + code.message();
  return !code;
}
