//===- Metrics.cpp - Reading metrics.csv ----------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Report/PlanReport.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

using namespace poplar;
using llvm::StringRef;

/// As the runtime writes it. Newer ones write more columns behind these.
static constexpr StringRef header =
    "step,loss,val_loss,lr,grad_norm,tokens_per_s";

/// A number, or nothing where there is none.
static bool readCell(StringRef cell, std::optional<double> &value) {
  double number;
  if (cell.empty())
    return true;
  if (cell.getAsDouble(number))
    return false;
  value = number;
  return true;
}

static bool readRow(StringRef line, size_t columns, MeasuredStep &step) {
  llvm::SmallVector<StringRef, 9> cells;
  line.split(cells, ',');
  if (cells.size() != columns || cells[0].getAsInteger(10, step.step) ||
      cells[1].getAsDouble(step.loss) ||
      cells[5].getAsDouble(step.tokensPerSecond) ||
      !readCell(cells[2], step.evalLoss))
    return false;
  return cells.size() < 9 ||
         (readCell(cells[6], step.seconds) && readCell(cells[7], step.tokens) &&
          readCell(cells[8], step.epochs));
}

std::optional<std::vector<MeasuredStep>>
poplar::readMetrics(const std::string &text, std::string &error) {
  llvm::SmallVector<StringRef, 0> lines;
  StringRef(text).rtrim('\n').split(lines, '\n');
  std::vector<MeasuredStep> steps;
  for (size_t i = 0; i < lines.size(); ++i) {
    MeasuredStep step = {};
    if (i == 0 ? lines[i] == header || lines[i].starts_with(header.str() + ",")
               : readRow(lines[i], lines[0].count(',') + 1, step)) {
      if (i > 0)
        steps.push_back(step);
      continue;
    }
    error = std::to_string(i + 1) + ": expected '" + header.str() +
            (i == 0 ? "'" : "' in numbers");
    return std::nullopt;
  }
  return steps;
}
