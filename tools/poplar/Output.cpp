//===- Output.cpp - Errors and files --------------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

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

bool writeFile(const std::string &path, const std::string &contents,
               std::string &error) {
  if (path == "-")
    return write(llvm::outs(), contents, "standard output", error);
  // What is no regular file (a device, a pipe) cannot be replaced.
  llvm::sys::fs::file_status status;
  if (!llvm::sys::fs::status(path, status) &&
      status.type() != llvm::sys::fs::file_type::regular_file) {
    std::error_code code;
    llvm::raw_fd_ostream stream(path, code);
    if (code) {
      error = path + ": " + code.message();
      return false;
    }
    return write(stream, contents, path, error);
  }
  // Beside the target, as only within a file system a rename is atomic.
  llvm::Expected<llvm::sys::fs::TempFile> file =
      llvm::sys::fs::TempFile::create(path + ".tmp-%%%%%%",
                                      llvm::sys::fs::all_read |
                                          llvm::sys::fs::owner_write |
                                          llvm::sys::fs::group_write);
  if (!file) {
    error = path + ": " + llvm::toString(file.takeError());
    return false;
  }
  bool written;
  {
    llvm::raw_fd_ostream stream(file->FD, /*shouldClose=*/false);
    written = write(stream, contents, path, error);
  }
  if (!written) {
    llvm::consumeError(file->discard());
    return false;
  }
  if (llvm::Error failure = file->keep(path)) {
    error = path + ": " + llvm::toString(std::move(failure));
    return false;
  }
  return true;
}

bool writeFile(const std::string &path, const std::string &contents) {
  std::string error;
  if (writeFile(path, contents, error))
    return true;
  reportError(error);
  return false;
}
