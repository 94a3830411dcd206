//===- Mixture.cpp - Families with mixtures of experts --------------------===//
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

void import::checkExperts(const Config &config, const char *key,
                          const Mixture &mixture) {
  if (!config.failed() && mixture.perToken > mixture.experts)
    config["num_experts_per_tok"].error(std::to_string(mixture.perToken) +
                                        " is more than " + key + " = " +
                                        std::to_string(mixture.experts));
  config.checkSize("num_experts_per_tok * the size of an expert",
                   static_cast<double>(mixture.perToken) * mixture.inner);
}

void import::readExperts(const Config &config, const char *key, int64_t experts,
                         int64_t perToken, Mixture &mixture) {
  mixture.experts = config.getSize(key, experts);
  mixture.perToken = config.getSize("num_experts_per_tok", perToken);
  mixture.balance = config.getBalance();
  checkExperts(config, key, mixture);
}

void import::setSparseLayers(const Config &config, Decoder &family) {
  int64_t layers = config.getLayers("num_hidden_layers"), step = 1;
  if (config["decoder_sparse_step"].isPresent())
    step = config["decoder_sparse_step"].getInteger(1);
  config.record("decoder_sparse_step", {step, 1});
  if (config.failed())
    return;
  std::vector<bool> sparse(layers);
  for (int64_t layer = 0; layer < layers; ++layer)
    sparse[layer] = (layer + 1) % step == 0;
  json::Value dense = config["mlp_only_layers"];
  llvm::json::Array numbers;
  for (size_t i = 0; !dense.isNull() && i < dense.size(); ++i) {
    int64_t layer = dense[i].getInteger(0);
    numbers.push_back(layer);
    if (layer < layers)
      sparse[layer] = false;
  }
  config.record("mlp_only_layers",
                {std::move(numbers), llvm::json::Array(), llvm::json::Array()});
  if (config.failed())
    return;
  family.getKind = [sparse, getKind = family.getKind](int64_t layer) {
    LayerKind kind = getKind(layer);
    kind.isSparse = sparse[layer];
    return kind;
  };
}

std::vector<Key> import::makeMixtureKeys(std::vector<Key> table,
                                         ArrayRef<Key> rope) {
  table.push_back(function("num_experts_per_tok"));
  // The loss that balances experts: transformers adds it where the first is
  // true.
  table.push_back(training("output_router_logits"));
  table.push_back(training("router_aux_loss_coef").orNull());
  return makeDecoderKeys(std::move(table), rope);
}
