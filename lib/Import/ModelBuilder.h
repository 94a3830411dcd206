//===- ModelBuilder.h - Builds modules of units -----------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_IMPORT_MODELBUILDER_H
#define POPLAR_LIB_IMPORT_MODELBUILDER_H

#include "Poplar/Dialect/NN/NN.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include <optional>

namespace poplar::import {

/// How a parameter starts and whether AdamW decays it.
struct Init {
  nn::InitKind kind;
  double stdDev = 0;
  bool decay = false;

  /// Matrices and embeddings decay, norms and biases do not.
  static Init normal(double stdDev) {
    return {nn::InitKind::Normal, stdDev, true};
  }
  static Init zeros() { return {nn::InitKind::Zeros}; }
  static Init ones() { return {nn::InitKind::Ones}; }
  static Init logUniform() { return {nn::InitKind::LogUniform}; }
};

/// Rotary embeddings: inv_freq, for all columns of a head or for its first
/// ones, and what the rotated columns are multiplied by. Pairs are of columns
/// that lie beside each other, or half of the rotated columns apart. All scores
/// have the factor `scoreScale`.
struct Rope {
  std::vector<double> frequencies;
  double scale = 1, scoreScale = 1;
  bool isInterleaved = false;
};

/// A function under construction. Its helpers name parameters relative to the
/// prefix of each call (`self_attn.q_proj.weight`); ops take the name of the
/// module they come from as their location.
class Unit {
public:
  mlir::Value getInput(unsigned index) { return body->getArgument(index); }

  /// The argument that carries a parameter.
  mlir::Value parameter(llvm::StringRef name, llvm::ArrayRef<int64_t> shape,
                        Init init);

  /// `<name>.weight` [out,in] (or [in,out]) and, if asked, `<name>.bias`, or a
  /// bias of another name.
  mlir::Value linear(llvm::StringRef name, mlir::Value x, int64_t outputs,
                     double stdDev, bool bias,
                     nn::WeightLayout layout = nn::WeightLayout::OutIn,
                     llvm::StringRef biasName = "");
  mlir::Value embedding(llvm::StringRef name, mlir::Value ids, int64_t rows,
                        int64_t width, double stdDev,
                        std::optional<int64_t> paddingIdx = std::nullopt);
  mlir::Value positionEmbedding(llvm::StringRef name, mlir::Value x,
                                int64_t rows, double stdDev, bool constantRow);
  /// `offset` is added to the weight.
  mlir::Value layerNorm(llvm::StringRef name, mlir::Value x, double eps,
                        double offset = 0, bool bias = true);
  /// Normalises the rows of x, or each of their `heads`; `offset` is added to
  /// the weight.
  mlir::Value rmsNorm(llvm::StringRef name, mlir::Value x, double eps,
                      int64_t heads = 1, double offset = 0);
  /// Rotates the first `heads` heads of x; all if that is 0.
  mlir::Value rope(llvm::StringRef name, mlir::Value x, int64_t headDim,
                   const Rope &rope, int64_t heads = 0);
  /// x itself if the factor is 1, or the cap 0.
  mlir::Value scale(llvm::StringRef name, mlir::Value x, double factor);
  mlir::Value softcap(llvm::StringRef name, mlir::Value x, double cap);
  /// Columns [offset, offset + width).
  mlir::Value slice(llvm::StringRef name, mlir::Value x, int64_t offset,
                    int64_t width);
  /// Groups of parts to parts of groups.
  mlir::Value regroup(llvm::StringRef name, mlir::Value x, int64_t groups,
                      int64_t parts);
  mlir::Value regroupParts(llvm::StringRef name, mlir::Value x, int64_t groups,
                           llvm::ArrayRef<int64_t> widths,
                           bool inverse = false);
  /// `key` and `value` are null when `query` is packed.
  struct Attention {
    int64_t heads, kvHeads, headDim;
    double scale;
    bool causal;
    int64_t window = 0;
    double dropout = 0;
    /// A soft cap of the scores; 0 for none.
    double cap = 0;
    /// The deviation of `<name>.sinks` [heads], where there are sinks.
    std::optional<double> sinks;
  };
  mlir::Value attention(llvm::StringRef name, mlir::Value query,
                        mlir::Value key, mlir::Value value,
                        const Attention &shape);
  /// By the name that configurations use, one of `getActivations()`.
  mlir::Value activation(llvm::StringRef name, mlir::Value x);
  mlir::Value add(mlir::Value a, mlir::Value b);
  mlir::Value multiply(mlir::Value a, mlir::Value b);
  /// x itself if p is zero.
  mlir::Value dropout(llvm::StringRef name, mlir::Value x, double p);
  /// x with noise as NEFTune adds it to embeddings; x itself if alpha is zero.
  mlir::Value noise(llvm::StringRef name, mlir::Value x, double alpha);
  mlir::Value crossEntropy(mlir::Value logits, mlir::Value targets);

  /// The experts of each token, and their scores.
  struct Route {
    mlir::Value scores, experts;
  };
  /// How they are chosen, as nn.route has it; `bias` is the name of what is
  /// added to the scores that are compared, empty for none.
  struct Choice {
    int64_t topK = 0, groups = 1, topGroups = 1;
    bool sigmoid = false, normalized = true;
    std::string bias;
  };
  Route route(llvm::StringRef name, mlir::Value logits, const Choice &choice);
  /// `<name>.<e>.<leaf>.weight` [outputs, inputs] of each expert e, and a
  /// result of `width` columns.
  struct Experts {
    int64_t count, outputs, inputs, width;
  };
  mlir::Value expertLinear(llvm::StringRef name, llvm::StringRef leaf,
                           mlir::Value x, mlir::Value experts,
                           const Experts &shape, double stdDev);
  /// The same with `<name>` [count, inputs, outputs], the weights of all.
  mlir::Value stackedLinear(llvm::StringRef name, mlir::Value x,
                            mlir::Value experts, const Experts &shape,
                            double stdDev);
  /// `<name>_bias` [count, outputs] in the rows of their experts; and the sum
  /// of those of a token's experts, weighed by their scores.
  mlir::Value expertBias(llvm::StringRef name, mlir::Value x,
                         mlir::Value experts, int64_t count);
  mlir::Value weighedBias(llvm::StringRef name, const Route &route,
                          int64_t count, int64_t outputs);
  mlir::Value clampedGlu(llvm::StringRef name, mlir::Value x, double alpha,
                         double limit);
  mlir::Value weigh(llvm::StringRef name, mlir::Value x, mlir::Value scores);
  /// Columns of x, of y where it is not null, and zeros up to `width`.
  mlir::Value join(llvm::StringRef name, mlir::Value x, mlir::Value y,
                   int64_t width);
  /// What balances experts: the sums of a layer more, and the loss with them.
  mlir::Value countExperts(llvm::StringRef name, mlir::Value sums,
                           mlir::Value logits, mlir::Value experts);
  mlir::Value balanceLoss(mlir::Value loss, mlir::Value targets,
                          mlir::Value sums, double factor);
  /// The sigmoid of a logit for each token.
  mlir::Value score(llvm::StringRef name, mlir::Value logits);

  mlir::Value sigmoid(llvm::StringRef name, mlir::Value x);
  /// `<name>.weight` [C,1,width], for x [B,T,C].
  mlir::Value causalConv(llvm::StringRef name, mlir::Value x, int64_t width,
                         double stdDev);
  /// `<name>.A_log` and `<name>.dt_bias` [valueHeads]; x, a and b as in
  /// nn.gated_delta.
  struct GatedDelta {
    int64_t keyHeads, valueHeads, keyDim, valueDim;
  };
  mlir::Value gatedDelta(llvm::StringRef name, mlir::Value x, mlir::Value a,
                         mlir::Value b, const GatedDelta &shape);

private:
  friend class ModelBuilder;
  struct Parameter {
    std::string name;
    mlir::RankedTensorType type;
    Init init;
  };
  Unit(mlir::OpBuilder builder, mlir::Location location)
      : builder(builder), location(location) {}
  mlir::Location at(llvm::StringRef name);
  mlir::Type withWidth(mlir::Value x, int64_t width);
  mlir::RankedTensorType perToken(mlir::Value x);

  mlir::func::FuncOp function;
  mlir::Block *body = nullptr;
  mlir::Value keys;
  /// Positions of tokens in their documents, where these share samples.
  mlir::Value positions;
  mlir::OpBuilder builder;
  mlir::Location location;
  std::vector<Parameter> parameters;
  /// Distinguishes the random draws of one call.
  int64_t nextOpId = 0;
};

/// Names that `Unit::activation` knows, separated by commas.
llvm::StringRef getActivations();
bool isActivation(llvm::StringRef name);
/// Other names of the same function.
std::vector<std::string> getSameActivations(llvm::StringRef name);

/// Builds `@model` and what it calls: units first, then their calls in order.
class ModelBuilder {
public:
  ModelBuilder(mlir::MLIRContext &context, llvm::StringRef file, int64_t seqLen,
               bool isPacked);

  /// Defines @name(inputs..., positions if it locates tokens and the model is
  /// packed, keys if it draws, parameters...). `build` returns the unit's
  /// result.
  Unit &define(llvm::StringRef name, llvm::ArrayRef<mlir::Type> inputs,
               bool draws, llvm::function_ref<mlir::Value(Unit &)> build,
               bool locates = false);

  /// Defines @loss(logits, targets), the cross entropy per token.
  Unit &defineLoss(int64_t vocabSize);

  /// Calls a unit from @model; its parameters are named prefix + name and are
  /// created when first met, so that equal names are one (tied) parameter.
  mlir::Value call(Unit &unit, mlir::ValueRange inputs,
                   llvm::StringRef prefix = "");

  mlir::Value getIds() { return model.getArgument(0); }
  mlir::Value getTargets() { return model.getArgument(1); }
  mlir::Type getIdsType() { return getIds().getType(); }
  mlir::Type getActivationType(int64_t width);
  double getNumElements() const { return numElements; }

  mlir::OwningOpRef<mlir::ModuleOp> finish(mlir::Value loss,
                                           const nn::Model &facts);

private:
  mlir::Value getParameter(const Unit::Parameter &parameter,
                           llvm::StringRef prefix);

  mlir::OpBuilder builder;
  mlir::Location location;
  int64_t seqLen;
  bool isPacked;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::func::FuncOp model;
  mlir::Operation *lastParameter = nullptr;
  llvm::StringMap<mlir::Value> parameterValues;
  std::vector<std::unique_ptr<Unit>> units;
  double numElements = 0;
  int64_t numCalls = 0;
};

} // namespace poplar::import

#endif // POPLAR_LIB_IMPORT_MODELBUILDER_H
