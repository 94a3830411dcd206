//===- Baselines.h - What else the devices could do -------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_DRIVER_BASELINES_H
#define POPLAR_DRIVER_BASELINES_H

#include "Poplar/Driver/Compilation.h"
#include "Poplar/Report/PlanReport.h"

namespace poplar {

/// Plans the model of a module with a plan anew, for the same devices and
/// global batch, as `poplar plan` does by other policies: uniform batches,
/// Whale's, and each device type alone; of a plan of pipeline stages also the
/// best without them. All are simulated. That there is no such plan is no
/// error. The module is not changed.
bool simulateBaselines(Compilation &compilation,
                       std::vector<ReportBaseline> &baselines);

} // namespace poplar

#endif // POPLAR_DRIVER_BASELINES_H
