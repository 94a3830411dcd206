//===- Alike.h - Whether two declarations agree -----------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_UNITTESTS_GPU_EMULATED_ALIKE_H
#define POPLAR_UNITTESTS_GPU_EMULATED_ALIKE_H

#include <type_traits>

namespace poplar::emulated {

/// Functions with as many parameters, each of the same size, and a result of
/// the same size.
template <typename One, typename Other> struct Alike : std::false_type {};
template <typename R, typename... One, typename S, typename... Other>
struct Alike<R (*)(One...), S (*)(Other...)> {
  static constexpr bool value = [] {
    if constexpr (sizeof...(One) != sizeof...(Other))
      return false;
    else
      return sizeof(R) == sizeof(S) && ((sizeof(One) == sizeof(Other)) && ...);
  }();
};

} // namespace poplar::emulated

#endif // POPLAR_UNITTESTS_GPU_EMULATED_ALIKE_H
