//===- LinearProgram.h - Small linear programs ------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// minimize c x subject to A x <= b and x >= 0, where no cost is negative: the
// dual simplex method (Lemke, 1954) on a dense tableau without the columns of
// the basis. It starts from x = 0, so there is no first phase. For some tens of
// variables.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_PLANNER_LINEARPROGRAM_H
#define POPLAR_LIB_PLANNER_LINEARPROGRAM_H

#include <cstddef>
#include <optional>
#include <vector>

namespace poplar {

class LinearProgram {
public:
  explicit LinearProgram(size_t numVariables) : numVariables(numVariables) {}

  /// Adds the row `coefficients` x <= `limit`. Coefficients of about 1 are
  /// best: what is below 1e-9 counts as rounding.
  void addRow(const std::vector<double> &coefficients, double limit);

  /// The best x for non-negative `costs`; none if there is no x at all.
  /// Deterministic.
  std::optional<std::vector<double>>
  minimize(const std::vector<double> &costs) const;

private:
  size_t numVariables;
  /// By row: coefficients, then the limit.
  std::vector<double> cells;
};

} // namespace poplar

#endif // POPLAR_LIB_PLANNER_LINEARPROGRAM_H
