//===- CausalConv.cpp - Depthwise causal convolutions ---------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A part has sixteen channels, one a lane, of a sample, and goes through its
// tokens.
//
//===----------------------------------------------------------------------===//

#include "Poplar/Runtime/ABI.h"
#include "Poplar/Runtime/Recurrent.h"
#include "Vector.h"

using namespace poplar;

namespace {

static_assert(POPLAR_CONV_CHANNELS == kLanes, "a part is a vector of channels");

/// The channels of a part, which are not always a whole vector.
struct Channels {
  int64_t first, count, stride;
  bool isBF16;

  POPLAR_ALWAYS_INLINE Channels(const PoplarCausalConv *desc, int64_t group)
      : first(group * kLanes), stride(desc->channels),
        isBF16(desc->type == POPLAR_BF16) {
    int64_t rest = desc->channels - first;
    count = rest < kLanes ? rest : kLanes;
  }
  POPLAR_ALWAYS_INLINE Floats load(const void *array, int64_t row) const {
    int64_t at = row * stride + first;
    if (count == kLanes)
      return loadElements(array, isBF16, at);
    Floats value = Floats{};
    for (int64_t i = 0; i < count; ++i)
      value[i] = loadElement(array, isBF16, at + i);
    return value;
  }
  POPLAR_ALWAYS_INLINE void store(void *array, int64_t row,
                                  Floats value) const {
    int64_t at = row * stride + first;
    if (count == kLanes && !isBF16)
      return poplar::store(static_cast<float *>(array) + at, value);
    for (int64_t i = 0; i < count; ++i)
      storeElement(array, isBF16, at + i, value[i]);
  }
  /// The taps of filters [channels,width].
  POPLAR_ALWAYS_INLINE void loadTaps(const void *weight, int64_t width,
                                     Floats *taps) const {
    for (int64_t j = 0; j < width; ++j) {
      taps[j] = Floats{};
      for (int64_t i = 0; i < count; ++i)
        taps[j][i] = loadElement(weight, isBF16, (first + i) * width + j);
    }
  }
};

/// Where tokens of a sample are in their documents.
struct Places {
  const int32_t *positions;

  POPLAR_ALWAYS_INLINE Places(const PoplarCausalConv *desc,
                              const void *positions, int64_t sample)
      : positions(desc->tokens == POPLAR_ONE_DOCUMENT
                      ? nullptr
                      : static_cast<const int32_t *>(positions) +
                            sample * desc->seq_len) {}
  POPLAR_ALWAYS_INLINE int64_t at(int64_t token) const {
    return positions ? positions[token] : token;
  }
};

/// New tokens after those in the cache; the last may come several times.
POPLAR_INLINE void convolveNew(const PoplarCausalConv *desc, void *const *args,
                               int64_t sample, int64_t group) {
  const Channels channels(desc, group);
  const Places places(desc, args[2], sample);
  const int64_t before = desc->width - 1, x = sample * desc->seq_len,
                cache = sample * before;
  Floats taps[POPLAR_MAX_CONV_WIDTH];
  channels.loadTaps(args[1], desc->width, taps);
  int64_t known = 0;
  Floats sum = Floats{};
  for (int64_t t = 0; t < desc->seq_len; ++t) {
    if (t == 0 || places.at(t) != places.at(t - 1)) {
      sum = Floats{};
      for (int64_t back = 0; back <= before && back <= places.at(t); ++back) {
        int64_t from = known - back;
        Floats value = from >= 0
                           ? channels.load(args[0], x + from)
                           : channels.load(args[3], cache + before + from);
        sum += value * taps[before - back];
      }
      ++known;
    }
    channels.store(args[4], x + t, sum);
  }
  for (int64_t row = 0; row < before; ++row) {
    int64_t from = known - before + row;
    channels.store(args[3], cache + row,
                   from >= 0 ? channels.load(args[0], x + from)
                             : channels.load(args[3], cache + before + from));
  }
}

} // namespace

extern "C" void poplar_causal_conv(const PoplarCausalConv *desc,
                                   void *const *args, int64_t, int64_t begin,
                                   int64_t end) {
  const int64_t groups = (desc->channels + kLanes - 1) / kLanes;
  for (int64_t task = begin; task < end; ++task) {
    int64_t sample = task / groups, group = task % groups;
    if (desc->tokens == POPLAR_NEW_TOKENS) {
      convolveNew(desc, args, sample, group);
      continue;
    }
    const Channels channels(desc, group);
    const Places places(desc, args[2], sample);
    Floats taps[POPLAR_MAX_CONV_WIDTH];
    channels.loadTaps(args[1], desc->width, taps);
    for (int64_t t = 0; t < desc->seq_len; ++t) {
      Floats sum = Floats{};
      for (int64_t back = 0; back < desc->width && back <= places.at(t); ++back)
        sum += channels.load(args[0], sample * desc->seq_len + t - back) *
               taps[desc->width - 1 - back];
      channels.store(args[4], sample * desc->seq_len + t, sum);
    }
  }
}

extern "C" void poplar_causal_conv_grad(const PoplarCausalConv *desc,
                                        void *const *args, int64_t,
                                        int64_t begin, int64_t end) {
  const int64_t groups = (desc->channels + kLanes - 1) / kLanes;
  for (int64_t task = begin; task < end; ++task) {
    int64_t sample = task / groups;
    const Channels channels(desc, task % groups);
    const Places places(desc, args[2], sample);
    Floats taps[POPLAR_MAX_CONV_WIDTH];
    channels.loadTaps(args[1], desc->width, taps);
    for (int64_t t = 0; t < desc->seq_len; ++t) {
      Floats sum = Floats{};
      // Until the next document begins.
      for (int64_t ahead = 0;
           ahead < desc->width && t + ahead < desc->seq_len &&
           places.at(t + ahead) >= ahead;
           ++ahead)
        sum += channels.load(args[0], sample * desc->seq_len + t + ahead) *
               taps[desc->width - 1 - ahead];
      channels.store(args[3], sample * desc->seq_len + t, sum);
    }
  }
}

extern "C" void poplar_causal_conv_grad_weight(const PoplarCausalConv *desc,
                                               void *const *args, int64_t batch,
                                               int64_t begin, int64_t end) {
  auto *acc = static_cast<float *>(args[3]);
  for (int64_t group = begin; group < end; ++group) {
    const Channels channels(desc, group);
    Floats sums[POPLAR_MAX_CONV_WIDTH];
    for (int64_t j = 0; j < desc->width; ++j)
      sums[j] = Floats{};
    for (int64_t sample = 0; sample < batch; ++sample) {
      const Places places(desc, args[2], sample);
      for (int64_t t = 0; t < desc->seq_len; ++t) {
        int64_t row = sample * desc->seq_len + t;
        Floats dy = channels.load(args[0], row);
        for (int64_t back = 0; back < desc->width && back <= places.at(t);
             ++back)
          sums[desc->width - 1 - back] +=
              dy * channels.load(args[1], row - back);
      }
    }
    for (int64_t j = 0; j < desc->width; ++j)
      for (int64_t i = 0; i < channels.count; ++i)
        acc[(channels.first + i) * desc->width + j] += sums[j][i];
  }
}
