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
#include "llvm/Support/raw_ostream.h"

LLD_HAS_DRIVER(elf)

using namespace mlir;
using namespace poplar;

LogicalResult poplar::linkProgram(ModuleOp module, StringRef objectsPath,
                                  StringRef programPath) {
  std::string objects = objectsPath.str(), program = programPath.str();
  std::string symbol = "--undefined=" + kProgramSymbol.str();
  // What the runtime and the C library define is found when the program is
  // loaded: no library of the machine is an input. Threads of the linker would
  // outlast it, and a mapped file would end the process on a full disk.
  const char *arguments[] = {
      "ld.lld",       "-shared",       "--threads=1", "--build-id=sha1",
      "-z",           "noexecstack",   "-z",          "now",
      symbol.c_str(), objects.c_str(), "-o",          program.c_str()};
  // What the linker says becomes part of the one error.
  std::string log;
  llvm::raw_string_ostream said(log);
  if (lld::lldMain(arguments, said, said, {{lld::Gnu, &lld::elf::link}})
          .retCode == 0)
    return success();
  StringRef message = StringRef(log).split('\n').first;
  message.consume_front("ld.lld: error: ");
  return module.emitError("linking ")
         << programPath << " failed" << (message.empty() ? "" : ": ")
         << message;
}
