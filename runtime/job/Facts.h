//===- Facts.h - What a rank has, for comparison with others ----*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Facts of a rank that are known before it allocates anything. The keys:
//
//   host, type       its host, and the device type of its program
//   memory           whose memory it will use: the host's, or a GPU's
//   needed, free     bytes of that memory: the plan's peak, and what is free
//   device           a description of the device
//   missing          instructions that the program uses and the CPU has not
//   chip, gpu_chip   what the program is compiled for, and what the GPU is
//   gpu              the GPU's address on its bus
//   driver, module   CUDA's version that the driver is for, and its own
//   library          of collectives: "NCCL 2.28.9"; or why there is none:
//   no_library
//   comm             what POPLAR_COMM says
//   threads, cores   that the plan gives it, and that it may run on
//   network          interfaces of its host, separated by spaces
//   environment      NCCL_* variables, separated by newlines turned to ';'
//   no_peer          ranks of its host whose GPUs its own cannot read
//   clock            seconds that its clock is ahead of rank 0's
//   error            why it cannot compute at all
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_FACTS_H
#define POPLAR_RUNTIME_FACTS_H

#include "Poplar/Runtime/ABI.h"

#include <map>
#include <string>
#include <vector>

namespace poplar::runtime {

using Facts = std::map<std::string, std::string>;

/// Instructions that the program is compiled for and this CPU lacks, or
/// POPLAR_MAX_ISA hides.
std::string findMissingInstructions(const PoplarProgram &Program);

/// All but `no_peer` and `clock`, of which several ranks have to know.
Facts collectFacts(const PoplarProgram &Program, int Rank);

/// `no_peer` of a rank, by the facts of all.
std::string findUnreachable(const std::vector<Facts> &All, int Rank);

/// The part that depends on the backend: device, memory and library. There is
/// one implementation per backend, as of Device.h. Throws an Error where the
/// rank cannot compute.
void addDeviceFacts(const PoplarProgram &Program, int Rank, Facts &F);

/// Lines of "key=value", and back.
std::string toText(const Facts &F);
Facts parseFacts(const std::string &Text);

/// A number among the facts, or 0.
double getNumber(const Facts &F, const std::string &Key);
/// A fact, or nothing.
std::string getFact(const Facts &F, const std::string &Key);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_FACTS_H
