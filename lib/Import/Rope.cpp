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

namespace {
/// The object that holds the parameters. It is called rope_parameters since
/// transformers 5, which lets a rope_scaling replace it; rope_theta may be in
/// it or beside it.
class Parameters {
public:
  explicit Parameters(const Config &config)
      : config(config), object(config["rope_parameters"]) {
    json::Value old = config["rope_scaling"];
    if (old.isPresent() && old.size() && object.isPresent() && object.size())
      old.error("rope_parameters is given, too");
    else if (old.isPresent() && (!old.isObject() || old.size()))
      object = old;
  }

  json::Value operator[](const std::string &key) const { return object[key]; }

  /// The type, under its present or its first name.
  json::Value getType() const {
    return object[object["rope_type"].isPresent() ? "rope_type" : "type"];
  }

  /// Records a fact that is in the object, or beside it as `beside`.
  void record(std::vector<const char *> names, Config::Fact fact,
              const char *beside = nullptr) const {
    std::vector<std::string> paths;
    for (const char *outer : {"rope_scaling.", "rope_parameters."})
      for (const char *name : names)
        paths.push_back(outer + std::string(name));
    if (beside)
      paths.push_back(beside);
    config.record(paths, std::move(fact));
  }

private:
  const Config &config;
  json::Value object;
};
} // namespace

/// Llama 3.1: low frequencies are divided by `factor`, high ones kept, those
/// between interpolated.
static void scaleLlama3(const Parameters &scaling, float factor,
                        int64_t original, std::vector<float> &frequencies) {
  auto low = static_cast<float>(scaling["low_freq_factor"].getNumber());
  auto high = static_cast<float>(scaling["high_freq_factor"].getNumber());
  auto positions = static_cast<float>(original);
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

/// Each member is read for some types only; for the others it says nothing.
static ArrayRef<Key> getMembers() {
  static const std::vector<Key> members = {
      function("rope_theta"),
      function("rope_type"),
      function("type"),
      function("factor"),
      function("low_freq_factor"),
      function("high_freq_factor"),
      function("original_max_position_embeddings"),
      fixed("partial_rotary_factor", {"1.0", "1"})};
  return members;
}

ArrayRef<Key> import::getRopeKeys() {
  static const std::vector<Key> keys = [] {
    std::vector<Key> table = {
        function("rope_scaling").orNull(), function("rope_parameters").orNull(),
        function("rope_theta"),
        fixed("partial_rotary_factor", {"1.0", "1", "null"})};
    table[0].members = table[1].members = getMembers();
    return table;
  }();
  return keys;
}

/// Divides the frequencies as the type asks for.
static void scale(const Config &config, const Parameters &parameters,
                  const std::string &type, int64_t positions,
                  std::vector<float> &frequencies) {
  auto factor = static_cast<float>(parameters["factor"].getNumber());
  if (!(factor > 0 && std::isfinite(factor))) {
    parameters["factor"].error("expected a number above 0, found " +
                               parameters["factor"].describe());
    return;
  }
  parameters.record({"factor"}, {parameters["factor"].getNumber()});
  if (type == "linear") {
    for (float &frequency : frequencies)
      frequency /= factor;
    return;
  }
  json::Value original = parameters["original_max_position_embeddings"];
  bool given = original.isPresent();
  if (given)
    positions = original.getInteger(1);
  else // the default, on which the function then depends
    config.record(ArrayRef<std::string>{"max_position_embeddings"},
                  {positions});
  Config::Fact fact = {positions};
  if (!given)
    fact.fallback = positions;
  parameters.record({"original_max_position_embeddings"}, std::move(fact));
  for (const char *name : {"low_freq_factor", "high_freq_factor"})
    parameters.record({name}, {parameters[name].getNumber()});
  scaleLlama3(parameters, factor, positions, frequencies);
}

/// In f32 as transformers computes them: at position 10^4, an angle that starts
/// from a more precise frequency differs in its fourth digit.
std::vector<double> import::getInverseFrequencies(const Config &config,
                                                  int64_t headDim,
                                                  int64_t positions) {
  Parameters parameters(config);
  if (config.failed())
    return {};
  std::string type = parameters.getType().getString("default");
  parameters.record({"rope_type", "type"}, {type, "default"});
  json::Value theta = parameters["rope_theta"];
  if (!theta.isPresent())
    theta = config["rope_theta"];
  double givenBase = theta.getNumber(10000.0);
  parameters.record({"rope_theta"}, {givenBase, 10000.0}, "rope_theta");
  auto base = static_cast<float>(givenBase);
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
  if (type != "default" && type != "linear" && type != "llama3")
    parameters.getType().error("unsupported rope_type '" + type +
                               "' (known: " + kKnownTypes + ")");
  if (config.failed())
    return {};

  std::vector<float> frequencies;
  for (int64_t j = 0; j < headDim; j += 2)
    frequencies.push_back(
        1.0f /
        std::pow(base, static_cast<float>(j) / static_cast<float>(headDim)));
  if (type != "default")
    scale(config, parameters, type, positions, frequencies);
  return {frequencies.begin(), frequencies.end()};
}
