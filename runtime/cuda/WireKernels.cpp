//===- WireKernels.cpp - Types of elements, on a GPU ----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cuda/WireKernels.h"
#include "Poplar/Runtime/ABI.h"
#include "Poplar/Runtime/QuantizedMaps.h"
#include "kernels/gpu/WireSums.h"
#include "program/Quantized.h"
#include "support/Error.h"

#include <algorithm>
#include <vector>

using namespace poplar::runtime;
using namespace poplar::runtime::cuda;
using comm::Type;

/// kernels/gpu/Wire.cpp, compiled.
static const char PTX[] =
#include "Wire.ptx.inc"
    ;

WireKernels::WireKernels() {
  const Driver &D = Driver::get();
  check(D.cuModuleLoadDataEx(&Loaded, PTX, 0, nullptr, nullptr),
        "compile the kernels of collectives");
  check(D.cuModuleGetFunction(&Convert, Loaded, "poplar_wire_convert"),
        "find a kernel of collectives");
  check(D.cuModuleGetFunction(&Add, Loaded, "poplar_wire_add"),
        "find a kernel of collectives");
  check(D.cuModuleGetFunction(&Epilogues, Loaded, "poplar_wire_epilogue"),
        "find a kernel for products");
  check(D.cuModuleGetFunction(&PartialSums, Loaded, "poplar_wire_partial_sums"),
        "find a kernel for products");
  check(D.cuModuleGetFunction(&AddPartials, Loaded, "poplar_wire_add_partials"),
        "find a kernel for products");
  check(D.cuModuleGetFunction(&Dequantize, Loaded, "poplar_wire_dequantize"),
        "find a kernel for products");
  check(D.cuModuleGetFunction(&RoundRows, Loaded, "poplar_wire_round_rows"),
        "find a kernel for products");
  check(
      D.cuModuleGetFunction(&RoundColumns, Loaded, "poplar_wire_round_columns"),
      "find a kernel for products");
  check(D.cuModuleGetFunction(&WidenStates, Loaded, "poplar_wire_widen_states"),
        "find a kernel for optimizer states");
  check(D.cuModuleGetFunction(&RoundStates, Loaded, "poplar_wire_round_states"),
        "find a kernel for optimizer states");
  check(
      D.cuModuleGetFunction(&RoundStates4, Loaded, "poplar_wire_round_states4"),
      "find a kernel for optimizer states");
}

WireKernels::~WireKernels() { Driver::get().cuModuleUnload(Loaded); }

/// Arguments of eight bytes each.
template <size_t N>
static void launchBlocks(Function F, void *(&Arguments)[N], int64_t Blocks,
                         Stream Queue) {
  if (Blocks > INT32_MAX)
    fail("a kernel of ", Blocks, " blocks is more than a GPU starts");
  check(Driver::get().cuLaunchKernel(F, static_cast<unsigned>(Blocks), 1, 1,
                                     POPLAR_GPU_FLAT_THREADS, 1, 1, 0, Queue,
                                     Arguments, nullptr),
        "start a kernel");
}

/// The last argument is the count.
template <size_t N>
static void launch(Function F, void *(&Arguments)[N], int64_t Count,
                   Stream Queue) {
  launchBlocks(F, Arguments, (Count - 1) / POPLAR_GPU_FLAT_THREADS + 1, Queue);
}

void WireKernels::convert(const void *Source, Type From, Type Wire,
                          void *Target, Type To, int64_t Count,
                          Stream Queue) const {
  if (Count == 0 || (Source == Target && From == To && Wire == From))
    return;
  if (From == To && Wire == From)
    return check(Driver::get().cuMemcpyDtoDAsync_v2(
                     addressOf(Target), addressOf(Source),
                     static_cast<size_t>(Count * comm::getBytes(To)), Queue),
                 "copy memory");
  int64_t Types = static_cast<int64_t>(From) | static_cast<int64_t>(Wire) << 2 |
                  static_cast<int64_t>(To) << 4;
  void *Arguments[] = {&Source, &Target, &Types, &Count};
  launch(Convert, Arguments, Count, Queue);
}

void WireKernels::add(float *Sum, const float *Source, int64_t Count,
                      Stream Queue) const {
  void *Arguments[] = {&Sum, &Source, &Count};
  if (Count)
    launch(Add, Arguments, Count, Queue);
}

void WireKernels::applyEpilogue(ProductRows Result, const void *Bias, void *Aux,
                                int32_t Epilogue, Stream Queue) const {
  // A kernel takes arguments of eight bytes.
  int64_t Kind = Epilogue, Wide = Result.Type;
  void *Arguments[] = {&Result.Values,       &Bias, &Aux,  &Result.RowScales,
                       &Result.ColumnScales, &Kind, &Wide, &Result.Columns,
                       &Result.Count};
  if (Result.Count)
    launch(Epilogues, Arguments, Result.Count, Queue);
}

void WireKernels::roundRows(const void *From, void *Codes, float *Scales,
                            int64_t Rows, int64_t Columns, Stream Queue) const {
  void *Arguments[] = {&From, &Codes, &Scales, &Columns};
  launchBlocks(RoundRows, Arguments, Rows, Queue);
}

void WireKernels::roundColumns(const void *From, void *Codes, float *Scales,
                               int64_t Rows, int64_t Columns,
                               Stream Queue) const {
  void *Arguments[] = {&From, &Codes, &Scales, &Rows, &Columns};
  launchBlocks(RoundColumns, Arguments, (Columns - 1) / POPLAR_WIRE_SUMS + 1,
               Queue);
}

/// How `Depth` values of each of `Count` sums are divided among blocks: enough
/// of them for the multiprocessors of large GPUs, none with few rows.
namespace {
struct SumChunks {
  static constexpr int64_t WantedBlocks = 512, LeastRows = 64;

  SumChunks(int64_t Depth, int64_t Count)
      : Tiles((Count - 1) / POPLAR_WIRE_SUMS + 1) {
    int64_t Wanted = std::max<int64_t>(1, WantedBlocks / Tiles);
    Rows = std::max((Depth - 1) / Wanted + 1, LeastRows);
    Chunks = (Depth - 1) / Rows + 1;
  }
  int64_t Tiles, Rows, Chunks;
};
} // namespace

int64_t WireKernels::countPartials(int64_t Depth, int64_t Count) {
  return SumChunks(Depth, Count).Chunks * Count;
}

void WireKernels::addSums(float *Sum, float *Partials, const void *Values,
                          int32_t Type, int64_t Step, int64_t Stride,
                          int64_t Depth, int64_t Count, Stream Queue) const {
  if (Count == 0 || Depth == 0)
    return;
  SumChunks Cut(Depth, Count);
  int64_t Wide = Type;
  void *First[] = {&Partials, &Values, &Wide,     &Step,
                   &Stride,   &Depth,  &Cut.Rows, &Count};
  launchBlocks(PartialSums, First, Cut.Tiles * Cut.Chunks, Queue);
  void *Second[] = {&Sum, &Partials, &Cut.Chunks, &Count};
  launch(AddPartials, Second, Count, Queue);
}

void WireKernels::prepareTables() {
  if (Tables)
    return;
  std::vector<float> Values(NF4Values.begin(), NF4Values.end());
  for (bool Middles : {false, true})
    for (const auto *Map : {&getDynamicMap(), &getUnsignedDynamicMap()}) {
      std::array<float, 256> Table = Middles ? getCodeMiddles(*Map) : *Map;
      Values.insert(Values.end(), Table.begin(), Table.end());
    }
  for (const auto &Map : {signedMap4, unsignedMap4})
    Values.insert(Values.end(), Map, Map + 16);
  size_t Bytes = Values.size() * sizeof(float);
  Tables = std::make_unique<Allocation>(static_cast<int64_t>(Bytes));
  const Driver &D = Driver::get();
  check(D.cuMemcpyHtoDAsync_v2(addressOf(Tables->data()), Values.data(), Bytes,
                               nullptr),
        "copy to the GPU");
  check(D.cuStreamSynchronize(nullptr), "copy to the GPU");
}

void WireKernels::dequantize(const void *From, int32_t Quantized, int64_t Rows,
                             int64_t Columns, void *To, int32_t Type,
                             Stream Queue) const {
  PoplarQuantizedLayout Layout =
      poplar_quantized_layout(Quantized, Rows, Columns);
  const auto *Codes = static_cast<const char *>(From);
  const void *Table = Tables->data(), *Scales = Codes + Layout.scales,
             *Factors = Codes + Layout.factors, *Mean = Codes + Layout.mean;
  int64_t Kind = Quantized, Wide = Type, Count = Rows * Columns;
  void *Arguments[] = {&Codes, &Scales, &Factors, &Mean,    &To,
                       &Table, &Kind,   &Wide,    &Columns, &Count};
  launch(Dequantize, Arguments, (Count - 1) / POPLAR_DEQUANTIZED_TOGETHER + 1,
         Queue);
}

/// The signed and the unsigned map of 8 bits follow the values of NF4, then the
/// middles of each, then the maps of 4 bits.
static const float *getMaps(const Allocation &Tables, int32_t Bits) {
  return reinterpret_cast<const float *>(Tables.data()) + NF4Values.size() +
         (Bits == 4 ? 4 * 256 : 0);
}

void WireKernels::widenStates(const MomentBlocks &Moment1,
                              const MomentBlocks &Moment2, float *Wide1,
                              float *Wide2, int64_t Count, Stream Queue) const {
  MomentBlocks M1 = Moment1, M2 = Moment2;
  const float *Maps = getMaps(*Tables, M1.Bits);
  int64_t Bits = M1.Bits;
  void *Arguments[] = {&M1.Codes, &M1.Scales, &M2.Codes, &M2.Scales, &Wide1,
                       &Wide2,    &Maps,      &Bits,     &Count};
  launch(WidenStates, Arguments, Count, Queue);
}

void WireKernels::roundStates(const float *Wide1, const float *Wide2,
                              const MomentBlocks &Moment1,
                              const MomentBlocks &Moment2, int64_t Count,
                              Stream Queue) const {
  MomentBlocks M1 = Moment1, M2 = Moment2;
  bool Is4 = M1.Bits == 4;
  // In 8 bits, the middles of the maps are enough.
  const float *Values = getMaps(*Tables, M1.Bits) + (Is4 ? 0 : 2 * 256);
  void *Arguments[] = {&Wide1,    &Wide2,     &M1.Codes, &M1.Scales,
                       &M2.Codes, &M2.Scales, &Values,   &Count};
  launch(Is4 ? RoundStates4 : RoundStates, Arguments, Count, Queue);
}
