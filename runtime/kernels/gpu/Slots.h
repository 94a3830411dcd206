//===- Slots.h - The tokens of an expert, on a GPU --------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A slot is one of the experts of a token that a launch takes. A block works
// for one expert: its warps look for the expert's slots, each in a part of
// their own of all slots, and put them into one list in the order of the warps.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_KERNELS_GPU_SLOTS_H
#define POPLAR_RUNTIME_KERNELS_GPU_SLOTS_H

#include "GPU.h"
#include "Poplar/Runtime/Experts.h"

namespace poplar {

using SharedInt = __attribute__((address_space(3))) int32_t;

constexpr int32_t kExpertWarps = POPLAR_GPU_EXPERT_WARPS,
                  kExpertThreads = kExpertWarps * kWarp;
/// Slots that a warp finds at most before they are worked on.
constexpr int32_t kSlotsOfWarp = 192;

struct SlotMemory {
  int32_t counts[kExpertWarps], found[kExpertWarps * kSlotsOfWarp],
      all[kExpertWarps * kSlotsOfWarp];
};
using SharedSlots = __attribute__((address_space(3))) SlotMemory;

POPLAR_INLINE int32_t expertThread() { return threadY() * kWarp + threadX(); }

/// The slots of one expert, some at a time.
class Slots {
public:
  POPLAR_INLINE Slots(const PoplarGPUExperts *desc, const void *experts,
                      int64_t batch, int32_t expert, SharedSlots *memory)
      : experts(static_cast<const int32_t *>(experts)), expert(expert),
        topK(int32_t(desc->shapes.top_k)), taken(desc->taken), memory(memory) {
    int32_t slots = int32_t(batch * desc->shapes.seq_len) * taken;
    int32_t part = (slots + kExpertThreads - 1) / kExpertThreads * kWarp;
    next = threadY() * part;
    end = next + part < slots ? next + part : slots;
  }

  /// All threads of a block look for the next slots. Returns how many there
  /// are, 0 if there are no more.
  POPLAR_INLINE int32_t gather() {
    constexpr int32_t kAhead = 4;
    int32_t warp = threadY(), lane = threadX(), own = 0;
    SharedInt *found = memory->found + warp * kSlotsOfWarp;
    while (next < end && own + kAhead * kWarp <= kSlotsOfWarp) {
      int32_t chosen[kAhead];
#pragma clang loop unroll(full)
      for (int32_t i = 0; i < kAhead; ++i) {
        int32_t slot = next + i * kWarp + lane;
        chosen[i] = slot < end ? experts[getPlace(slot)] : -1;
      }
#pragma clang loop unroll(full)
      for (int32_t i = 0; i < kAhead; ++i) {
        uint32_t lanes = ballot(chosen[i] == expert);
        if (chosen[i] == expert)
          found[own + countBits(lanes & ((1u << lane) - 1))] =
              next + i * kWarp + lane;
        own += countBits(lanes);
      }
      next += kAhead * kWarp;
    }
    if (lane == 0)
      memory->counts[warp] = own;
    // Nor does anyone read the list of before any more.
    barrier();
    int32_t before = 0, count = 0;
#pragma clang loop unroll(full)
    for (int32_t other = 0; other < kExpertWarps; ++other) {
      before += other < warp ? memory->counts[other] : 0;
      count += memory->counts[other];
    }
    for (int32_t i = lane; i < own; i += kWarp)
      memory->all[before + i] = found[i];
    barrier();
    return count;
  }

  /// A slot of those that were gathered.
  POPLAR_INLINE int32_t operator[](int32_t index) const {
    return memory->all[index];
  }

private:
  POPLAR_INLINE int32_t getPlace(int32_t slot) const {
    return slot / taken * topK + slot % taken;
  }

  const int32_t *experts;
  int32_t expert, topK, taken, next, end;
  SharedSlots *memory;
};

/// Rows of slots in an array [B,T,columns] or [B,T,top_k * columns].
struct SlotRows {
  void *array;
  int32_t type, taken, topK;
  bool isOwn;
  int64_t columns;

  POPLAR_INLINE int64_t at(int32_t slot) const {
    int32_t token = slot / taken;
    return (isOwn ? token * int64_t(topK) + slot % taken : token) * columns;
  }
};

POPLAR_INLINE SlotRows getRows(const PoplarGPUExperts *desc, void *array,
                               int32_t isOwn, int64_t columns) {
  const PoplarExperts &shapes = desc->shapes;
  return {array,      shapes.type, desc->taken, int32_t(shapes.top_k),
          isOwn != 0, columns};
}
POPLAR_INLINE SlotRows getInputs(const PoplarGPUExperts *desc, void *array) {
  return getRows(desc, array, desc->shapes.own_inputs, desc->shapes.inputs);
}
POPLAR_INLINE SlotRows getOutputs(const PoplarGPUExperts *desc, void *array) {
  return getRows(desc, array, desc->shapes.own_outputs, desc->shapes.outputs);
}

/// What a block works on: tiles of `Size` columns or rows of one expert after
/// those of another.
template <int32_t Size> struct ExpertTile {
  int32_t expert;
  int64_t first;

  POPLAR_INLINE explicit ExpertTile(int64_t size) {
    int64_t tiles = (size + Size - 1) / Size;
    expert = int32_t(blockX() / tiles);
    first = blockX() % tiles * Size;
  }
};

} // namespace poplar

#endif // POPLAR_RUNTIME_KERNELS_GPU_SLOTS_H
