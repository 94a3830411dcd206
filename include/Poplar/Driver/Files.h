//===- Files.h - Several files at once --------------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_DRIVER_FILES_H
#define POPLAR_DRIVER_FILES_H

#include "mlir/IR/BuiltinOps.h"
#include <string>
#include <utility>
#include <vector>

namespace poplar {

/// The text of a module, ended by a newline.
std::string formatModule(mlir::ModuleOp module);

/// Makes a directory and those above it, if they are not there, open to others
/// as the umask says.
std::error_code createDirectories(llvm::StringRef path);

/// Contents by path, as writeFile() takes them. Writes all, or leaves all old
/// ones; returns false, with `error` set, if it cannot.
bool writeFiles(const std::vector<std::pair<std::string, std::string>> &files,
                std::string &error);

/// Writes a whole file or leaves the old one; "-" is standard output. Returns
/// false, with `error` set, if it cannot.
bool writeFile(const std::string &path, const std::string &contents,
               std::string &error);

/// Copies an executable or a library to `path`, for everybody to read and run;
/// what runs keeps the file that it has opened. Returns false, with `error` set
/// and an old file left, if it cannot.
bool copyExecutable(const std::string &from, const std::string &path,
                    std::string &error);

} // namespace poplar

#endif // POPLAR_DRIVER_FILES_H
