//===- ClusterReader.h - From JSON to the cluster dialect -------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_IMPORT_CLUSTERREADER_H
#define POPLAR_LIB_IMPORT_CLUSTERREADER_H

#include "Poplar/Dialect/Cluster/Cluster.h"
#include "Poplar/Support/JSON.h"
#include "mlir/IR/Builders.h"
#include <set>

namespace poplar {
struct DeviceSpecification;
} // namespace poplar

namespace poplar::import {

/// Checks what JSON can get wrong (types, ranges, unknown keys) and leaves the
/// rest to the verifiers of the ops it makes, whose locations are
/// "<file>: <path>". Errors are the document's.
class ClusterReader {
public:
  /// Ops are made at the end of `module`.
  ClusterReader(json::Document &document, llvm::StringRef file,
                mlir::ModuleOp module);

  void read();

private:
  void readDeviceType(const std::string &name, json::Value type);
  void readNode(json::Value node);
  void readLink(json::Value link);
  void readProfile(json::Value profile);

  /// Device types and nodes are symbols of one module.
  void claimName(json::Value place, const std::string &name);
  bool failed() const { return document.hasError(); }

  mlir::Location getLoc(json::Value value) const;
  mlir::FlatSymbolRefAttr getSymbol(json::Value value);
  llvm::SmallVector<mlir::Attribute> getDevices(json::Value devices);
  NumberFormat getPrecision(json::Value value) const;
  const DeviceSpecification *getDevice(json::Value device);
  mlir::DictionaryAttr getFlops(json::Value rates,
                                const DeviceSpecification *device);
  mlir::StringAttr getSource(json::Value type,
                             const DeviceSpecification *device);

  /// Absent values give null attributes.
  mlir::StringAttr getString(json::Value value);
  mlir::FloatAttr getReal(json::Value value);
  mlir::IntegerAttr getInteger(json::Value value);

  json::Document &document;
  std::string file;
  mlir::OpBuilder builder;
  std::set<std::string> names;
  int64_t numRanks = 0;
};

} // namespace poplar::import

#endif // POPLAR_LIB_IMPORT_CLUSTERREADER_H
