//===- ParameterElements.cpp - Amounts of parameters by kind --------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Model/ParameterElements.h"
#include "Division.h"
#include "Located.h"

using namespace poplar;

ParameterElements ParameterElements::getPart(int64_t parts) const {
  return combine(*this,
                 [&](int64_t all, int64_t) { return divideUp(all, parts); });
}

ParameterElements ParameterElements::getShard(int64_t holders,
                                              int64_t ranks) const {
  ParameterElements shard = combine(*this, [&](int64_t all, int64_t) {
    return divideUp(all * holders, ranks);
  });
  for (auto states :
       {&ParameterElements::int8States, &ParameterElements::int4States})
    shard.*states =
        std::max<int64_t>(shard.trained - (trained - this->*states), 0);
  return shard;
}

std::string ParameterElements::check() const {
  ParameterElements least = combine(
      {}, [](int64_t value, int64_t zero) { return std::min(value, zero); });
  if (least != ParameterElements())
    return "must not be negative";
  return int8States + int4States > trained
             ? "more moments are in blocks than are trained"
             : "";
}

ParameterElements UnitElements::count(int first, int end) const {
  ParameterElements all;
  for (int unit = first; unit < end; ++unit)
    all = all + units[unit];
  return joinsTied(first, end) ? all - tied : all;
}

ParameterElements UnitElements::countTiedOutside(int first, int end) const {
  ParameterElements outside;
  if ((first == 0) != (end == size())) {
    outside.trained = tied.trained;
    outside.int8States = tied.int8States;
    outside.int4States = tied.int4States;
  }
  return outside;
}

std::string UnitElements::check() const {
  if (units.empty())
    return "has no units";
  for (size_t i = 0; i < units.size(); ++i)
    if (std::string error = units[i].check(); !error.empty())
      return at("units", i) + ": " + error;
  if (std::string error = tied.check(); !error.empty())
    return "tied: " + error;
  for (const ParameterElements &end : {units.front(), units.back()})
    if (!(end - tied).check().empty())
      return "tied: the first and the last unit have fewer";
  return "";
}

HeldElements HeldElements::divideEvenly(const UnitElements &elements,
                                        int degree, int first, int end) {
  ParameterElements tied = elements.countTiedOutside(first, end);
  return {(elements.count(first, end) - tied).getPart(degree),
          tied.getPart(degree),
          {}};
}

HeldElements HeldElements::of(const SharedElements &shared, int first,
                              int end) {
  ParameterElements tied = shared.part.countTiedOutside(first, end);
  return {shared.part.count(first, end) - tied, tied,
          shared.whole.count(first, end)};
}
