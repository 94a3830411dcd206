//===- Config.cpp - What importers ask of a config.json -------------------===//
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

static constexpr int64_t kMaxSize = int64_t(1) << 31;
static constexpr int64_t kMaxLayers = 10000;
static constexpr double kMaxElements = 1e13;

/// Without the zeros that std::to_string appends.
static std::string toString(double number) {
  char text[32];
  snprintf(text, sizeof(text), "%.10g", number);
  return text;
}

int64_t Config::getSize(const std::string &key) const {
  return (*this)[key].getInteger(1, kMaxSize);
}

int64_t Config::getLayers(const std::string &key) const {
  return (*this)[key].getInteger(1, kMaxLayers);
}

std::optional<int64_t>
Config::getPaddingIdx(int64_t vocabSize,
                      std::optional<int64_t> fallback) const {
  json::Value value = (*this)["pad_token_id"];
  if (!value.isPresent())
    return fallback;
  // As torch.nn.Embedding counts, negative ids are from the end.
  int64_t id = value.getInteger(-vocabSize, vocabSize - 1);
  return id < 0 ? id + vocabSize : id;
}

double Config::getDropout(const std::string &key, double fallback) const {
  json::Value value = (*this)[key];
  double p = value.getNumber(fallback);
  if (!(p >= 0 && p < 1))
    value.error("expected a probability from 0 to below 1, found " +
                value.describe());
  return options.dropout.value_or(p);
}

double Config::getPositive(const std::string &key, double fallback) const {
  json::Value value = (*this)[key];
  double number = value.getNumber(fallback);
  if (!(number > 0 && std::isfinite(number)))
    value.error("expected a number above 0, found " + value.describe());
  return number;
}

std::string Config::getActivation(const std::string &key,
                                  const std::string &fallback) const {
  json::Value value = (*this)[key];
  std::string name = value.getString(fallback);
  if (!failed() && !isActivation(name))
    value.error("unsupported activation '" + name +
                "' (known: " + getActivations().str() + ")");
  return name;
}

int64_t Config::divide(const std::string &totalKey, int64_t total,
                       const std::string &partsKey, int64_t parts) const {
  if (total % parts)
    (*this)[totalKey].error(std::to_string(total) + " is not divisible by " +
                            partsKey + " = " + std::to_string(parts));
  return total / parts;
}

void Config::checkSize(const std::string &what, double size) const {
  if (size > static_cast<double>(kMaxSize))
    document.error(what + " = " + toString(size) + " is more than 2^31");
}

int64_t Config::getSeqLen(int64_t tableRows, bool learned) const {
  if (!options.seqLen)
    return std::min<int64_t>(tableRows, 1024);
  int64_t seqLen = *options.seqLen;
  if (seqLen < 1 || seqLen > kMaxSize)
    document.error("a sequence length of " + std::to_string(seqLen) +
                   " was asked for (expected 1 to 2^31)");
  else if (learned && seqLen > tableRows)
    document.error("a sequence length of " + std::to_string(seqLen) +
                   " was asked for, but the model has learned only " +
                   std::to_string(tableRows) + " positions");
  return seqLen;
}

void Config::expectNeutral(const std::string &key) const {
  json::Value value = (*this)[key];
  if (!value.isPresent() || value.describe() == "false")
    return;
  value.error(value.describe() +
              " is not supported (only false, null or none)");
}

void Config::expectNeutral(const std::string &key, double neutral) const {
  json::Value value = (*this)[key];
  if (value.isPresent() && value.getNumber() != neutral)
    value.error(value.describe() + " is not supported (only " +
                toString(neutral) + ")");
}

void Config::expectNeutral(const std::string &key,
                           const std::string &neutral) const {
  json::Value value = (*this)[key];
  if (!value.isPresent())
    return;
  std::string found = value.getString();
  if (found != neutral)
    value.error("'" + found + "' is not supported (only '" + neutral + "')");
}

OwningOpRef<ModuleOp> Config::finish(ModelBuilder &builder, Value loss,
                                     const Summary &summary) const {
  if (builder.getNumElements() > kMaxElements) {
    document.error("the model has " + toString(builder.getNumElements()) +
                   " parameters; more than 1e13 are refused");
    return {};
  }
  Builder attrs(&context);
  auto entry = [&](StringRef name, Attribute value) {
    return attrs.getNamedAttr(name, value);
  };
  return builder.finish(
      loss,
      attrs.getDictionaryAttr(
          {entry("architecture", attrs.getStringAttr(summary.architecture)),
           entry("objective", attrs.getStringAttr(summary.objective)),
           entry("vocab_size", attrs.getI64IntegerAttr(summary.vocabSize)),
           entry("seq_len", attrs.getI64IntegerAttr(summary.seqLen)),
           entry("hidden_size", attrs.getI64IntegerAttr(summary.hiddenSize)),
           entry("num_layers", attrs.getI64IntegerAttr(summary.layers)),
           entry("num_parameters", attrs.getI64IntegerAttr(static_cast<int64_t>(
                                       builder.getNumElements()))),
           entry("config", attrs.getStringAttr(document.getText()))}));
}
