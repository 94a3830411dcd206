//===- JSONFields.h - What files of all kinds are made of -------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_IMPORT_JSONFIELDS_H
#define POPLAR_LIB_IMPORT_JSONFIELDS_H

#include "Poplar/Support/JSON.h"
#include <initializer_list>

namespace poplar::import {

/// Elements of an array; none, with an error, of anything else.
std::vector<json::Value> getElements(json::Value array);

/// Refuses keys that are not among `known`, and what is no object.
void expectKeys(json::Value object, std::initializer_list<const char *> known);

/// 85899345920 or "80GiB".
int64_t getBytes(json::Value value);

} // namespace poplar::import

#endif // POPLAR_LIB_IMPORT_JSONFIELDS_H
