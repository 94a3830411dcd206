//===- Output.cpp - Errors and files --------------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Output.h"
#include "Commands.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

int reportError(const std::string &message) {
  llvm::errs() << "poplar: error: " << message << "\n";
  return 1;
}

std::string formatModule(mlir::ModuleOp module) {
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

/// A file to rename to `path`: beside it, as only within a file system that is
/// atomic.
static std::optional<llvm::sys::fs::TempFile>
writeBeside(const std::string &path, const std::string &contents,
            std::string &error) {
  llvm::Expected<llvm::sys::fs::TempFile> file =
      llvm::sys::fs::TempFile::create(path + ".tmp-%%%%%%",
                                      llvm::sys::fs::all_read |
                                          llvm::sys::fs::owner_write |
                                          llvm::sys::fs::group_write);
  if (!file) {
    error = path + ": " + llvm::toString(file.takeError());
    return std::nullopt;
  }
  bool written;
  {
    llvm::raw_fd_ostream stream(file->FD, /*shouldClose=*/false);
    written = write(stream, contents, path, error);
  }
  if (written)
    return std::move(*file);
  llvm::consumeError(file->discard());
  return std::nullopt;
}

bool writeFiles(const std::vector<std::pair<std::string, std::string>> &files,
                std::string &error) {
  std::vector<std::pair<std::string, llvm::sys::fs::TempFile>> pending;
  auto discard = [&](size_t first) {
    for (size_t i = first; i < pending.size(); ++i)
      llvm::consumeError(pending[i].second.discard());
    return false;
  };
  for (const auto &[path, contents] : files)
    if (isReplaced(path)) {
      auto file = writeBeside(path, contents, error);
      if (!file)
        return discard(0);
      pending.emplace_back(path, std::move(*file));
    }
  for (const auto &[path, contents] : files)
    if (!isReplaced(path) && !writeDirectly(path, contents, error))
      return discard(0);
  for (size_t i = 0; i < pending.size(); ++i)
    if (llvm::Error failure = pending[i].second.keep(pending[i].first)) {
      error = pending[i].first + ": " + llvm::toString(std::move(failure));
      return discard(i + 1);
    }
  return true;
}

bool writeFile(const std::string &path, const std::string &contents,
               std::string &error) {
  return writeFiles({{path, contents}}, error);
}

bool writeFile(const std::string &path, const std::string &contents) {
  std::string error;
  if (writeFile(path, contents, error))
    return true;
  reportError(error);
  return false;
}
