//===- Config.h - What importers ask of a config.json -----------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_IMPORT_CONFIG_H
#define POPLAR_LIB_IMPORT_CONFIG_H

#include "Keys.h"
#include "ModelBuilder.h"
#include "Poplar/Import/Import.h"
#include "Poplar/Support/JSON.h"
#include "Poplar/Support/Words.h"
#include "SpecialTokens.h"
#include "llvm/Support/JSON.h"

namespace poplar::import {

class Config;

/// A family of models: its names, the closed table of its keys, and what builds
/// a model. The common keys belong to every family.
struct Family {
  std::string modelType, architecture;
  llvm::ArrayRef<Key> keys;
  mlir::OwningOpRef<mlir::ModuleOp> (*build)(const Config &);
};
const std::vector<Family> &getFamilies();

/// The families of one file each, in any order.
std::vector<Family> getBertFamilies();
std::vector<Family> getCohereFamilies();
std::vector<Family> getDeepSeekFamilies();
std::vector<Family> getGemmaFamilies();
std::vector<Family> getGLMFamilies();
std::vector<Family> getGPT2Families();
std::vector<Family> getGPTNeoXFamilies();
std::vector<Family> getGptOssFamilies();
std::vector<Family> getLlamaFamilies();
std::vector<Family> getMixtralFamilies();
std::vector<Family> getOlmoFamilies();
std::vector<Family> getPhiFamilies();
std::vector<Family> getQwenFamilies();
std::vector<Family> getQwenLinearFamilies();
std::vector<Family> getQwenMixtureFamilies();
std::vector<Family> getRoutedMixtureFamilies();

/// A config.json with the checks that all architectures share. Getters record
/// an error in the document instead of failing; `failed()` tells. They also
/// record the facts that decide what the model computes.
class Config {
public:
  Config(json::Document &document, const Family &family,
         const ImportOptions &options, mlir::MLIRContext &context,
         llvm::StringRef file, ImportSummary &summary);

  /// The value of a key of the family's table, under its name or its alias.
  json::Value operator[](const std::string &key) const;
  bool failed() const { return document.hasError(); }

  /// A dimension: at least 1 and at most 2^31. The fallback stands for an
  /// absent key and for null; `ofNull`, if given, for null.
  int64_t getSize(const std::string &key) const;
  int64_t getSize(const std::string &key, int64_t fallback,
                  std::optional<int64_t> ofNull = std::nullopt) const;
  bool getBool(const std::string &key, bool fallback) const;
  /// `pad_token_id`, the row of the word embeddings that look-ups do not train;
  /// none if null, or if absent and `fallback` is none.
  std::optional<int64_t> getPaddingIdx(int64_t vocabSize,
                                       std::optional<int64_t> fallback) const;
  int64_t getLayers(const std::string &key) const;
  /// For the masked objective; an error where the mask token is unknown.
  SpecialTokens getSpecialTokens(int64_t vocabSize) const;
  /// A dropout probability, unless the options replace it.
  double getDropout(const std::string &key, double fallback) const;
  /// A finite number above zero (a standard deviation, a factor, ...).
  double getPositive(const std::string &key, double fallback) const;
  /// The coefficient of the loss that balances experts; 0 where there is none.
  double getBalance() const;
  /// The epsilon of a norm: above zero and below one.
  double getEpsilon(const std::string &key, double fallback) const;
  /// The same, or 0 for null; a fallback of 0 stands for null.
  double getPositiveOrNull(const std::string &key, double fallback) const;
  /// A number of tokens, or 0 for null.
  int64_t getWindow(const std::string &key, int64_t fallback) const;
  /// With `geluIsTanh`, "gelu" names the form by tanh.
  std::string getActivation(const std::string &key, const std::string &fallback,
                            bool geluIsTanh = false) const;
  /// `total` / `parts`, which must divide.
  int64_t divide(const std::string &totalKey, int64_t total,
                 const std::string &partsKey, int64_t parts) const;
  /// A size computed from others, under the same limit.
  void checkSize(const std::string &what, double size) const;

  /// Tokens per sample. `tableRows` is the number of positions; where they are
  /// learned, there are no more.
  int64_t getSeqLen(int64_t tableRows, bool learned) const;

  /// Records that what the model computes depends on `key` having `value`. A
  /// configuration without the key means the same if `value` equals `fallback`,
  /// and one in which it is null if it equals `ofNull` (without: `fallback`).
  /// `same` are spellings that mean the same as `value`.
  struct Fact {
    llvm::json::Value value;
    std::optional<llvm::json::Value> fallback, ofNull;
    std::vector<std::string> same;
  };
  void record(const std::string &key, Fact fact) const;
  /// The same for a fact that may be under any of several paths; the first one
  /// that is present counts.
  void record(llvm::ArrayRef<std::string> paths, Fact fact) const;

  /// What the tools need to know of the model.
  struct Summary {
    llvm::StringRef architecture, objective;
    int64_t vocabSize, seqLen, hiddenSize, layers;
    /// Special tokens of the masked objective.
    SpecialTokens tokens = {};
    /// Activations overflow this number format; empty if they do not.
    std::optional<NumberFormat> unsafePrecision = {};
  };
  /// Ends the build; null if the model is absurdly large.
  mlir::OwningOpRef<mlir::ModuleOp>
  finish(ModelBuilder &builder, mlir::Value loss, const Summary &summary) const;

  bool isPacked() const { return options.packing; }
  double getNoiseAlpha() const { return options.noiseAlpha; }

  mlir::MLIRContext &context;
  llvm::StringRef file;

private:
  std::string formatFacts() const;

  json::Document &document;
  const ImportOptions &options;
  const Family &family;
  ImportSummary &summary;
  mutable llvm::json::Array facts;
};

/// What rotary embeddings depend on beside their keys.
struct RopeShape {
  int64_t headDim = 0, positions = 0, seqLen = 0;
  /// Where rope_theta is absent.
  double theta = 10000;
  /// In families where only a part of a head's columns is rotated: the part
  /// where partial_rotary_factor is absent.
  bool isPartial = false;
  double part = 1;
  /// Where a family has them outside the object: the original positions
  /// (LongRoPE), and other names of the two keys beside it.
  int64_t original = 0;
  /// Scaled by LongRoPE or not at all.
  bool onlyLongRope = false;
  /// Where layers differ: which ones (a key of rope_parameters), and whether
  /// rope_scaling is for them.
  const char *layerType = nullptr;
  bool hasScaling = true;
  /// Null where there is none beside the object.
  const char *thetaKey = "rope_theta";
  const char *partKey = "partial_rotary_factor";
  /// Pairs of columns lie beside each other.
  bool isInterleaved = false;
  /// Queries behind the original positions are scaled by more
  /// (llama_4_scaling_beta), so that no sequence may be longer.
  bool scalesFarQueries = false;
  /// Scaling by YaRN's mscale_all_dim is that of scores, too (DeepSeek).
  bool scalesScores = false;
  /// A constant stretches the base of dynamic scaling (`alpha`, Hunyuan).
  bool hasAlpha = false;
  /// The part that partial_rotary_factor must say, where that is known from
  /// elsewhere (Mistral 4); 0 where it is not.
  double knownPart = 0;
};

/// Rotary embeddings by the configuration's rope_theta and scaling.
Rope getRope(const Config &config, const RopeShape &shape);

/// The keys that getRope reads. Only some families rotate parts of heads.
llvm::ArrayRef<Key> getRopeKeys();
llvm::ArrayRef<Key> getPartialRopeKeys();
/// Where RopeShape::scalesFarQueries, where there is a knownPart, too, and
/// where RopeShape::hasAlpha.
llvm::ArrayRef<Key> getFarQueryRopeKeys();
llvm::ArrayRef<Key> getKnownPartRopeKeys();
llvm::ArrayRef<Key> getAlphaRopeKeys();
/// Where rope_parameters has an object for each type of layers.
llvm::ArrayRef<Key> getLayeredRopeKeys();

} // namespace poplar::import

#endif // POPLAR_LIB_IMPORT_CONFIG_H
