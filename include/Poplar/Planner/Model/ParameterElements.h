//===- ParameterElements.h - Amounts of parameters by kind ------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Amounts of parameters as all planners, the simulation and the memory plan
// count them: of a model, of its units, and of what a device holds of units. A
// new kind of parameter is a field of ParameterElements. What its state takes
// is said in ParameterBytes.h.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_PLANNER_MODEL_PARAMETERELEMENTS_H
#define POPLAR_PLANNER_MODEL_PARAMETERELEMENTS_H

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace poplar {

struct ParameterElements {
  /// Elements with gradients and optimizer state, and those among them whose
  /// moments have 8 bits.
  int64_t trained = 0, int8States = 0;
  /// Elements that have neither gradients nor optimizer state.
  int64_t frozen = 0;
  /// Bytes of quantised parameters. These are frozen, but not in `frozen`; they
  /// take as many bytes on every device.
  int64_t quantizedBytes = 0;
  /// Trained elements whose moments have 4 bits.
  int64_t int4States = 0;

  /// Applies a function to each field and the other's.
  template <typename Function>
  ParameterElements combine(const ParameterElements &other,
                            Function function) const {
    return {function(trained, other.trained),
            function(int8States, other.int8States),
            function(frozen, other.frozen),
            function(quantizedBytes, other.quantizedBytes),
            function(int4States, other.int4States)};
  }
  ParameterElements operator+(const ParameterElements &other) const {
    return combine(other, [](int64_t a, int64_t b) { return a + b; });
  }
  ParameterElements operator-(const ParameterElements &other) const {
    return combine(other, [](int64_t a, int64_t b) { return a - b; });
  }
  bool operator==(const ParameterElements &other) const {
    return trained == other.trained && int8States == other.int8States &&
           int4States == other.int4States && frozen == other.frozen &&
           quantizedBytes == other.quantizedBytes;
  }
  bool operator!=(const ParameterElements &other) const {
    return !(*this == other);
  }

  /// Those whose moments have so many bits: 8 or 4.
  int64_t &getBlockStates(int32_t bits) {
    return bits == 4 ? int4States : int8States;
  }
  /// Elements that are not quantised.
  int64_t countPlain() const { return trained + frozen; }
  /// As many elements of `elementBytes` as take as long on the wire.
  int64_t countWireElements(double elementBytes) const {
    return countPlain() +
           static_cast<int64_t>(
               std::ceil(static_cast<double>(quantizedBytes) / elementBytes));
  }
  /// The largest of equal parts, rounded up to whole elements.
  ParameterElements getPart(int64_t parts) const;
  /// The shard of one of `ranks` ranks that share equally what `holders`
  /// devices hold as much of as this. Elements with moments in blocks come
  /// first, so the last shard has the fewest of them: as many at least.
  ParameterElements getShard(int64_t holders, int64_t ranks) const;

  /// Empty if the amounts make sense, else what is wrong with them.
  std::string check() const;
};

/// Parameters by unit of a model. Those that are tied are in the first and in
/// the last unit.
struct UnitElements {
  std::vector<ParameterElements> units;
  ParameterElements tied;

  int size() const { return static_cast<int>(units.size()); }
  /// Whether both units of the tied parameters are in [first, end).
  bool joinsTied(int first, int end) const {
    return first == 0 && end == size() && end > 1;
  }
  /// Parameters of units [first, end). Tied ones count once.
  ParameterElements count(int first, int end) const;
  /// Trained parameters in [first, end) that are tied to a unit outside.
  ParameterElements countTiedOutside(int first, int end) const;

  /// Empty if the amounts make sense, else what is wrong with them, and where.
  std::string check() const;
};

/// Parameters of units as the first of several devices that share them holds
/// them: its part, which is as large as any, and what all devices hold whole.
struct SharedElements {
  UnitElements part, whole;
};

/// Parameters of some units on such a device: the part that only these units
/// have, the part that is tied to a unit outside, and what is whole.
struct HeldElements {
  ParameterElements own, tied, whole;

  /// The parts of one of `degree` devices that share units [first, end) evenly.
  static HeldElements divideEvenly(const UnitElements &elements, int degree,
                                   int first, int end);
  static HeldElements of(const SharedElements &shared, int first, int end);
};

} // namespace poplar

#endif // POPLAR_PLANNER_MODEL_PARAMETERELEMENTS_H
