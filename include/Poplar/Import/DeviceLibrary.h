//===- DeviceLibrary.h - What vendors publish of devices --------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Figures of device types that need not be at hand. They are read from
// lib/Import/DeviceLibrary.json, which is part of the tool: nothing is looked
// up at run time. Units: bytes, bytes per second, FLOP per second.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_IMPORT_DEVICELIBRARY_H
#define POPLAR_IMPORT_DEVICELIBRARY_H

#include "Poplar/Support/Words.h"
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace poplar {

struct DeviceSpecification {
  /// What cluster files call it, such as "a100-40", and what its vendor does.
  std::string key, name;
  /// A target of docs/cluster-file.md.
  std::string target;
  /// The device's memory, and what of it the driver, its context, buffers of
  /// the collectives and inline ECC take.
  int64_t memory = 0, reserved = 0;
  double bandwidth = 0;
  /// The limit of the board, in watts; of a package with two dies, half.
  double power = 0;
  /// Dense matrix products with f32 sums, by format of the factors.
  std::map<NumberFormat, double> flops;
  /// Between devices of one node, in each direction.
  std::string linkKind;
  double linkBandwidth = 0;
  /// Where each figure is published.
  std::string memorySource, bandwidthSource, powerSource, flopsSource,
      linkSource;

  /// Bytes that a rank may use.
  int64_t getUsableMemory() const { return memory - reserved; }
};

class DeviceLibrary {
public:
  /// Nothing if `text` is no device library; `error` then says, in one line
  /// that begins with `name`, what is wrong and where.
  static std::optional<DeviceLibrary>
  parse(const std::string &text, const std::string &name, std::string &error);

  /// Null if there is none of this name.
  const DeviceSpecification *find(const std::string &key) const;
  /// The names that differ least from `key`, the nearest first.
  std::vector<std::string> findNearest(const std::string &key) const;

  /// In the order of their names.
  const std::vector<DeviceSpecification> &getDevices() const { return devices; }
  /// Why as much memory is reserved as is.
  const std::string &getReservedSource() const { return reservedSource; }

private:
  std::vector<DeviceSpecification> devices;
  std::string reservedSource;
};

/// The library that is part of the tool; null, with `error` set, where its
/// file was broken when the tool was built.
const DeviceLibrary *getDeviceLibrary(std::string &error);
/// Its file.
const char *getDeviceLibraryText();

} // namespace poplar

#endif // POPLAR_IMPORT_DEVICELIBRARY_H
