//===- GeoOracle.h - Every plan over distant devices ------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_UNITTESTS_PLANNER_GEOORACLE_H
#define POPLAR_UNITTESTS_PLANNER_GEOORACLE_H

#include "Poplar/Planner/Geo/GeoProblem.h"
#include <random>

namespace poplar {

/// Makes problems of one to five devices, all kinds of links, memory that is
/// short now and then.
GeoProblem makeRandomGeo(std::mt19937 &random);

/// The cost, written down as GeoProblem.h defines it; infinite if a stage does
/// not fit.
double defineGeoCost(const GeoProblem &problem, const GeoPlan &plan);

/// The least cost of all plans; infinite if none fits.
double searchAllGeoPlans(const GeoProblem &problem);

} // namespace poplar

#endif // POPLAR_UNITTESTS_PLANNER_GEOORACLE_H
