//===- ProductTrace.h - Norms of the products of a micro-step ---*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A trace that shows where a program first computes other values than on
// another device. Products have the same order and the same meaning on all
// devices, whatever kernels are between them. The trace has the 2-norms of the
// operand and the result of every product of a micro-step:
//
//   product,operand,result
//   h.0.attn.c_attn.weight #1,3.2,4.1
//
// A product is named by the parameter that it multiplies by (#1 in the forward
// pass, #2 where the gradient goes back), or whose gradient it adds to.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_PRODUCTTRACE_H
#define POPLAR_RUNTIME_PRODUCTTRACE_H

#include "program/Executor.h"

#include <map>
#include <string>
#include <vector>

namespace poplar::runtime {

class ProductTrace {
public:
  explicit ProductTrace(const Executor &Exec);

  /// Notes a product that has been given to the device.
  void add(const PoplarGemm &Gemm, const void *A, const void *B,
           const void *Aux, const void *C, int64_t Batch);
  void write(const std::string &Path) const;

private:
  /// The name for a product of these; operands are A and B.
  std::string name(const void *A, const void *B, const void *C);
  /// The norm of a matrix whose rows are `Row` elements apart; 0: dense.
  double measure(const void *Values, int32_t Type, int64_t Rows,
                 int64_t Columns, int64_t Row) const;

  struct Row {
    std::string Name;
    double Operand, Result;
  };

  const Executor &Exec;
  /// Parameters by the address of their values and of their gradients.
  std::map<const void *, std::string> Values, Gradients;
  std::map<std::string, int> Uses;
  std::vector<Row> Rows;
};

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_PRODUCTTRACE_H
