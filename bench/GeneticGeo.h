//===- GeneticGeo.h - A genetic algorithm, as a baseline --------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A genetic algorithm for the extended problem (GeoProblem.h), with the
// population and the replacement of DT-FM's, whose own moves know but groups:
// a plan is an order of all devices, cuts and a shape. An offspring has the
// shape of one parent and the order of both (order crossover), then a few
// exchanges, of which those are kept that improve it, and a unit that moves.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_BENCH_GENETICGEO_H
#define POPLAR_BENCH_GENETICGEO_H

#include "Poplar/Planner/Geo/GeoProblem.h"

struct GeneticGeoResult {
  std::optional<poplar::GeoPlan> plan;
  int64_t offspring = 0;
  double cpuSeconds = 0;
};

/// Goes on for that processor time.
GeneticGeoResult planGenetically(const poplar::GeoProblem &problem,
                                 double cpuSeconds, unsigned seed);

#endif // POPLAR_BENCH_GENETICGEO_H
