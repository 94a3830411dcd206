//===- Rope.cpp - Frequencies of rotary embeddings ------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Config.h"
#include <cmath>

using namespace mlir;
using namespace poplar;
using namespace poplar::import;

static constexpr char kKnownTypes[] = "default, linear, llama3";
/// Far above any model; the table of frequencies is stored in the module.
static constexpr int64_t kMaxHeadDim = 65536;

/// Llama 3.1: low frequencies are divided by `factor`, high ones kept, those
/// between interpolated.
static void scaleLlama3(json::Value scaling, float factor,
                        std::vector<float> &frequencies) {
  auto low = static_cast<float>(scaling["low_freq_factor"].getNumber());
  auto high = static_cast<float>(scaling["high_freq_factor"].getNumber());
  auto positions = static_cast<float>(
      scaling["original_max_position_embeddings"].getInteger(1));
  if (!(low > 0 && high > low)) {
    scaling["low_freq_factor"].error(
        "expected 0 < low_freq_factor < high_freq_factor");
    return;
  }
  for (float &frequency : frequencies) {
    float wavelength = static_cast<float>(2 * M_PI) / frequency;
    if (wavelength < positions / high)
      continue;
    float scaled = frequency / factor;
    if (wavelength <= positions / low) {
      float smooth = (positions / wavelength - low) / (high - low);
      scaled = (1 - smooth) * scaled + smooth * frequency;
    }
    frequency = scaled;
  }
}

/// In f32 as transformers computes them: at position 10^4, an angle that starts
/// from a more precise frequency differs in its fourth digit.
std::vector<double> import::getInverseFrequencies(const Config &config,
                                                  int64_t headDim) {
  // Written as rope_parameters since transformers 5; rope_theta may be in it.
  bool old = config["rope_scaling"].isPresent();
  json::Value scaling = config[old ? "rope_scaling" : "rope_parameters"];
  std::string type = "default";
  if (scaling.isPresent())
    type = scaling[scaling["rope_type"].isPresent() ? "rope_type" : "type"]
               .getString("default");
  json::Value theta = scaling["rope_theta"].isPresent() ? scaling["rope_theta"]
                                                        : config["rope_theta"];
  auto base = static_cast<float>(theta.getNumber(10000.0));
  if (!(base > 1 && std::isfinite(base)))
    theta.error("expected a number above 1, found " + theta.describe());
  if (headDim % 2)
    config["head_dim"].error("rotary embeddings need an even number of "
                             "elements per head, found " +
                             std::to_string(headDim));
  // The table below is part of the module.
  if (headDim > kMaxHeadDim)
    config["head_dim"].error("expected at most " + std::to_string(kMaxHeadDim) +
                             " elements per head, found " +
                             std::to_string(headDim));
  config.expectNeutral("partial_rotary_factor", 1.0);
  if (scaling["partial_rotary_factor"].isPresent() &&
      scaling["partial_rotary_factor"].getNumber() != 1)
    scaling["partial_rotary_factor"].error(
        scaling["partial_rotary_factor"].describe() +
        " is not supported (only 1)");
  if (config.failed())
    return {};

  std::vector<float> frequencies;
  for (int64_t j = 0; j < headDim; j += 2)
    frequencies.push_back(
        1.0f /
        std::pow(base, static_cast<float>(j) / static_cast<float>(headDim)));
  if (type == "linear" || type == "llama3") {
    auto factor = static_cast<float>(scaling["factor"].getNumber());
    if (!(factor > 0 && std::isfinite(factor)))
      scaling["factor"].error("expected a number above 0, found " +
                              scaling["factor"].describe());
    else if (type == "llama3")
      scaleLlama3(scaling, factor, frequencies);
    else
      for (float &frequency : frequencies)
        frequency /= factor;
  } else if (type != "default") {
    scaling[scaling["rope_type"].isPresent() ? "rope_type" : "type"].error(
        "unsupported rope_type '" + type + "' (known: " + kKnownTypes + ")");
  }
  return {frequencies.begin(), frequencies.end()};
}
