//===- Wire.cpp - Element types on the wire -------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/Wire.h"
#include "support/Error.h"
#include "support/NumberFormats.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace poplar::runtime;
using namespace poplar::runtime::comm;

const char *comm::getName(Type T) {
  constexpr const char *Names[] = {"f32", "bf16", "f16", "i8", "raw8", "raw64"};
  return Names[static_cast<int32_t>(T)];
}

/// Calls F with the trait of T.
template <typename Function> static void dispatch(Type T, Function F) {
  switch (T) {
  case Type::F32:
    return F(F32());
  case Type::BF16:
    return F(BF16());
  case Type::F16:
    return F(F16());
  case Type::I8:
  case Type::Raw8:
  case Type::Raw64:
    fail("there is no arithmetic on elements of type ", getName(T));
  }
}

/// Writes the integers of a block, and returns its scale.
static float encodeBlock(const float *In, int8_t *Out, int64_t Count) {
  // Magnitudes are in the order of their bits, and NaN is behind infinity.
  int32_t Largest = 0;
  for (int64_t I = 0; I < Count; ++I)
    Largest =
        std::max(Largest, static_cast<int32_t>(toBits(In[I]) & 0x7fffffff));
  float Magnitude = toFloat(static_cast<uint32_t>(Largest));
  bool IsFinite = Largest < 0x7f800000;
  if (!IsFinite || Magnitude < SmallestScaled) {
    std::memset(Out, 0, static_cast<size_t>(Count));
    return IsFinite ? 0.0f : NAN;
  }
  float Inverse = 127.0f / Magnitude;
  // Adding it leaves the integer, rounded by the FPU, in the lowest bits.
  constexpr float Rounder = 12582912.0f; // 1.5 * 2^23
  for (int64_t I = 0; I < Count; ++I)
    Out[I] = static_cast<int8_t>(toBits(In[I] * Inverse + Rounder));
  return Magnitude / 127.0f;
}

/// Calls F(scale, integers, first element, count) for the blocks of a message.
template <typename Function>
static void forEachBlock(const void *Message, int64_t Count, Function F) {
  int64_t Blocks = (Count + BlockElements - 1) / BlockElements;
  auto *Scales = static_cast<const char *>(Message);
  auto *Integers = reinterpret_cast<const int8_t *>(Scales + Blocks * 4);
  for (int64_t B = 0; B < Blocks; ++B) {
    float Scale;
    std::memcpy(&Scale, Scales + B * 4, sizeof Scale);
    int64_t First = B * BlockElements;
    F(Scale, Integers + First, First, std::min(BlockElements, Count - First));
  }
}

/// The same with Take(first element, count, place of the integers), which
/// returns the scale.
template <typename Function>
static void writeBlocks(void *Message, int64_t Count, Function Take) {
  int64_t Blocks = (Count + BlockElements - 1) / BlockElements;
  auto *Scales = static_cast<char *>(Message);
  auto *Integers = reinterpret_cast<int8_t *>(Scales + Blocks * 4);
  for (int64_t B = 0; B < Blocks; ++B) {
    int64_t First = B * BlockElements;
    float Scale =
        Take(First, std::min(BlockElements, Count - First), Integers + First);
    std::memcpy(Scales + B * 4, &Scale, sizeof Scale);
  }
}

static void encode(const void *Source, Type From, void *Message,
                   int64_t Count) {
  writeBlocks(Message, Count, [&](int64_t First, int64_t Block, int8_t *Out) {
    float Values[BlockElements];
    convert(static_cast<const char *>(Source) + First * getBytes(From), From,
            Values, Type::F32, Block);
    return encodeBlock(Values, Out, Block);
  });
}

static void decode(const void *Message, void *Destination, Type To,
                   int64_t Count) {
  forEachBlock(
      Message, Count,
      [&](float Scale, const int8_t *In, int64_t First, int64_t Block) {
        float Values[BlockElements];
        for (int64_t I = 0; I < Block; ++I)
          Values[I] = static_cast<float>(In[I]) * Scale;
        convert(Values, Type::F32,
                static_cast<char *>(Destination) + First * getBytes(To), To,
                Block);
      });
}

void comm::convert(const void *Source, Type From, void *Destination, Type To,
                   int64_t Count) {
  if (From == To) {
    // Nothing may lie nowhere, which memcpy does not like.
    if (Source != Destination && Count > 0)
      std::memcpy(Destination, Source,
                  static_cast<size_t>(getBytes(From, Count)));
    return;
  }
  if (To == Type::I8)
    return encode(Source, From, Destination, Count);
  if (From == Type::I8)
    return decode(Source, Destination, To, Count);
  dispatch(From, [&](auto FromTrait) {
    dispatch(To, [&](auto ToTrait) {
      using FromT = decltype(FromTrait);
      using ToT = decltype(ToTrait);
      auto *In = static_cast<const typename FromT::Storage *>(Source);
      auto *Out = static_cast<typename ToT::Storage *>(Destination);
      for (int64_t I = 0; I < Count; ++I)
        Out[I] = ToT::narrow(FromT::widen(In[I]));
    });
  });
}

void comm::accumulate(float *Sum, const void *Source, Type From,
                      int64_t Count) {
  if (From == Type::I8)
    return forEachBlock(
        Source, Count,
        [&](float Scale, const int8_t *In, int64_t First, int64_t Block) {
          for (int64_t I = 0; I < Block; ++I)
            Sum[First + I] += static_cast<float>(In[I]) * Scale;
        });
  dispatch(From, [&](auto Trait) {
    using T = decltype(Trait);
    auto *In = static_cast<const typename T::Storage *>(Source);
    for (int64_t I = 0; I < Count; ++I)
      Sum[I] += T::widen(In[I]);
  });
}

void comm::addRounded(float *Sum, const float *Source, Type Wire, int64_t Count,
                      bool Overwrite) {
  dispatch(Wire, [&](auto Trait) {
    using T = decltype(Trait);
    for (int64_t I = 0; I < Count; ++I) {
      float Rounded = T::widen(T::narrow(Source[I]));
      Sum[I] = Overwrite ? Rounded : Sum[I] + Rounded;
    }
  });
}

void comm::roundTo(float *Values, Type Wire, int64_t Count) {
  if (Wire == Type::F32)
    return;
  if (Wire == Type::I8) {
    char Message[BlockElements + 4];
    for (int64_t First = 0; First < Count; First += BlockElements) {
      int64_t Block = std::min(BlockElements, Count - First);
      convert(Values + First, Type::F32, Message, Wire, Block);
      convert(Message, Wire, Values + First, Type::F32, Block);
    }
    return;
  }
  dispatch(Wire, [&](auto Trait) {
    using T = decltype(Trait);
    for (int64_t I = 0; I < Count; ++I)
      Values[I] = T::widen(T::narrow(Values[I]));
  });
}

/// Puts a message of one block, of elements [First, First + Block), into that
/// of `Count` elements.
static void putBlock(const char *Message, void *Whole, Type Wire, int64_t First,
                     int64_t Block, int64_t Count) {
  auto *To = static_cast<char *>(Whole);
  if (Wire == Type::I8) {
    std::memcpy(To + First / BlockElements * 4, Message, 4);
    To += (Count + BlockElements - 1) / BlockElements * 4;
    Message += 4;
  }
  std::memcpy(To + First * getBytes(Wire), Message,
              static_cast<size_t>(Block * getBytes(Wire)));
}

void comm::convertWithFeedback(const float *Source, float *Residual,
                               void *Destination, Type Wire, int64_t Count) {
  float Values[BlockElements], Carried[BlockElements];
  char Message[4 * BlockElements + 4];
  for (int64_t First = 0; First < Count; First += BlockElements) {
    int64_t Block = std::min(BlockElements, Count - First);
    for (int64_t I = 0; I < Block; ++I)
      Values[I] = Source[First + I] + Residual[First + I];
    convert(Values, Type::F32, Message, Wire, Block);
    convert(Message, Wire, Carried, Type::F32, Block);
    for (int64_t I = 0; I < Block; ++I) {
      float Lost = Values[I] - Carried[I];
      Residual[First + I] = std::isfinite(Lost) ? Lost : 0.0f;
    }
    putBlock(Message, Destination, Wire, First, Block, Count);
  }
}
