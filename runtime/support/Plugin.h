//===- Plugin.h - Where libraries loaded at run time may be -----*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_PLUGIN_H
#define POPLAR_RUNTIME_PLUGIN_H

#include <string>
#include <vector>

namespace poplar::runtime {

/// Paths of the plug-in `Name`, in the order in which they are tried: beside
/// the executable, in lib/ there or beside that directory, and the loader's
/// path.
std::vector<std::string> getPluginPaths(const std::string &Name);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_PLUGIN_H
