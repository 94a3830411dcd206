//===- Text.h - Numbers for people ------------------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_SUPPORT_TEXT_H
#define POPLAR_SUPPORT_TEXT_H

#include <cstdint>
#include <cstdio>
#include <string>

namespace poplar {

/// "1 step", "2 steps", "2 batches": `noun` is a regular one.
inline std::string formatCount(int64_t count, const std::string &noun) {
  const char *ending = noun.back() == 'h' ? "es" : "s";
  return std::to_string(count) + " " + noun + (count == 1 ? "" : ending);
}

/// "196.5 MiB", "78.50 GiB"; of less than a GiB in MiB.
inline std::string formatBytes(int64_t bytes) {
  bool isLarge = bytes >= int64_t(1) << 30;
  char text[32];
  std::snprintf(text, sizeof(text), isLarge ? "%.2f GiB" : "%.1f MiB",
                double(bytes) / (isLarge ? 1 << 30 : 1 << 20));
  return text;
}

/// What is missing, rounded up so that it suffices: "1.21 GiB", "3.1 MiB";
/// exact below a MiB.
inline std::string formatMissing(int64_t bytes) {
  constexpr int64_t mebi = int64_t(1) << 20, gibi = int64_t(1) << 30;
  if (bytes < mebi)
    return formatCount(bytes, "byte");
  int64_t step = bytes >= gibi ? gibi / 100 + 1 : mebi / 10 + 1;
  return formatBytes((bytes + step - 1) / step * step);
}

/// "2 steps, the last of 5": of so many micro-steps, with so many samples in
/// the last.
inline std::string formatSteps(int64_t steps, int64_t last) {
  return formatCount(steps, "step") +
         (steps == 1 ? "" : ", the last of " + std::to_string(last));
}

} // namespace poplar

#endif // POPLAR_SUPPORT_TEXT_H
