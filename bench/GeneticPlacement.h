//===- GeneticPlacement.h - DT-FM's genetic algorithm -----------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The baseline: the search of DT-FM (Yuan et al., NeurIPS 2022, section 3.2),
// after its authors' code (github.com/DS3Lab/DT-FM, scheduler.py, GCMA). A
// population of 100 partitions; an offspring takes five devices' groups from
// one parent and the rest from the other, is balanced, and goes through one
// round of circular Kernighan-Lin moves, whose gain moves the device of a
// group's fastest inner link out. It replaces the worse parent unless it is
// worse than both.
//
// Two things differ: the exact costs are computed by this project's functions,
// which are faster, and where more time is given it goes on after the paper's
// 4,900 offspring.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_BENCH_GENETICPLACEMENT_H
#define POPLAR_BENCH_GENETICPLACEMENT_H

#include "Poplar/Planner/Placement/Placement.h"
#include <cstdint>

struct GeneticResult {
  poplar::Placement placement;
  int64_t offspring;
  double cpuSeconds;
};

/// Makes `offspring` of them, more until `cpuSeconds` are over.
GeneticResult placeGenetically(const poplar::PlacementProblem &problem,
                               int64_t offspring, double cpuSeconds,
                               unsigned seed);

/// Processor seconds of this process.
double getCPUSeconds();

#endif // POPLAR_BENCH_GENETICPLACEMENT_H
