//===- CudnnGraph.h - Graphs of an emulated cuDNN ---------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A graph is computed by the definition of each of its operations, in their
// order, on whole tensors: nothing here knows that it is attention, so a graph
// that says something else computes something else.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_UNITTESTS_GPU_EMULATED_CUDNNGRAPH_H
#define POPLAR_UNITTESTS_GPU_EMULATED_CUDNNGRAPH_H

#include <array>
#include <cstdint>
#include <map>
#include <vector>

namespace poplar::emulated {

struct GraphTensor {
  int64_t id = -1;
  int32_t type = -1;
  std::array<int64_t, 4> sizes = {}, strides = {};
  int64_t alignment = 0;
  bool isVirtual = false, isByValue = false;

  int64_t width() const;
  /// Elements from the first to behind the last.
  int64_t extent() const;
};

struct GraphOperation {
  enum Kind { Multiply, Point, Reduce, Reshape } kind;
  int32_t mode = 0;
  int64_t axis = -1;
  /// Operands that it has not have no id.
  GraphTensor x, b, t, y;
};

using Graph = std::vector<GraphOperation>;
/// What tensors and numbers lie at, by id.
using Addresses = std::map<int64_t, uint64_t>;
using Numbers = std::map<int64_t, float>;

void computeGraph(const Graph &graph, const Addresses &addresses,
                  const Numbers &numbers);

} // namespace poplar::emulated

#endif // POPLAR_UNITTESTS_GPU_EMULATED_CUDNNGRAPH_H
