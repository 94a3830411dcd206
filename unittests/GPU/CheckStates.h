//===- CheckStates.h - 8-bit optimizer states on the GPU at hand *- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_UNITTESTS_GPU_CHECKSTATES_H
#define POPLAR_UNITTESTS_GPU_CHECKSTATES_H

#include <cstdint>
#include <string>

namespace gputest {

/// Rounds moments of `Count` elements to blocks of so many bits, 8 or 4, and
/// widens them again, in the current context. With 4 bits, these are whole
/// blocks. Returns the first that has other bits than on the host, or nothing.
std::string findWrongStates(int64_t Count, int32_t Bits);

} // namespace gputest

#endif // POPLAR_UNITTESTS_GPU_CHECKSTATES_H
