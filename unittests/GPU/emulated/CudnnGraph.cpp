//===- CudnnGraph.cpp - Graphs of an emulated cuDNN -----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudnnGraph.h"
#include "Memory.h"
#include "Prelude.h"
#include "cuda/Cudnn.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

using namespace poplar::emulated;
using namespace poplar::runtime::cuda::dnn;

using Place = std::array<int64_t, 4>;

int64_t GraphTensor::width() const {
  return type == F32 || type == I32 ? 4 : type == Boolean ? 1 : 2;
}

int64_t GraphTensor::extent() const {
  int64_t last = 0;
  for (size_t i = 0; i < 4; ++i)
    last += (sizes[i] - 1) * strides[i];
  return last + 1;
}

namespace {

/// Where a place of a tensor is in memory.
int64_t findOffset(const GraphTensor &tensor, const Place &place) {
  int64_t at = 0;
  for (size_t i = 0; i < 4; ++i)
    at += place[i] * tensor.strides[i];
  return at;
}

/// A tensor's values, one after the other. Strides are those of memory:
/// intermediate values have none, whatever they say.
struct Values {
  GraphTensor tensor;
  std::vector<float> data;

  explicit Values(const GraphTensor &tensor) : tensor(tensor) {
    int64_t count = 1;
    for (int64_t size : tensor.sizes)
      count *= size;
    data.assign(size_t(count), NAN);
  }
  /// The value at a place of a tensor that may be larger: of a size that
  /// divides the other's, each is that of a group.
  size_t find(const Place &place, const Place &sizes) const {
    int64_t at = 0;
    for (size_t i = 0; i < 4; ++i)
      at = at * tensor.sizes[i] + place[i] * tensor.sizes[i] / sizes[i];
    return size_t(at);
  }
  float &at(const Place &place, const Place &sizes) {
    return data[find(place, sizes)];
  }
  float &at(const Place &place) { return at(place, tensor.sizes); }
};

template <typename Function>
void forEach(const Place &sizes, const Function &function) {
  Place place;
  for (place[0] = 0; place[0] < sizes[0]; ++place[0])
    for (place[1] = 0; place[1] < sizes[1]; ++place[1])
      for (place[2] = 0; place[2] < sizes[2]; ++place[2])
        for (place[3] = 0; place[3] < sizes[3]; ++place[3])
          function(place);
}

float load(const char *at, int32_t type) {
  return type == F32   ? read<float>(at)
         : type == F16 ? toFloat(read<f16>(at))
                       : toFloat(read<bf16>(at));
}

float round(float value, int32_t type) {
  if (type == BF16)
    return toFloat(fromFloat<bf16>(value));
  return type == F16 ? toFloat(fromFloat<f16>(value)) : value;
}

void store(char *at, int32_t type, float value) {
  if (type == F32)
    write(at, value);
  else if (type == F16)
    write(at, fromFloat<f16>(value));
  else
    write(at, fromFloat<bf16>(value));
}

class Computation {
public:
  Computation(const Addresses &addresses, const Numbers &numbers)
      : addresses(addresses), numbers(numbers) {}

  void run(const GraphOperation &op) {
    Values y(op.y);
    switch (op.kind) {
    case GraphOperation::Multiply:
      multiply(get(op.x), get(op.b), y);
      break;
    case GraphOperation::Point:
      point(op, y);
      break;
    case GraphOperation::Reduce:
      reduce(op.mode, get(op.x), y);
      break;
    case GraphOperation::Reshape:
      reshape(get(op.x), y);
      break;
    }
    for (float &value : y.data)
      value = round(value, op.y.type);
    finish(std::move(y));
  }

private:
  Values &get(const GraphTensor &tensor) {
    auto known = values.find(tensor.id);
    if (known != values.end())
      return known->second;
    Values own(tensor);
    if (tensor.isByValue) {
      own.data[0] = numbers.at(tensor.id);
    } else {
      const char *from = Memory::get().at(addresses.at(tensor.id),
                                          tensor.extent() * tensor.width());
      forEach(tensor.sizes, [&](const Place &place) {
        own.at(place) = load(from + findOffset(tensor, place) * tensor.width(),
                             tensor.type);
      });
    }
    return values.emplace(tensor.id, std::move(own)).first->second;
  }

  void finish(Values y) {
    const GraphTensor &tensor = y.tensor;
    if (!tensor.isVirtual) {
      char *to = Memory::get().at(addresses.at(tensor.id),
                                  tensor.extent() * tensor.width());
      forEach(tensor.sizes, [&](const Place &place) {
        store(to + findOffset(tensor, place) * tensor.width(), tensor.type,
              y.at(place));
      });
    }
    values.insert_or_assign(tensor.id, std::move(y));
  }

  static void multiply(Values &x, Values &b, Values &y) {
    int64_t depth = x.tensor.sizes[3];
    Place sizes = y.tensor.sizes;
    forEach(sizes, [&](const Place &place) {
      Place left = place, right = place, leftSizes = sizes, rightSizes = sizes;
      leftSizes[3] = rightSizes[2] = depth;
      double sum = 0;
      for (int64_t k = 0; k < depth; ++k) {
        left[3] = right[2] = k;
        sum += double(x.at(left, leftSizes)) * double(b.at(right, rightSizes));
      }
      y.at(place) = float(sum);
    });
  }

  void point(const GraphOperation &op, Values &y) {
    Values &x = get(op.x);
    Values *b = op.b.id >= 0 ? &get(op.b) : nullptr,
           *t = op.t.id >= 0 ? &get(op.t) : nullptr;
    Place sizes = y.tensor.sizes;
    forEach(sizes, [&](const Place &place) {
      float first = x.at(place, sizes), second = b ? b->at(place, sizes) : 0.0f;
      float &result = y.at(place);
      switch (op.mode) {
      case Add:
        result = first + second;
        break;
      case poplar::runtime::cuda::dnn::Multiply:
        result = first * second;
        break;
      case Divide:
        result = first / second;
        break;
      case Subtract:
        result = first - second;
        break;
      case Exp:
        result = std::exp(first);
        break;
      case Log:
        result = std::log(first);
        break;
      case IsGreater:
        result = first > second;
        break;
      case IsNotLess:
        result = first >= second;
        break;
      case Index:
        result = float(place[size_t(op.axis)]);
        break;
      case Select:
        result = t->at(place, sizes) != 0 ? first : second;
        break;
      default:
        std::fprintf(stderr, "emulated cuDNN: no function %d\n", op.mode);
        std::abort();
      }
    });
  }

  static void reduce(int32_t mode, Values &x, Values &y) {
    std::vector<double> sums(y.data.size(), mode == Maximum ? -INFINITY : 0);
    forEach(x.tensor.sizes, [&](const Place &place) {
      double value = double(x.at(place));
      double &sum = sums[y.find(place, x.tensor.sizes)];
      sum = mode == Maximum ? std::max(sum, value) : sum + value;
    });
    for (size_t i = 0; i < sums.size(); ++i)
      y.data[i] = float(sums[i]);
  }

  /// The same memory by other sizes and strides.
  static void reshape(Values &x, Values &y) {
    std::map<int64_t, float> memory;
    forEach(x.tensor.sizes, [&](const Place &place) {
      memory[findOffset(x.tensor, place)] = x.at(place);
    });
    forEach(y.tensor.sizes, [&](const Place &place) {
      y.at(place) = memory.at(findOffset(y.tensor, place));
    });
  }

  const Addresses &addresses;
  const Numbers &numbers;
  std::map<int64_t, Values> values;
};

} // namespace

void poplar::emulated::computeGraph(const Graph &graph,
                                    const Addresses &addresses,
                                    const Numbers &numbers) {
  Computation computation(addresses, numbers);
  for (const GraphOperation &op : graph)
    computation.run(op);
}
