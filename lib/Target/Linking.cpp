//===- Linking.cpp - From objects to a shared object ----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Target/Build.h"
#include "ProgramTables.h"
#include "lld/Common/Driver.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

LLD_HAS_DRIVER(elf)

using namespace mlir;
using namespace poplar;

LogicalResult poplar::linkProgram(ModuleOp module, StringRef objectsPath,
                                  StringRef programPath) {
  auto fail = [&](const Twine &why) {
    return module.emitError("linking ") << programPath << " failed: " << why;
  };
  // LLVM makes a temporary file for the output, and replaces each % of its
  // path: the directory is given as an open file.
  StringRef directory = llvm::sys::path::parent_path(programPath);
  llvm::Expected<llvm::sys::fs::file_t> opened =
      llvm::sys::fs::openNativeFileForRead(directory.empty() ? "." : directory);
  if (!opened)
    return fail(toString(opened.takeError()));
  auto close = llvm::scope_exit([&] { llvm::sys::fs::closeFile(*opened); });
  std::string output = "/proc/self/fd/" + std::to_string(*opened) + "/" +
                       llvm::sys::path::filename(programPath).str(),
              objects = objectsPath.str(),
              symbol = "--undefined=" + kProgramSymbol.str();
  // What the runtime and the C library define is found when the program is
  // loaded: no library of the machine is an input. Threads of the linker would
  // outlast it, and a mapped file would end the process on a full disk.
  const char *arguments[] = {
      "ld.lld",       "-shared",       "--threads=1", "--no-mmap-output-file",
      "-z",           "noexecstack",   "-z",          "now",
      symbol.c_str(), objects.c_str(), "-o",          output.c_str()};
  std::string log;
  llvm::raw_string_ostream said(log);
  if (lld::lldMain(arguments, said, said, {{lld::Gnu, &lld::elf::link}})
          .retCode == 0)
    return success();
  // What the linker says becomes part of the one error.
  StringRef message = StringRef(log).split('\n').first;
  message.consume_front("ld.lld: error: ");
  auto [before, after] = message.split(output);
  return fail(before + (before == message ? "" : programPath) + after);
}
