//===- ParameterBytes.h - Bytes of the state of parameters ------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Bytes of training state that a rank holds of parameters, by format and stage
// of ZeRO (StateBytes.h). All that depends on the kind of a parameter is here.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_PLANNER_MODEL_PARAMETERBYTES_H
#define POPLAR_PLANNER_MODEL_PARAMETERBYTES_H

#include "Poplar/Planner/Model/ParameterElements.h"
#include "Poplar/Planner/Model/StateBytes.h"

namespace poplar {

/// What moments in blocks save of so many elements, in whole blocks: two
/// moments of 4 bytes become two of 1, or of 1/2, and a block has two scales of
/// 4 (Runtime/Quantized.h).
constexpr int64_t getSavedStateBytes(int64_t int8States, int64_t int4States) {
  return 6 * int8States - int8States / 32 + 7 * int4States - int4States / 32;
}

/// Bytes of state on a rank that holds `elements`, of which `shard` is its
/// shard of what a stage shards. Padding of buffers and what exists only for a
/// while, such as gathered parameters, are not state.
inline int64_t getStateBytes(const StateFormat &format, int zeroStage,
                             const ParameterElements &elements,
                             const ParameterElements &shard) {
  const ParameterElements &ofOptimizer = zeroStage >= 1 ? shard : elements,
                          &ofGradients = zeroStage >= 2 ? shard : elements,
                          &ofParameters = zeroStage >= 3 ? shard : elements;
  return format.optimizer * ofOptimizer.trained -
         getSavedStateBytes(ofOptimizer.int8States, ofOptimizer.int4States) +
         format.gradient * ofGradients.trained +
         format.parameter * ofParameters.countPlain() +
         ofParameters.quantizedBytes;
}

/// Bytes of state per element, in real numbers, of a rank in a group that
/// shards the optimizer's state alone: ZeRO stage 1.
struct StateRates {
  /// Bytes of a trained parameter: on every rank, and divided among them; and
  /// what of the latter moments in 8 bits save, and in 4.
  double replicated = 0, sharded = 0, savedByInt8 = 0, savedByInt4 = 0;
  /// Bytes of a frozen parameter on every rank.
  double frozen = 0;
  /// Bytes on every rank for a byte of a quantised parameter.
  double quantized = 1;

  /// The rates of one of `degree` devices that share units evenly.
  static StateRates of(const StateFormat &format, int degree) {
    constexpr int64_t block = 256;
    return {static_cast<double>(format.replicated(1)) / degree,
            static_cast<double>(format.sharded(1)) / degree,
            static_cast<double>(getSavedStateBytes(block, 0)) / block / degree,
            static_cast<double>(getSavedStateBytes(0, block)) / block / degree,
            static_cast<double>(format.parameter) / degree,
            1.0 / degree};
  }
  /// The bytes where `ranks` ranks share as in getStateBytes().
  double getBytes(const ParameterElements &elements, int ranks) const {
    auto trained = static_cast<double>(elements.trained);
    double shard = trained / ranks,
           bytes = trained * replicated + shard * sharded;
    // This is asked so often that what most models lack is left out.
    auto save = [&](int64_t states, double saved) {
      if (states == 0)
        return;
      auto wide = static_cast<double>(elements.trained - states);
      bytes -= std::max(shard - wide, 0.0) * saved;
    };
    save(elements.int8States, savedByInt8);
    save(elements.int4States, savedByInt4);
    if (elements.frozen > 0)
      bytes += static_cast<double>(elements.frozen) * frozen;
    if (elements.quantizedBytes > 0)
      bytes += static_cast<double>(elements.quantizedBytes) * quantized;
    return bytes;
  }
};

} // namespace poplar

#endif // POPLAR_PLANNER_MODEL_PARAMETERBYTES_H
