//===- Mixture.cpp - Families with mixtures of experts --------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Mixture.h"
#include "Poplar/Runtime/Experts.h"

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

void import::setDenseLayers(const Config &config, const char *key,
                            int64_t absent, Decoder &family) {
  json::Value given = config[key];
  int64_t dense = given.isPresent() ? given.getInteger(0) : absent;
  config.record(key, {dense, absent});
  family.getKind = [dense, getKind = family.getKind](int64_t layer) {
    LayerKind kind = getKind(layer);
    kind.isSparse = layer >= dense;
    return kind;
  };
}

void import::readDeepSeekMixture(const Config &config,
                                 const DeepSeekMixture &absent,
                                 Mixture &mixture) {
  auto getSize = [&](const char *key, int64_t fallback) {
    return fallback ? config.getSize(key, fallback) : config.getSize(key);
  };
  mixture.inner = config.getSize("moe_intermediate_size", absent.inner);
  mixture.experts = getSize("n_routed_experts", absent.experts);
  mixture.perToken = getSize("num_experts_per_tok", absent.perToken);
  checkExperts(config, "n_routed_experts", mixture);
  mixture.shared = "shared_experts";
  mixture.sharedHasGate = false;
  mixture.sharedInner =
      mixture.inner * getSize("n_shared_experts", absent.shared);
}

std::vector<Key> import::getDeepSeekMixtureKeys() {
  return {function("moe_intermediate_size"), function("n_routed_experts"),
          function("num_experts_per_tok"), function("n_shared_experts"),
          function("routed_scaling_factor"),
          // transformers adds no loss for them.
          harmless("output_router_logits")};
}

void import::readSigmoidRouter(const Config &config, int64_t groups,
                               int64_t topGroups, Mixture &mixture) {
  mixture.sigmoid = true;
  mixture.bias = "gate.e_score_correction_bias";
  mixture.groups = config.getSize("n_group", groups);
  mixture.topGroups = config.getSize("topk_group", topGroups);
  if (config.failed())
    return;
  int64_t each = mixture.experts / mixture.groups;
  if (mixture.groups > POPLAR_MAX_EXPERT_GROUPS)
    config["n_group"].error("more than " +
                            std::to_string(POPLAR_MAX_EXPERT_GROUPS) +
                            " groups of experts are not supported");
  else if (mixture.experts % mixture.groups || each < 2)
    config["n_group"].error("cannot divide " + std::to_string(mixture.experts) +
                            " experts into " + std::to_string(mixture.groups) +
                            " groups of two or more");
  else if (mixture.topGroups > mixture.groups ||
           mixture.topGroups * each < mixture.perToken)
    config["topk_group"].error(
        "cannot choose " + std::to_string(mixture.perToken) + " experts from " +
        std::to_string(mixture.topGroups) + " of " +
        std::to_string(mixture.groups) + " groups of " + std::to_string(each));
}

std::vector<Key> import::getSigmoidRouterKeys() {
  return {function("n_group"), function("topk_group"),
          function("norm_topk_prob"),
          // The code beside checkpoints has others, and further layers.
          fixed("topk_method", {"\"noaux_tc\""}),
          fixed("scoring_func", {"\"sigmoid\""}),
          fixed("moe_layer_freq", {"1"}), harmless("num_nextn_predict_layers"),
          harmless("num_mtp_layers"), harmless("aux_loss_alpha"),
          harmless("seq_aux"), harmless("ep_size"), harmless("auto_map")};
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
