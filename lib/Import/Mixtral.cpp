//===- Mixtral.cpp - Mixtral ----------------------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Mixture.h"

using namespace mlir;
using namespace poplar;
using namespace poplar::import;

static OwningOpRef<ModuleOp> buildMixtral(const Config &config) {
  Decoder family;
  family.architecture = "mixtral";
  family.maxPositions = 4096 * 32;
  family.kvHeads = 8;
  family.eps = 1e-5;
  family.ropes[0].theta = 1000000.0;
  family.mixture.inner = config.getSize("intermediate_size");
  readExperts(config, "num_local_experts", 8, 2, family.mixture);
  family.mixture.name = "block_sparse_moe";
  family.mixture.gate = "w1";
  family.mixture.up = "w3";
  family.mixture.down = "w2";
  int64_t window = config.getWindow("sliding_window", 0);
  family.getKind = [=](int64_t) {
    return LayerKind{window, 0, /*isSparse=*/true};
  };
  return buildDecoder(config, family);
}

static Family getMixtral() {
  static const std::vector<Key> keys = makeMixtureKeys(
      {function("num_local_experts").orCalled("num_experts"),
       function("sliding_window").orNull(),
       fixed("router_jitter_noise", {"0.0", "0"}),
       fixed("attention_bias", {"false"}), fixed("mlp_bias", {"false"})});
  return {"mixtral", "MixtralForCausalLM", keys, buildMixtral};
}

std::vector<Family> import::getMixtralFamilies() { return {getMixtral()}; }
