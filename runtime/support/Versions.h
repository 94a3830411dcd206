//===- Versions.h - Which libraries a device uses ---------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_VERSIONS_H
#define POPLAR_RUNTIME_VERSIONS_H

#include <string>

namespace poplar::runtime {

/// Versions of the libraries that the backend's Device calls, as members of an
/// object of JSON: `"onednn": "2.7.3"`.
std::string getLibraryVersions();

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_VERSIONS_H
