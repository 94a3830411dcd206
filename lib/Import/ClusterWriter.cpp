//===- ClusterWriter.cpp - From the cluster dialect to JSON ---------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/Cluster/Cluster.h"
#include "Poplar/Import/Cluster.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/JSON.h"
#include <charconv>

using namespace mlir;
using namespace poplar;
using namespace poplar::cluster;

namespace {
class Writer {
public:
  explicit Writer(llvm::raw_ostream &stream) : os(stream, /*IndentSize=*/2) {}
  void write(ModuleOp module);

private:
  void write(DeviceTypeOp op);
  void write(NodeOp op);
  void write(LinkOp op);
  void write(ProfileOp op);

  /// A member of the object at hand, left out where there is no value.
  void write(StringRef key, StringAttr value) {
    if (value)
      os.attribute(key, value.getValue());
  }
  void write(StringRef key, IntegerAttr value) {
    if (value)
      os.attribute(key, value.getInt());
  }
  void write(StringRef key, FloatAttr value) {
    if (!value)
      return;
    os.attributeBegin(key);
    writeReal(value.getValueAsDouble());
    os.attributeEnd();
  }
  void write(StringRef key, DenseF64ArrayAttr values) {
    if (values)
      os.attributeArray(key, [&] {
        for (double value : values.asArrayRef())
          writeReal(value);
      });
  }
  /// As short as it can be and still be read as the same number.
  void writeReal(double value) {
    char text[32];
    os.rawValue(
        StringRef(text, std::to_chars(text, std::end(text), value).ptr - text));
  }
  template <typename OpTy> void writeEach(StringRef key, ModuleOp module) {
    if (!module.getOps<OpTy>().empty())
      os.attributeArray(key, [&] {
        for (OpTy op : module.getOps<OpTy>())
          os.object([&] { write(op); });
      });
  }

  llvm::json::OStream os;
};
} // namespace

void Writer::write(DeviceTypeOp op) {
  write("target", op.getTargetAttr());
  write("memory", op.getMemoryAttr());
  os.attribute("precision", toString(op.getPrecision()));
  // Whoever reads it takes it for a wish.
  if (op.getFixedRecompute())
    write("recompute", op.getRecomputeAttr());
  if (DictionaryAttr flops = op.getFlopsAttr())
    os.attributeObject("flops", [&] {
      for (NamedAttribute entry : flops)
        write(entry.getName().getValue(), cast<FloatAttr>(entry.getValue()));
    });
  write("bandwidth", op.getBandwidthAttr());
  write("power", op.getPowerAttr());
  write("price", op.getPriceAttr());
  write("threads", op.getThreadsAttr());
  write("source", op.getSourceAttr());
}

void Writer::write(NodeOp op) {
  write("name", op.getSymNameAttr());
  SmallVector<StringRef> types;
  for (auto type : op.getDevices().getAsRange<FlatSymbolRefAttr>())
    types.push_back(type.getValue());
  // Counts are read in the order of names.
  if (!llvm::is_sorted(types)) {
    os.attributeArray("devices", [&] {
      for (StringRef type : types)
        os.value(type);
    });
    return;
  }
  os.attributeObject("devices", [&] {
    for (ArrayRef<StringRef> rest = types; !rest.empty();) {
      int64_t count =
          rest.take_while([&](StringRef type) { return type == rest.front(); })
              .size();
      os.attribute(rest.front(), count);
      rest = rest.drop_front(count);
    }
  });
}

void Writer::write(LinkOp op) {
  if (op.getKind() == LinkKind::FromTo) {
    os.attribute("from", *op.getFirst());
    os.attribute("to", *op.getSecond());
  } else if (op.isDefault()) {
    os.attribute(stringifyLinkKind(op.getKind()), "nodes");
  } else {
    os.attributeArray(stringifyLinkKind(op.getKind()), [&] {
      os.value(*op.getFirst());
      if (op.getSecond())
        os.value(*op.getSecond());
    });
  }
  write("latency", op.getLatencyAttr());
  write("bandwidth", op.getBandwidthAttr());
  write("overhead", op.getOverheadAttr());
  write("source", op.getSourceAttr());
}

void Writer::write(ProfileOp op) {
  os.attribute("device_type", op.getDeviceType());
  write("stage", op.getStageAttr());
  os.attributeArray("micro_batches", [&] {
    for (int64_t batch : op.getMicroBatches())
      os.value(batch);
  });
  write("seconds", op.getSecondsAttr());
  write("spread", op.getSpreadAttr());
  write("max_micro_batch", op.getMaxMicroBatchAttr());
  if (op.getFixedBytes())
    os.attributeObject("memory", [&] {
      write("fixed", op.getFixedBytesAttr());
      write("per_sample", op.getBytesPerSampleAttr());
    });
  write("optimizer", op.getOptimizerAttr());
  if (op.getPrecision())
    os.attribute("precision", toString(*op.getPrecision()));
  write("recompute", op.getRecomputeAttr());
  if (op.getEstimate())
    os.attribute("estimate", true);
  write("model", op.getModelAttr());
  write("machine", op.getMachineAttr());
  if (DictionaryAttr versions = op.getVersionsAttr())
    os.attributeObject("versions", [&] {
      for (NamedAttribute entry : versions)
        write(entry.getName().getValue(), cast<StringAttr>(entry.getValue()));
    });
  write("source", op.getSourceAttr());
}

void Writer::write(ModuleOp module) {
  os.object([&] {
    if (!module.getOps<DeviceTypeOp>().empty())
      os.attributeObject("device_types", [&] {
        for (DeviceTypeOp type : module.getOps<DeviceTypeOp>())
          os.attributeObject(type.getSymName(), [&] { write(type); });
      });
    writeEach<NodeOp>("nodes", module);
    writeEach<LinkOp>("links", module);
    writeEach<ProfileOp>("profiles", module);
  });
}

std::string poplar::exportClusterJSON(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  Writer(stream).write(module);
  return text + "\n";
}
