//===- Claims.h - What a rank claims about itself ---------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_CLAIMS_H
#define POPLAR_RUNTIME_CLAIMS_H

#include "Poplar/Runtime/ABI.h"
#include "comm/Agreement.h"
#include "job/Options.h"

namespace poplar::runtime {

/// Versions, the model, the command and every option but those in which ranks
/// may differ: all that can be compared at once, before anything is read.
std::vector<comm::Claim> claimOptions(const PoplarProgram &Program,
                                      const Options &O);

/// The version of Poplar, and a hash of the sources of the runtime.
std::string getRuntimeVersion();

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_CLAIMS_H
