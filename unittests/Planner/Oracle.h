//===- Oracle.h - Small problems and their optimum --------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Random problems small enough to try every plan there is, and that trial.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_UNITTESTS_PLANNER_ORACLE_H
#define POPLAR_UNITTESTS_PLANNER_ORACLE_H

#include "Poplar/Planner/Batch/BatchPolicy.h"
#include <random>

namespace poplar::test {

/// A curve through these times of 1, 2, ... samples.
Curve curveOf(const std::vector<double> &seconds);
/// t(b) = fixed + b * perSample up to `largest`.
Curve affineCurve(double fixed, double perSample, int64_t largest);
BatchProblem::DeviceType makeType(const std::string &name, int64_t count,
                                  const Curve &curve);

/// The policy `exact`.
const BatchPolicy &exact();

/// One to four ranks of up to three types that hold up to five samples, and a
/// global batch of up to 25. The curves are affine, proportional, convex, in
/// steps, flat, or noise.
BatchProblem randomProblem(std::mt19937 &random, int zeroStage);

/// The least time over every plan, by trying them all one by one.
/// `otherThan`: in stages 2 and 3, plans with this number of steps do not
/// count.
double bruteForce(const BatchProblem &problem, int64_t otherThan = 0);

std::string describe(const BatchProblem &problem);

} // namespace poplar::test

#endif // POPLAR_UNITTESTS_PLANNER_ORACLE_H
