//===- Error.h - How the runtime reports failure ----------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every failure is one exception with one sentence for the user; runMain turns
// it into `<command>: error: <sentence>` and exit status 1.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_ERROR_H
#define POPLAR_RUNTIME_ERROR_H

#include <sstream>
#include <stdexcept>
#include <string>

namespace poplar::runtime {

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// All ranks have thrown it and have said so: the job ends in good order.
struct Disagreement : Error {
  using Error::Error;
};

/// The remedy for a trained model whose output is not finite.
inline constexpr const char *DivergedAdvice =
    "its weights are damaged or have diverged; give an earlier checkpoint, "
    "RUN/checkpoint-STEP, or train again with a lower --lr";

/// Throws an Error whose message is the parts streamed one after the other.
template <typename... Ts> [[noreturn]] void fail(const Ts &...Parts) {
  std::ostringstream OS;
  (OS << ... << Parts);
  throw Error(OS.str());
}

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_ERROR_H
