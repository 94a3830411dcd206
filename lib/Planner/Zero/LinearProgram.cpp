//===- LinearProgram.cpp - Small linear programs --------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Zero/LinearProgram.h"
#include <numeric>

using namespace poplar;

static constexpr double rounding = 1e-9;

namespace {

/// Rows of basic variables, columns of the others, and beside them the limits
/// and the reduced costs. Variables are numbered, those of rows after those of
/// columns.
class Tableau {
public:
  Tableau(std::vector<double> cells, size_t columns)
      : cells(std::move(cells)), columns(columns),
        rows(this->cells.size() / (columns + 1) - 1), ofRow(rows),
        ofColumn(columns) {
    std::iota(ofColumn.begin(), ofColumn.end(), size_t(0));
    std::iota(ofRow.begin(), ofRow.end(), columns);
  }

  /// False if no values keep all limits.
  bool solve();
  std::vector<double> getValues() const;

private:
  double *rowAt(size_t row) { return &cells[row * (columns + 1)]; }
  /// The row that breaks its limit most; after many pivots, the first one by
  /// variable, as this ends for certain (Bland, 1977).
  std::optional<size_t> findRow(bool takesFirst);
  std::optional<size_t> findColumn(size_t row);
  void pivot(size_t row, size_t column);

  std::vector<double> cells;
  size_t columns, rows;
  std::vector<size_t> ofRow, ofColumn;
};

} // namespace

std::optional<size_t> Tableau::findRow(bool takesFirst) {
  std::optional<size_t> found;
  double least = -rounding;
  for (size_t row = 0; row < rows; ++row) {
    double limit = rowAt(row)[columns];
    if (limit >= -rounding)
      continue;
    if (takesFirst ? !found || ofRow[row] < ofRow[*found] : limit < least) {
      found = row;
      least = limit;
    }
  }
  return found;
}

std::optional<size_t> Tableau::findColumn(size_t row) {
  std::optional<size_t> found;
  double least = 0;
  const double *cells = rowAt(row), *costs = rowAt(rows);
  for (size_t column = 0; column < columns; ++column) {
    if (cells[column] >= -rounding)
      continue;
    double ratio = costs[column] / -cells[column];
    if (!found || ratio < least ||
        (ratio == least && ofColumn[column] < ofColumn[*found])) {
      found = column;
      least = ratio;
    }
  }
  return found;
}

void Tableau::pivot(size_t row, size_t column) {
  double *pivotRow = rowAt(row), inverse = 1 / pivotRow[column];
  for (size_t i = 0; i <= columns; ++i)
    pivotRow[i] *= inverse;
  pivotRow[column] = inverse;
  for (size_t other = 0; other <= rows; ++other) {
    double *cells = rowAt(other), factor = cells[column];
    if (other == row || factor == 0)
      continue;
    for (size_t i = 0; i <= columns; ++i)
      cells[i] -= factor * pivotRow[i];
    cells[column] = -factor * inverse;
  }
  std::swap(ofRow[row], ofColumn[column]);
}

bool Tableau::solve() {
  size_t few = 4 * (rows + columns);
  for (size_t pivots = 0;; ++pivots) {
    std::optional<size_t> row = findRow(pivots > few);
    if (!row)
      return true;
    std::optional<size_t> column = findColumn(*row);
    // Rounding may keep this from an end; then there is none worth having.
    if (!column || pivots > 50 * few)
      return false;
    pivot(*row, *column);
  }
}

std::vector<double> Tableau::getValues() const {
  std::vector<double> values(columns);
  for (size_t row = 0; row < rows; ++row)
    if (ofRow[row] < columns)
      values[ofRow[row]] = cells[row * (columns + 1) + columns];
  return values;
}

void LinearProgram::addRow(const std::vector<double> &coefficients,
                           double limit) {
  cells.insert(cells.end(), coefficients.begin(), coefficients.end());
  cells.resize(cells.size() + numVariables - coefficients.size());
  cells.push_back(limit);
}

std::optional<std::vector<double>>
LinearProgram::minimize(const std::vector<double> &costs) const {
  std::vector<double> all = cells;
  all.insert(all.end(), costs.begin(), costs.end());
  all.resize(cells.size() + numVariables + 1);
  Tableau tableau(std::move(all), numVariables);
  if (!tableau.solve())
    return std::nullopt;
  return tableau.getValues();
}
