//===- ABILayout.h - Fields of the structs of Runtime/ABI.h -----*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Constants of generated programs are made field by field, by name. That the
// lists below are those of the header, with nothing left out and nothing
// between, is checked when the compiler is compiled; that each constant has its
// field's size and place, when it is made.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_TARGET_ABILAYOUT_H
#define POPLAR_LIB_TARGET_ABILAYOUT_H

#include "Poplar/Runtime/ABI.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <cstddef>

namespace llvm {
class Constant;
class DataLayout;
} // namespace llvm

namespace poplar {

struct ABIField {
  const char *name;
  size_t offset, size;
};

/// Whether the fields fill a struct of `size` bytes, in this order.
template <size_t N>
constexpr bool fillStruct(const ABIField (&fields)[N], size_t size) {
  size_t end = 0;
  for (const ABIField &field : fields) {
    if (field.offset != end)
      return false;
    end += field.size;
  }
  return end == size;
}

#define POPLAR_FIELD(T, F)                                                     \
  ABIField { #F, offsetof(T, F), sizeof(T::F) }

inline constexpr ABIField sliceFields[] = {
    POPLAR_FIELD(PoplarSlice, tensor),     POPLAR_FIELD(PoplarSlice, rank),
    POPLAR_FIELD(PoplarSlice, shape),      POPLAR_FIELD(PoplarSlice, dim),
    POPLAR_FIELD(PoplarSlice, num_ranges), POPLAR_FIELD(PoplarSlice, ranges)};
static_assert(fillStruct(sliceFields, sizeof(PoplarSlice)));

inline constexpr ABIField parameterFields[] = {
    POPLAR_FIELD(PoplarParameter, name),
    POPLAR_FIELD(PoplarParameter, rank),
    POPLAR_FIELD(PoplarParameter, shape),
    POPLAR_FIELD(PoplarParameter, elements),
    POPLAR_FIELD(PoplarParameter, bucket),
    POPLAR_FIELD(PoplarParameter, offset),
    POPLAR_FIELD(PoplarParameter, init),
    POPLAR_FIELD(PoplarParameter, decay),
    POPLAR_FIELD(PoplarParameter, std_dev),
    POPLAR_FIELD(PoplarParameter, slice),
    POPLAR_FIELD(PoplarParameter, quantized),
    POPLAR_FIELD(PoplarParameter, reserved)};
static_assert(fillStruct(parameterFields, sizeof(PoplarParameter)));

inline constexpr ABIField bucketFields[] = {
    POPLAR_FIELD(PoplarBucket, name),
    POPLAR_FIELD(PoplarBucket, elements),
    POPLAR_FIELD(PoplarBucket, working),
    POPLAR_FIELD(PoplarBucket, gradient),
    POPLAR_FIELD(PoplarBucket, bounds),
    POPLAR_FIELD(PoplarBucket, stage),
    POPLAR_FIELD(PoplarBucket, num_ranks),
    POPLAR_FIELD(PoplarBucket, ranks),
    POPLAR_FIELD(PoplarBucket, frozen),
    POPLAR_FIELD(PoplarBucket, quantized),
    POPLAR_FIELD(PoplarBucket, residuals),
    POPLAR_FIELD(PoplarBucket, own_master)};
static_assert(fillStruct(bucketFields, sizeof(PoplarBucket)));

inline constexpr ABIField linkFields[] = {POPLAR_FIELD(PoplarLink, rank),
                                          POPLAR_FIELD(PoplarLink, first),
                                          POPLAR_FIELD(PoplarLink, count)};
static_assert(fillStruct(linkFields, sizeof(PoplarLink)));

inline constexpr ABIField rankFields[] = {
    POPLAR_FIELD(PoplarRank, device_type),
    POPLAR_FIELD(PoplarRank, node),
    POPLAR_FIELD(PoplarRank, micro_batch),
    POPLAR_FIELD(PoplarRank, steps),
    POPLAR_FIELD(PoplarRank, last),
    POPLAR_FIELD(PoplarRank, threads),
    POPLAR_FIELD(PoplarRank, group),
    POPLAR_FIELD(PoplarRank, num_previous),
    POPLAR_FIELD(PoplarRank, num_next),
    POPLAR_FIELD(PoplarRank, previous),
    POPLAR_FIELD(PoplarRank, next),
    POPLAR_FIELD(PoplarRank, num_sharers),
    POPLAR_FIELD(PoplarRank, sharers),
    POPLAR_FIELD(PoplarRank, position),
    POPLAR_FIELD(PoplarRank, in_flight),
    POPLAR_FIELD(PoplarRank, turns),
    POPLAR_FIELD(PoplarRank, chunks)};
static_assert(fillStruct(rankFields, sizeof(PoplarRank)));

inline constexpr ABIField gpuKernelFields[] = {
    POPLAR_FIELD(PoplarGPUKernel, name),
    POPLAR_FIELD(PoplarGPUKernel, block),
    POPLAR_FIELD(PoplarGPUKernel, pointers),
    POPLAR_FIELD(PoplarGPUKernel, parts_per_block),
    POPLAR_FIELD(PoplarGPUKernel, bytes),
    POPLAR_FIELD(PoplarGPUKernel, bytes_per_sample),
    POPLAR_FIELD(PoplarGPUKernel, flops_per_sample)};
static_assert(fillStruct(gpuKernelFields, sizeof(PoplarGPUKernel)));

inline constexpr ABIField gpuImageFields[] = {
    POPLAR_FIELD(PoplarGPUImage, chip),
    POPLAR_FIELD(PoplarGPUImage, ptx),
    POPLAR_FIELD(PoplarGPUImage, cubin),
    POPLAR_FIELD(PoplarGPUImage, num_kernels),
    POPLAR_FIELD(PoplarGPUImage, kernels),
    POPLAR_FIELD(PoplarGPUImage, adamw),
    POPLAR_FIELD(PoplarGPUImage, convert_working)};
static_assert(fillStruct(gpuImageFields, sizeof(PoplarGPUImage)));

inline constexpr ABIField chunkFields[] = {
    POPLAR_FIELD(PoplarChunk, slot_bytes),
    POPLAR_FIELD(PoplarChunk, message_bytes),
    POPLAR_FIELD(PoplarChunk, keeps_sent),
    POPLAR_FIELD(PoplarChunk, forward),
    POPLAR_FIELD(PoplarChunk, backward),
    POPLAR_FIELD(PoplarChunk, backward_last),
    POPLAR_FIELD(PoplarChunk, evaluate),
    POPLAR_FIELD(PoplarChunk, infer),
    POPLAR_FIELD(PoplarChunk, decode),
    POPLAR_FIELD(PoplarChunk, prefill)};
static_assert(fillStruct(chunkFields, sizeof(PoplarChunk)));

inline constexpr ABIField pipelineFields[] = {
    POPLAR_FIELD(PoplarPipeline, group),
    POPLAR_FIELD(PoplarPipeline, num_groups),
    POPLAR_FIELD(PoplarPipeline, num_chunks),
    POPLAR_FIELD(PoplarPipeline, chunks)};
static_assert(fillStruct(pipelineFields, sizeof(PoplarPipeline)));

inline constexpr ABIField decodingFields[] = {
    POPLAR_FIELD(PoplarDecoding, tokens), POPLAR_FIELD(PoplarDecoding, ids),
    POPLAR_FIELD(PoplarDecoding, positions),
    POPLAR_FIELD(PoplarDecoding, logits), POPLAR_FIELD(PoplarDecoding, run)};
static_assert(fillStruct(decodingFields, sizeof(PoplarDecoding)));

inline constexpr ABIField programFields[] = {
    POPLAR_FIELD(PoplarProgram, magic),
    POPLAR_FIELD(PoplarProgram, version),
    POPLAR_FIELD(PoplarProgram, description),
    POPLAR_FIELD(PoplarProgram, plan_hash),
    POPLAR_FIELD(PoplarProgram, stage),
    POPLAR_FIELD(PoplarProgram, world_size),
    POPLAR_FIELD(PoplarProgram, ranks),
    POPLAR_FIELD(PoplarProgram, fixed_bytes),
    POPLAR_FIELD(PoplarProgram, bytes_per_sample),
    POPLAR_FIELD(PoplarProgram, scratch_offset),
    POPLAR_FIELD(PoplarProgram, scratch_bytes),
    POPLAR_FIELD(PoplarProgram, ids),
    POPLAR_FIELD(PoplarProgram, targets),
    POPLAR_FIELD(PoplarProgram, keys),
    POPLAR_FIELD(PoplarProgram, positions),
    POPLAR_FIELD(PoplarProgram, dloss),
    POPLAR_FIELD(PoplarProgram, train_loss),
    POPLAR_FIELD(PoplarProgram, train_last_loss),
    POPLAR_FIELD(PoplarProgram, evaluate_loss),
    POPLAR_FIELD(PoplarProgram, logits),
    POPLAR_FIELD(PoplarProgram, logits_type),
    POPLAR_FIELD(PoplarProgram, reserved),
    POPLAR_FIELD(PoplarProgram, num_parameters),
    POPLAR_FIELD(PoplarProgram, parameters),
    POPLAR_FIELD(PoplarProgram, num_buckets),
    POPLAR_FIELD(PoplarProgram, buckets),
    POPLAR_FIELD(PoplarProgram, working_type),
    POPLAR_FIELD(PoplarProgram, num_collectives),
    POPLAR_FIELD(PoplarProgram, num_gemms),
    POPLAR_FIELD(PoplarProgram, gemms),
    POPLAR_FIELD(PoplarProgram, num_decoding_gemms),
    POPLAR_FIELD(PoplarProgram, decoding_gemms),
    POPLAR_FIELD(PoplarProgram, flops_per_sample),
    POPLAR_FIELD(PoplarProgram, train),
    POPLAR_FIELD(PoplarProgram, train_last),
    POPLAR_FIELD(PoplarProgram, update),
    POPLAR_FIELD(PoplarProgram, evaluate),
    POPLAR_FIELD(PoplarProgram, infer),
    POPLAR_FIELD(PoplarProgram, adamw),
    POPLAR_FIELD(PoplarProgram, convert_working),
    POPLAR_FIELD(PoplarProgram, gpu),
    POPLAR_FIELD(PoplarProgram, pipeline),
    POPLAR_FIELD(PoplarProgram, decode),
    POPLAR_FIELD(PoplarProgram, prefill),
    POPLAR_FIELD(PoplarProgram, sampling_bytes_per_sample)};
static_assert(fillStruct(programFields, sizeof(PoplarProgram)));

#undef POPLAR_FIELD

/// A constant of a struct, field by field. Ends the process, with the name of
/// the field, on a mistake of the caller's: a field that there is not, is set
/// twice or not at all, or whose constant has another size.
class ABIConstant {
public:
  ABIConstant(llvm::ArrayRef<ABIField> fields, const llvm::DataLayout &layout)
      : fields(fields), layout(layout), values(fields.size()) {}

  ABIConstant &set(llvm::StringRef name, llvm::Constant *value);
  llvm::Constant *get() const;

private:
  llvm::ArrayRef<ABIField> fields;
  const llvm::DataLayout &layout;
  llvm::SmallVector<llvm::Constant *> values;
};

} // namespace poplar

#endif // POPLAR_LIB_TARGET_ABILAYOUT_H
