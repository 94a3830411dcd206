//===- Mixture.h - Families with mixtures of experts ------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_IMPORT_MIXTURE_H
#define POPLAR_LIB_IMPORT_MIXTURE_H

#include "Decoder.h"

namespace poplar::import {

/// A token goes to no more experts than there are, under `key`.
void checkExperts(const Config &config, const char *key,
                  const Mixture &mixture);

/// How many experts there are, under `key`, and how many a token goes to.
void readExperts(const Config &config, const char *key, int64_t experts,
                 int64_t perToken, Mixture &mixture);

/// Makes layers mixtures: every `decoder_sparse_step`-th, except for those that
/// `mlp_only_layers` lists. What else they are is set before.
void setSparseLayers(const Config &config, Decoder &family);

/// What DeepSeek's families have where keys are absent.
struct DeepSeekMixture {
  int64_t inner, experts;
  /// 0: their keys cannot be absent.
  int64_t perToken;
  int64_t shared;
};
/// Experts beside some for all tokens.
void readDeepSeekMixture(const Config &config, const DeepSeekMixture &absent,
                         Mixture &mixture);
std::vector<Key> getDeepSeekMixtureKeys();

/// The router of DeepSeek-V3 among as many groups: scores are sigmoids, with a
/// bias where they are compared.
void readSigmoidRouter(const Config &config, int64_t groups, int64_t topGroups,
                       Mixture &mixture);
std::vector<Key> getSigmoidRouterKeys();

/// The first layers have feed-forward layers, the others mixtures. What else
/// they are is set before.
void setDenseLayers(const Config &config, const char *key, int64_t absent,
                    Decoder &family);

/// The keys of decoders, after those of a family and of all mixtures.
std::vector<Key> makeMixtureKeys(std::vector<Key> table,
                                 llvm::ArrayRef<Key> rope = getRopeKeys());

} // namespace poplar::import

#endif // POPLAR_LIB_IMPORT_MIXTURE_H
