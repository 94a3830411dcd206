//===- Qwen.h - What families of Qwen share ---------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_IMPORT_QWEN_H
#define POPLAR_LIB_IMPORT_QWEN_H

#include "Decoder.h"

namespace poplar::import {

/// Sets the windows: of the layers that `layer_types` names, otherwise of those
/// of which `isWindowed`, given max_window_layers, is true.
void setQwenWindows(const Config &config, Decoder &family,
                    bool (*isWindowed)(int64_t layer, int64_t maxLayers));

/// The keys of these windows.
std::vector<Key> getQwenWindowKeys();

} // namespace poplar::import

#endif // POPLAR_LIB_IMPORT_QWEN_H
