//===- RecurrentCases.cpp - Cases of linear attention's GPU kernels -------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What they should compute is what the kernels of CPUs do in f32
// (unittests/Kernels/RecurrentTest.cpp), rounded to the case's format.
//
//===----------------------------------------------------------------------===//

#include "KernelCases.h"
#include "Poplar/Runtime/Recurrent.h"

using namespace mlir;
using namespace poplar;
using namespace poplar::gputest;

namespace {

constexpr int64_t kBatch = 2;
const char *const formatNames[] = {"f32", "bf16", "f16"};

struct Delta {
  const char *name;
  int64_t length, keyHeads, valueHeads, keyDim, valueDim;
  /// How long the documents are that share a sample; the next sample has them
  /// in the opposite order.
  std::vector<int64_t> documents = {};
  /// New tokens, of which the first has this position, and the last comes
  /// twice.
  std::optional<int64_t> first = {};
  /// Also in formats of 16 bits.
  bool halves = false;
};

const Delta deltas[] = {
    {"grouped", 11, 2, 4, 8, 12, {}, {}, true},
    {"odd", 7, 1, 3, 33, 20},
    {"documents", 12, 2, 2, 40, 40, {1, 5, 2, 4}, {}, true},
    {"widest", 6, 1, 1, 128, 128},
    {"one token", 1, 1, 1, 16, 16},
    {"prompt", 6, 1, 2, 20, 24, {}, 0},
    {"decode", 1, 2, 4, 8, 12, {}, 17, true},
};

struct Conv {
  const char *name;
  int64_t length, channels, width;
  std::vector<int64_t> documents = {};
  std::optional<int64_t> first = {};
  bool halves = false;
};

const Conv convs[] = {
    {"plain", 10, 150, 4, {}, {}, true},
    {"documents", 12, 20, 4, {1, 5, 2, 4}, {}, true},
    {"one tap", 5, 130, 1},
    {"long", 20, 9, 16},
    {"prompt", 6, 20, 4, {}, 0},
    {"decode", 1, 140, 4, {}, 2, true},
};

class RecurrentCases {
public:
  RecurrentCases(MLIRContext &context, std::vector<GPUKernel> &table,
                 KernelCases &cases)
      : table(table), cases(cases), f32(Float32Type::get(&context)),
        i32(IntegerType::get(&context, 32)),
        formats{f32, BFloat16Type::get(&context), Float16Type::get(&context)} {}

  void addDelta(const Delta &test, int32_t type);
  void addConv(const Conv &test, int32_t type);

private:
  /// In the case's format, and then in f32 for the host.
  Buffer normal(Type type, int64_t count) {
    Buffer buffer(type, count);
    std::normal_distribution<float> numbers;
    for (size_t i = 0; i < buffer.size(); ++i)
      buffer.set(i, shorten(numbers(random)));
    return buffer.as(f32);
  }
  Buffer zeros(int64_t count) {
    Buffer buffer(f32, count);
    for (size_t i = 0; i < buffer.size(); ++i)
      buffer.set(i, 0);
    return buffer;
  }
  template <typename Test> Buffer place(const Test &test);
  /// The last new token again.
  template <typename Test>
  void repeatLast(const Test &test, Buffer &rows, int64_t width);
  template <typename Test> static int32_t getTokens(const Test &test) {
    if (test.first)
      return POPLAR_NEW_TOKENS;
    return test.documents.empty() ? POPLAR_ONE_DOCUMENT : POPLAR_DOCUMENTS;
  }
  /// A case; buffers are `before`, and `after` in f32, but for those of i32.
  template <typename Descriptor>
  void add(const std::string &callee, const char *name, int32_t type,
           const Descriptor &desc, std::array<int32_t, 3> block, int64_t extent,
           std::vector<Buffer> before, std::vector<Buffer> after);

  std::vector<GPUKernel> &table;
  KernelCases &cases;
  Type f32, i32, formats[3];
  std::mt19937 random{11};
};

} // namespace

template <typename Test> Buffer RecurrentCases::place(const Test &test) {
  Buffer positions(i32, kBatch * test.length);
  std::vector<int64_t> lengths = test.documents;
  size_t row = 0;
  for (int64_t sample = 0; sample < kBatch; ++sample) {
    if (lengths.empty())
      for (int64_t i = 0; i < test.length; ++i) {
        bool repeats = test.first && i > 0 && i == test.length - 1;
        positions.setBits(row++,
                          uint64_t(test.first.value_or(0) + i - repeats));
      }
    for (int64_t length : lengths)
      for (int64_t i = 0; i < length; ++i)
        positions.setBits(row++, uint64_t(i));
    std::reverse(lengths.begin(), lengths.end());
  }
  return positions;
}

template <typename Test>
void RecurrentCases::repeatLast(const Test &test, Buffer &rows, int64_t width) {
  if (!test.first || test.length < 2)
    return;
  for (int64_t sample = 0; sample < kBatch; ++sample)
    for (int64_t i = 0; i < width; ++i) {
      int64_t last = (sample + 1) * test.length - 1;
      rows.set(size_t(last * width + i),
               float(rows.at(size_t((last - 1) * width + i))));
    }
}

template <typename Descriptor>
void RecurrentCases::add(const std::string &callee, const char *name,
                         int32_t type, const Descriptor &desc,
                         std::array<int32_t, 3> block, int64_t extent,
                         std::vector<Buffer> before,
                         std::vector<Buffer> after) {
  KernelCase entry;
  entry.name = std::string(formatNames[type]) + " " + callee + ": " + name;
  entry.kernel = callee + "_" + std::to_string(table.size());
  auto pointers = static_cast<int32_t>(before.size());
  table.push_back({entry.kernel, block, pointers, 1, callee,
                   exec::makeRecord(f32.getContext(), desc)});
  entry.batch = kBatch;
  entry.extent = extent;
  for (int32_t i = 0; i < pointers; ++i) {
    entry.pointers.push_back(i);
    after[size_t(i)] = before[size_t(i)].isFloat()
                           ? after[size_t(i)].as(before[size_t(i)].element)
                           : before[size_t(i)];
  }
  entry.before = std::move(before);
  entry.after = std::move(after);
  entry.tolerance = type == POPLAR_F32 ? 2e-5 : 1e-2;
  cases.add(entry);
}

void RecurrentCases::addDelta(const Delta &test, int32_t type) {
  PoplarGatedDelta desc = {test.length,    test.keyHeads, test.valueHeads,
                           test.keyDim,    test.valueDim, type,
                           getTokens(test)},
                   exact = desc;
  exact.type = POPLAR_F32;
  const int64_t rows = kBatch * test.length, heads = test.valueHeads,
                values = heads * test.valueDim,
                columns = 2 * test.keyHeads * test.keyDim + values;
  Buffer x = normal(formats[type], rows * columns),
         a = normal(formats[type], rows * heads),
         b = normal(formats[type], rows * heads),
         aLog = normal(formats[type], heads),
         dtBias = normal(formats[type], heads), positions = place(test),
         state = zeros(test.first ? kBatch * values * test.keyDim : 1),
         y = zeros(rows * values), dy = normal(formats[type], rows * values);
  repeatLast(test, x, columns);
  repeatLast(test, a, heads);
  repeatLast(test, b, heads);
  for (size_t i = 0; test.first && i < state.size(); ++i)
    state.set(i, float(i % 17) / 8 - 1);
  auto given = [&](const Buffer &buffer) { return buffer.as(formats[type]); };
  const std::array<int32_t, 3> block = {32, POPLAR_GPU_DELTA_WARPS, 1};
  std::vector<Buffer> inputs = {given(x),    given(a),      given(b),
                                given(aLog), given(dtBias), positions};
  std::vector<Buffer> before = inputs;
  before.push_back(state);
  before.push_back(given(y));
  void *forward[] = {x.data(),      a.data(),         b.data(),     aLog.data(),
                     dtBias.data(), positions.data(), state.data(), y.data()};
  poplar_gated_delta(&exact, forward, kBatch, 0, kBatch * heads);
  std::vector<Buffer> after = inputs;
  after.push_back(state);
  after.push_back(y);
  add("poplar_gpu_gated_delta", test.name, type, desc, block, kBatch * heads,
      before, after);
  if (test.first)
    return;

  Buffer dx = zeros(rows * columns), da = zeros(rows * heads),
         db = zeros(rows * heads), dLog = zeros(rows * heads),
         scratch = zeros(kBatch * poplar_delta_scratch(&desc));
  std::vector<Buffer> results = {dx, da, db};
  before = {given(dy)};
  before.insert(before.end(), inputs.begin(), inputs.end());
  after = before;
  for (const Buffer &result : results)
    before.push_back(given(result));
  before.push_back(dLog);
  before.push_back(scratch);
  void *backward[] = {dy.data(),        x.data(),    a.data(),
                      b.data(),         aLog.data(), dtBias.data(),
                      positions.data(), dx.data(),   da.data(),
                      db.data(),        dLog.data(), scratch.data()};
  poplar_gated_delta_grad(&exact, backward, kBatch, 0, kBatch * heads);
  // A GPU has columns of states one after the other.
  Buffer moved = scratch;
  const int64_t size = poplar_delta_state(&desc),
                width = poplar_delta_width(test.valueDim);
  for (int64_t head = 0; head < kBatch * heads; ++head)
    for (int64_t s = 0; s < poplar_delta_head_states(&desc) / size; ++s) {
      int64_t first = head * poplar_delta_head_scratch(&desc) + s * size;
      for (int64_t i = 0; i < size; ++i)
        moved.set(size_t(first + i), 0);
      for (int64_t i = 0; i < test.keyDim; ++i)
        for (int64_t c = 0; c < test.valueDim; ++c)
          moved.set(size_t(first + c * test.keyDim + i),
                    float(scratch.at(size_t(first + i * width + c))));
    }
  for (const Buffer &result : {dx, da, db, dLog, moved})
    after.push_back(result);
  add("poplar_gpu_gated_delta_grad", test.name, type, desc, block,
      kBatch * heads, before, after);

  before = {given(x), given(dx), scratch};
  void *keys[] = {x.data(), dx.data(), scratch.data()};
  poplar_gated_delta_grad_keys(&exact, keys, kBatch, 0, rows);
  after = {given(x), dx, scratch};
  add("poplar_gpu_gated_delta_grad_keys", test.name, type, desc, block, rows,
      before, after);
}

void RecurrentCases::addConv(const Conv &test, int32_t type) {
  PoplarCausalConv desc = {test.length, test.channels, test.width, type,
                           getTokens(test)},
                   exact = desc;
  exact.type = POPLAR_F32;
  const int64_t rows = kBatch * test.length, elements = rows * test.channels,
                groups = (test.channels - 1) / POPLAR_CONV_CHANNELS + 1,
                blocks = (test.channels - 1) / POPLAR_GPU_CONV_THREADS + 1,
                kept =
                    test.first ? kBatch * (test.width - 1) * test.channels : 1;
  Buffer x = normal(formats[type], elements),
         weight = normal(formats[type], test.channels * test.width),
         positions = place(test), cache = normal(formats[type], kept),
         y = zeros(elements), dy = normal(formats[type], elements),
         dx = zeros(elements), dw = normal(f32, test.channels * test.width);
  repeatLast(test, x, test.channels);
  auto given = [&](const Buffer &buffer) { return buffer.as(formats[type]); };
  const std::array<int32_t, 3> block = {POPLAR_GPU_CONV_THREADS, 1, 1};
  std::vector<Buffer> before = {given(x), given(weight), positions,
                                given(cache), given(y)};
  void *forward[] = {x.data(), weight.data(), positions.data(), cache.data(),
                     y.data()};
  poplar_causal_conv(&exact, forward, kBatch, 0, kBatch * groups);
  std::vector<Buffer> after = {x, weight, positions, cache, y};
  if (test.first)
    return add("poplar_gpu_causal_conv_cached", test.name, type, desc, block,
               kBatch * blocks, before, after);
  add("poplar_gpu_causal_conv", test.name, type, desc, block, rows * blocks,
      before, after);

  before = {given(dy), given(weight), positions, given(dx)};
  void *ofX[] = {dy.data(), weight.data(), positions.data(), dx.data()};
  poplar_causal_conv_grad(&exact, ofX, kBatch, 0, kBatch * groups);
  add("poplar_gpu_causal_conv_grad", test.name, type, desc, block,
      rows * blocks, before, {dy, weight, positions, dx});

  before = {given(dy), given(x), positions, dw};
  void *ofWeight[] = {dy.data(), x.data(), positions.data(), dw.data()};
  poplar_causal_conv_grad_weight(&exact, ofWeight, kBatch, 0, groups);
  add("poplar_gpu_causal_conv_grad_weight", test.name, type, desc, block,
      blocks, before, {dy, x, positions, dw});
}

void poplar::gputest::addRecurrentCases(MLIRContext &context,
                                        const GPUChip &chip,
                                        std::vector<GPUKernel> &table,
                                        KernelCases &cases) {
  RecurrentCases recurrent(context, table, cases);
  for (int32_t type : {POPLAR_F32, POPLAR_BF16, POPLAR_F16}) {
    if (type == POPLAR_BF16 && chip.getCapability() < 80)
      continue;
    for (const Delta &test : deltas)
      if (type == POPLAR_F32 || test.halves)
        recurrent.addDelta(test, type);
    for (const Conv &test : convs)
      if (type == POPLAR_F32 || test.halves)
        recurrent.addConv(test, type);
  }
}
