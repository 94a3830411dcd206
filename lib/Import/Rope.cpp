//===- Rope.cpp - Frequencies of rotary embeddings ------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Config.h"
#include "llvm/ADT/STLExtras.h"
#include <cmath>

using namespace mlir;
using namespace poplar;
using namespace poplar::import;

using Floats = std::vector<float>;

static constexpr char kKnownTypes[] =
    "default, linear, dynamic, yarn, longrope, llama3";
/// Far above any model; the table of frequencies is stored in the module.
static constexpr int64_t kMaxHeadDim = 65536;

namespace {
/// The object that holds the parameters. It is called rope_parameters since
/// transformers 5, which lets a rope_scaling replace it; rope_theta may be in
/// it or beside it.
class Parameters {
public:
  Parameters(const Config &config, const RopeShape &shape)
      : config(config), object(config["rope_parameters"]) {
    std::string present = "rope_parameters.";
    json::Value outer = object;
    if (shape.layerType) {
      object = object[shape.layerType];
      present += std::string(shape.layerType) + ".";
    }
    prefixes = {present};
    if (!shape.hasScaling)
      return;
    prefixes = {"rope_scaling.", present};
    json::Value old = config["rope_scaling"];
    if (old.isPresent() && old.size() && outer.isPresent() && outer.size())
      old.error("rope_parameters is also given: remove one");
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
    for (const std::string &prefix : prefixes)
      for (const char *name : names)
        paths.push_back(prefix + name);
    if (beside)
      paths.push_back(beside);
    config.record(paths, std::move(fact));
  }

  /// A finite number above 0; none if it is absent or null. It is recorded,
  /// with what its lack means.
  std::optional<double>
  getOptional(const char *name, llvm::json::Value fallback = nullptr) const {
    json::Value value = object[name];
    if (!value.isPresent()) {
      record({name}, {fallback, fallback});
      return std::nullopt;
    }
    double number = value.getNumber();
    if (!(number > 0 && std::isfinite(number)))
      value.error("expected a number above 0, found " + value.describe());
    record({name}, {number, fallback});
    return number;
  }
  double getPositive(const char *name, double fallback) const {
    return getOptional(name, fallback).value_or(fallback);
  }

private:
  const Config &config;
  json::Value object;
  /// Where a member may be, with dots.
  std::vector<std::string> prefixes;
};

/// What the types of scaling share.
struct Scaling {
  const Config &config;
  const Parameters &parameters;
  const RopeShape &shape;
  double base;
  /// Columns that are rotated.
  int64_t dim;
};
} // namespace

/// base^(j / dim) for j = 0, 2, ...
static Floats getPowers(double base, int64_t dim) {
  Floats powers;
  for (int64_t j = 0; j < dim; j += 2)
    powers.push_back(std::pow(static_cast<float>(base),
                              static_cast<float>(j) / static_cast<float>(dim)));
  return powers;
}

static Floats invert(Floats powers) {
  for (float &power : powers)
    power = 1.0f / power;
  return powers;
}

/// The positions that the model was first trained with.
static int64_t getOriginalPositions(const Scaling &scaling) {
  json::Value original = scaling.parameters["original_max_position_embeddings"];
  int64_t positions = scaling.shape.positions;
  bool given = original.isPresent();
  if (given)
    positions = original.getInteger(1);
  else // the default, on which the function then depends
    scaling.config.record(ArrayRef<std::string>{"max_position_embeddings"},
                          {positions});
  Config::Fact fact = {positions};
  if (!given)
    fact.fallback = positions;
  scaling.parameters.record({"original_max_position_embeddings"},
                            std::move(fact));
  return positions;
}

static double getFactor(const Scaling &scaling) {
  json::Value value = scaling.parameters["factor"];
  double factor = value.getNumber();
  if (!(factor > 0 && std::isfinite(factor)))
    value.error("expected a number above 0, found " + value.describe());
  scaling.parameters.record({"factor"}, {factor});
  return factor;
}

/// Llama 3.1: low frequencies are divided by `factor`, high ones kept, those
/// between interpolated.
static void scaleLlama3(const Parameters &scaling, float factor,
                        int64_t original, Floats &frequencies) {
  for (const char *name : {"low_freq_factor", "high_freq_factor"})
    scaling.record({name}, {scaling[name].getNumber()});
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

/// NTK-aware scaling: sequences longer than the model's positions have a larger
/// base.
static Floats getDynamic(const Scaling &scaling) {
  double factor = getFactor(scaling);
  auto positions = static_cast<float>(scaling.shape.positions);
  scaling.config.record(ArrayRef<std::string>{"max_position_embeddings"},
                        {scaling.shape.positions});
  double base = scaling.base;
  if (scaling.shape.seqLen > scaling.shape.positions && scaling.dim > 2) {
    auto stretch = static_cast<float>(factor) *
                       static_cast<float>(scaling.shape.seqLen) / positions -
                   static_cast<float>(factor - 1);
    base = static_cast<float>(base) *
           std::pow(stretch, static_cast<float>(double(scaling.dim) /
                                                double(scaling.dim - 2)));
  }
  return invert(getPowers(base, scaling.dim));
}

/// 0.1 m ln(s) + 1 (YaRN).
static double getMScale(double scale, double m) {
  return scale <= 1 ? 1.0 : 0.1 * m * std::log(scale) + 1.0;
}

/// The factor of the rotated columns under YaRN.
static double getYarnScale(const Scaling &scaling, double factor) {
  const Parameters &parameters = scaling.parameters;
  std::optional<double> given = parameters.getOptional("attention_factor");
  if (given)
    return *given;
  // Both or none.
  std::optional<double> m = parameters.getOptional("mscale");
  std::optional<double> all = parameters.getOptional("mscale_all_dim");
  if (m && all)
    return getMScale(factor, *m) / getMScale(factor, *all);
  return getMScale(factor, 1);
}

/// YaRN (Peng et al. 2023): columns that turn more than beta_fast times in the
/// original positions keep their frequencies, those that turn less than
/// beta_slow times are interpolated, others are between.
static Rope getYarn(const Scaling &scaling) {
  const Parameters &parameters = scaling.parameters;
  double factor = getFactor(scaling);
  auto original = static_cast<double>(getOriginalPositions(scaling));
  Rope rope;
  rope.scale = getYarnScale(scaling, factor);
  double fast = parameters.getPositive("beta_fast", 32);
  double slow = parameters.getPositive("beta_slow", 1);
  bool truncate = parameters["truncate"].getBool(true);
  parameters.record({"truncate"}, {truncate, true});
  auto columnOf = [&](double turns) {
    return scaling.dim * std::log(original / (turns * 2 * M_PI)) /
           (2 * std::log(scaling.base));
  };
  double low = columnOf(fast), high = columnOf(slow);
  if (truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(scaling.dim - 1));
  if (low == high)
    high += 0.001;
  int64_t j = 0;
  for (float power : getPowers(scaling.base, scaling.dim)) {
    float ramp = (static_cast<float>(j++) - static_cast<float>(low)) /
                 static_cast<float>(high - low);
    float kept = 1 - std::min(std::max(ramp, 0.0f), 1.0f);
    float interpolated = 1.0f / (static_cast<float>(factor) * power);
    rope.frequencies.push_back(interpolated * (1 - kept) + 1.0f / power * kept);
  }
  return rope;
}

/// A list of LongRoPE, one number per pair of columns.
static Floats getFactors(const Scaling &scaling, const char *name) {
  json::Value list = scaling.parameters[name];
  auto pairs = static_cast<size_t>(scaling.dim / 2);
  if (!list.isArray() || list.size() != pairs) {
    list.error("expected an array of " + std::to_string(pairs) +
               " numbers, one per pair of columns");
    return {};
  }
  Floats factors;
  llvm::json::Array values;
  for (size_t i = 0; i < pairs; ++i) {
    double number = list[i].getNumber();
    if (!(number > 0 && std::isfinite(number)))
      list[i].error("expected a number above 0, found " + list[i].describe());
    factors.push_back(static_cast<float>(number));
    values.push_back(number);
  }
  scaling.parameters.record({name}, {std::move(values)});
  return factors;
}

/// LongRoPE (Ding et al. 2024): a factor per pair, of one list for sequences up
/// to the original positions and of another one for longer sequences.
static Rope getLongRope(const Scaling &scaling) {
  const Parameters &parameters = scaling.parameters;
  int64_t original = scaling.shape.original ? scaling.shape.original
                                            : getOriginalPositions(scaling);
  Floats shortFactors = getFactors(scaling, "short_factor");
  Floats longFactors = getFactors(scaling, "long_factor");
  std::optional<double> factor = parameters.getOptional("factor");
  std::optional<double> given = parameters.getOptional("attention_factor");
  if (!factor) {
    factor = double(scaling.shape.positions) / double(original);
    scaling.config.record(ArrayRef<std::string>{"max_position_embeddings"},
                          {scaling.shape.positions});
  }
  if (scaling.config.failed())
    return {};
  Rope rope;
  rope.scale =
      given ? *given
      : *factor <= 1
          ? 1.0
          : std::sqrt(1 + std::log(*factor) / std::log(double(original)));
  bool isLong = scaling.shape.seqLen > original;
  const Floats &factors = isLong ? longFactors : shortFactors;
  for (auto [power, by] :
       llvm::zip_equal(getPowers(scaling.base, scaling.dim), factors))
    rope.frequencies.push_back(1.0f / (by * power));
  return rope;
}

/// Each member is read for some types only; for the others it says nothing.
static std::vector<Key> makeMembers(bool isPartial) {
  std::vector<Key> members;
  for (const char *name :
       {"rope_theta", "rope_type", "type", "factor", "low_freq_factor",
        "high_freq_factor", "original_max_position_embeddings", "beta_fast",
        "beta_slow", "truncate", "short_factor", "long_factor"})
    members.push_back(function(name));
  for (const char *name : {"attention_factor", "mscale", "mscale_all_dim"})
    members.push_back(function(name).orNull());
  members.push_back(isPartial ? function("partial_rotary_factor")
                              : fixed("partial_rotary_factor", {"1.0", "1"}));
  return members;
}

static std::vector<Key> makeRopeKeys(ArrayRef<Key> members, Key part) {
  std::vector<Key> table = {function("rope_scaling").orNull(),
                            function("rope_parameters").orNull(),
                            function("rope_theta"), std::move(part)};
  table[0].members = table[1].members = members;
  return table;
}

/// Those of families that rotate whole heads.
static std::vector<Key> makeWholeRopeKeys(ArrayRef<Key> members) {
  return makeRopeKeys(members,
                      fixed("partial_rotary_factor", {"1.0", "1", "null"}));
}

ArrayRef<Key> import::getRopeKeys() {
  static const std::vector<Key> members = makeMembers(/*isPartial=*/false);
  static const std::vector<Key> keys = makeWholeRopeKeys(members);
  return keys;
}

ArrayRef<Key> import::getPartialRopeKeys() {
  static const std::vector<Key> members = makeMembers(/*isPartial=*/true);
  static const std::vector<Key> keys =
      makeRopeKeys(members, function("partial_rotary_factor"));
  return keys;
}

static std::vector<Key> makeFarQueryMembers(bool isPartial) {
  std::vector<Key> table = makeMembers(isPartial);
  table.push_back(function("llama_4_scaling_beta"));
  // That of the model is beside the object.
  table.push_back(harmless("max_position_embeddings"));
  return table;
}

ArrayRef<Key> import::getFarQueryRopeKeys() {
  static const std::vector<Key> members =
      makeFarQueryMembers(/*isPartial=*/false);
  static const std::vector<Key> keys = makeWholeRopeKeys(members);
  return keys;
}

ArrayRef<Key> import::getKnownPartRopeKeys() {
  static const std::vector<Key> members =
      makeFarQueryMembers(/*isPartial=*/true);
  static const std::vector<Key> keys =
      makeRopeKeys(members, fixed("partial_rotary_factor", {"null"}));
  return keys;
}

ArrayRef<Key> import::getAlphaRopeKeys() {
  static const std::vector<Key> members = [] {
    std::vector<Key> table = makeMembers(/*isPartial=*/false);
    table.push_back(function("alpha"));
    return table;
  }();
  static const std::vector<Key> keys = makeWholeRopeKeys(members);
  return keys;
}

ArrayRef<Key> import::getLayeredRopeKeys() {
  static const std::vector<Key> members = makeMembers(/*isPartial=*/false);
  static const std::vector<Key> layers = [] {
    std::vector<Key> table = {function("full_attention").orNull(),
                              function("sliding_attention").orNull()};
    table[0].members = table[1].members = members;
    return table;
  }();
  static const std::vector<Key> keys = [] {
    std::vector<Key> table = makeWholeRopeKeys(members);
    table[1].members = layers;
    return table;
  }();
  return keys;
}

/// How many columns of a head are rotated.
static int64_t getRotatedColumns(const Config &config,
                                 const Parameters &parameters,
                                 const RopeShape &shape) {
  int64_t dim = shape.headDim;
  if (shape.isPartial) {
    json::Value part = parameters["partial_rotary_factor"];
    if (!part.isPresent())
      part = config[shape.partKey];
    double number = part.getNumber(shape.part);
    if (!(number > 0 && number <= 1))
      part.error("expected a number above 0 and at most 1, found " +
                 part.describe());
    parameters.record({"partial_rotary_factor"}, {number, shape.part},
                      shape.partKey);
    dim = static_cast<int64_t>(static_cast<double>(dim) * number);
  }
  if (dim % 2 || dim < 2)
    config["head_dim"].error("rotary embeddings need an even number of "
                             "elements per head, found " +
                             std::to_string(dim));
  // The table is part of the module.
  if (dim > kMaxHeadDim)
    config["head_dim"].error("expected at most " + std::to_string(kMaxHeadDim) +
                             " elements per head, found " +
                             std::to_string(dim));
  return dim;
}

/// Position p of a query has the factor 1 + beta ln(1 + floor(p / original)),
/// which is 1 up to the original positions.
static void checkFarQueries(const Scaling &scaling) {
  const Parameters &parameters = scaling.parameters;
  json::Value beta = parameters["llama_4_scaling_beta"];
  parameters.record({"llama_4_scaling_beta"}, {beta.getNumber()});
  // They have no default here.
  parameters["original_max_position_embeddings"].getNumber();
  if (scaling.config.failed())
    return;
  int64_t original = getOriginalPositions(scaling),
          length = scaling.shape.seqLen;
  if (length > original && beta.getNumber() != 0)
    beta.error("scales the queries of sequences longer than "
               "original_max_position_embeddings = " +
               std::to_string(original) +
               ", which is not supported, and --seq-len is " +
               std::to_string(length) + ": use --seq-len " +
               std::to_string(original));
}

/// NTK-aware scaling by a constant, for sequences of any length.
static std::optional<Floats> getStretched(const Scaling &scaling) {
  if (!scaling.shape.hasAlpha)
    return std::nullopt;
  std::optional<double> alpha = scaling.parameters.getOptional("alpha");
  if (!alpha || scaling.dim <= 2)
    return std::nullopt;
  double exponent = double(scaling.dim) / double(scaling.dim - 2);
  return invert(
      getPowers(scaling.base * std::pow(*alpha, exponent), scaling.dim));
}

/// The square of YaRN's factor by mscale_all_dim, whatever the type.
static double getScoreScale(const std::string &type, const Scaling &scaling) {
  if (!scaling.shape.scalesScores || type == "default")
    return 1;
  std::optional<double> all = scaling.parameters.getOptional("mscale_all_dim");
  if (!all)
    return 1;
  double factor = getMScale(getFactor(scaling), *all);
  return factor * factor;
}

/// Where it is known from elsewhere.
static void checkPart(const Parameters &parameters, const RopeShape &shape) {
  if (!shape.knownPart)
    return;
  json::Value part = parameters["partial_rotary_factor"];
  double number = part.getNumber(shape.knownPart);
  if (number != shape.knownPart)
    part.error("expected " + std::to_string(shape.knownPart) +
               ", the part of a head's columns that are rotated, found " +
               part.describe());
  parameters.record({"partial_rotary_factor"}, {number, shape.knownPart});
}

static Rope scale(const std::string &type, const Scaling &scaling) {
  if (type == "yarn")
    return getYarn(scaling);
  if (type == "longrope")
    return getLongRope(scaling);
  Floats frequencies;
  if (type == "dynamic") {
    std::optional<Floats> stretched = getStretched(scaling);
    frequencies = stretched ? *stretched : getDynamic(scaling);
  } else {
    frequencies = invert(getPowers(scaling.base, scaling.dim));
    if (type == "linear") {
      auto factor = static_cast<float>(getFactor(scaling));
      for (float &frequency : frequencies)
        frequency /= factor;
    } else if (type == "llama3") {
      double factor = getFactor(scaling);
      int64_t original = getOriginalPositions(scaling);
      scaleLlama3(scaling.parameters, static_cast<float>(factor), original,
                  frequencies);
    }
  }
  return {{frequencies.begin(), frequencies.end()}};
}

/// In f32 as transformers computes them: at position 10^4, an angle that starts
/// from a more precise frequency differs in its fourth digit.
Rope import::getRope(const Config &config, const RopeShape &shape) {
  Parameters parameters(config, shape);
  if (config.failed())
    return {};
  std::string type = parameters.getType().getString("default");
  Config::Fact fact{type, "default"};
  if (shape.onlyLongRope && (type == "su" || type == "longrope"))
    fact.same = {type == "su" ? "longrope" : "su"};
  parameters.record({"rope_type", "type"}, std::move(fact));
  json::Value theta = parameters["rope_theta"];
  if (!theta.isPresent() && shape.thetaKey)
    theta = config[shape.thetaKey];
  double base = theta.getNumber(shape.theta);
  parameters.record({"rope_theta"}, {base, shape.theta}, shape.thetaKey);
  if (!(base > 1 && std::isfinite(static_cast<float>(base))))
    theta.error("expected a number above 1, found " + theta.describe());
  int64_t dim = getRotatedColumns(config, parameters, shape);
  // An earlier name.
  if (shape.onlyLongRope && type == "su")
    type = "longrope";
  std::string known = shape.onlyLongRope ? "default, longrope" : kKnownTypes;
  SmallVector<StringRef> names;
  StringRef(known).split(names, ", ");
  if (!llvm::is_contained(names, type))
    parameters.getType().error("unsupported rope_type '" + type +
                               "' (known: " + known + ")");
  if (config.failed())
    return {};
  Scaling scaling{config, parameters, shape, base, dim};
  if (shape.scalesFarQueries)
    checkFarQueries(scaling);
  checkPart(parameters, shape);
  if (config.failed())
    return {};
  Rope rope = scale(type, scaling);
  rope.scoreScale = getScoreScale(type, scaling);
  rope.isInterleaved = shape.isInterleaved;
  return config.failed() ? Rope() : rope;
}
