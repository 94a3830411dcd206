//===- ClusterOps.cpp - Syntax and verifiers of cluster ops ---------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Messages are also what users of cluster files read, where an op's location is
// a path in the file: they name things as both notations do.
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/Cluster/Cluster.h"
#include "Poplar/Support/Names.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Format.h"
#include <cmath>

using namespace mlir;
using namespace poplar;
using namespace poplar::cluster;

//===----------------------------------------------------------------------===//
// Syntax
//===----------------------------------------------------------------------===//

/// Reals may be written as integers. Where decimal digits do not tell a real
/// from an integer, MLIR prints the bits of the real in hexadecimal digits.
static ParseResult parseReal(OpAsmParser &parser, double &value) {
  SMLoc loc = parser.getCurrentLocation();
  if (loc.getPointer()[0] == '0' && loc.getPointer()[1] == 'x')
    return parser.parseFloat(value);
  Attribute attribute;
  if (parser.parseAttribute(attribute))
    return failure();
  if (auto real = dyn_cast<FloatAttr>(attribute))
    value = real.getValueAsDouble();
  else if (auto integer = dyn_cast<IntegerAttr>(attribute))
    value = integer.getValue().signedRoundToDouble();
  else
    return parser.emitError(loc, "expected a number");
  return success();
}

static ParseResult parseReal(OpAsmParser &parser, FloatAttr &attribute) {
  double value;
  if (parseReal(parser, value))
    return failure();
  attribute = parser.getBuilder().getF64FloatAttr(value);
  return success();
}

static void printReal(OpAsmPrinter &printer, Operation *, FloatAttr attribute) {
  printer.printFloat(attribute.getValue());
}

/// Printed so that they parse back to the last bit; a DenseArray prints seven
/// digits.
static ParseResult parseReals(OpAsmParser &parser,
                              DenseF64ArrayAttr &attribute) {
  SmallVector<double> values;
  if (parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Square, [&] {
        return parseReal(parser, values.emplace_back());
      }))
    return failure();
  attribute = parser.getBuilder().getDenseF64ArrayAttr(values);
  return success();
}

static void printReals(OpAsmPrinter &printer, Operation *,
                       DenseF64ArrayAttr attribute) {
  printer << "[";
  llvm::interleaveComma(attribute.asArrayRef(), printer, [&](double value) {
    printer.printFloat(APFloat(value));
  });
  printer << "]";
}

/// `{bf16 = 3.12e+14, f32 = 1.95e+13}`
static ParseResult parseFlops(OpAsmParser &parser, DictionaryAttr &attribute) {
  NamedAttrList entries;
  auto parseEntry = [&]() -> ParseResult {
    StringRef name;
    double value;
    SMLoc loc = parser.getCurrentLocation();
    if (parser.parseKeyword(&name) || parser.parseEqual() ||
        parseReal(parser, value))
      return failure();
    if (entries.get(name))
      return parser.emitError(loc) << "'" << name << "' is given twice";
    entries.set(name, parser.getBuilder().getF64FloatAttr(value));
    return success();
  };
  if (parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Braces,
                                     parseEntry))
    return failure();
  attribute = entries.getDictionary(parser.getContext());
  return success();
}

static void printFlops(OpAsmPrinter &printer, Operation *,
                       DictionaryAttr attribute) {
  printer << "{";
  llvm::interleaveComma(attribute, printer, [&](NamedAttribute entry) {
    printer << entry.getName().getValue() << " = ";
    printer.printFloat(cast<FloatAttr>(entry.getValue()).getValue());
  });
  printer << "}";
}

/// `[4 x @a100, @v100]`
static ParseResult parseDevices(OpAsmParser &parser, ArrayAttr &attribute) {
  SmallVector<Attribute> devices;
  auto parseRun = [&]() -> ParseResult {
    int64_t count = 1;
    SMLoc loc = parser.getCurrentLocation();
    OptionalParseResult hasCount = parser.parseOptionalInteger(count);
    if (hasCount.has_value()) {
      if (*hasCount)
        return failure();
      if (count < 1 || count > kMaxDevicesPerNode)
        return parser.emitError(loc)
               << "expected a count from 1 to " << kMaxDevicesPerNode
               << ", found " << count;
      if (parser.parseKeyword("x"))
        return failure();
    }
    StringAttr type;
    if (parser.parseSymbolName(type))
      return failure();
    devices.append(count, FlatSymbolRefAttr::get(type));
    return success();
  };
  if (parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Square, parseRun))
    return failure();
  attribute = parser.getBuilder().getArrayAttr(devices);
  return success();
}

static void printDevices(OpAsmPrinter &printer, Operation *,
                         ArrayAttr attribute) {
  ArrayRef<Attribute> devices = attribute.getValue();
  printer << "[";
  for (size_t begin = 0, end; begin < devices.size(); begin = end) {
    end = begin + 1;
    while (end < devices.size() && devices[end] == devices[begin])
      ++end;
    if (begin)
      printer << ", ";
    if (end - begin > 1)
      printer << end - begin << " x ";
    printer << devices[begin];
  }
  printer << "]";
}

/// `between @a and @b`, `between nodes`, `from @a to @b`, `inside @a` or
/// `inside nodes`.
static ParseResult parseEnds(OpAsmParser &parser, LinkKindAttr &kind,
                             FlatSymbolRefAttr &first,
                             FlatSymbolRefAttr &second) {
  SMLoc loc = parser.getCurrentLocation();
  StringRef keyword;
  if (parser.parseKeyword(&keyword))
    return failure();
  std::optional<LinkKind> parsed = symbolizeLinkKind(keyword);
  if (!parsed)
    return parser.emitError(loc, "expected 'between', 'from' or 'inside'");
  kind = LinkKindAttr::get(parser.getContext(), *parsed);
  if (*parsed != LinkKind::FromTo &&
      succeeded(parser.parseOptionalKeyword("nodes")))
    return success();
  if (parser.parseAttribute(first))
    return failure();
  if (*parsed == LinkKind::Inside)
    return success();
  return failure(
      parser.parseKeyword(*parsed == LinkKind::Between ? "and" : "to") ||
      parser.parseAttribute(second));
}

static void printEnds(OpAsmPrinter &printer, Operation *, LinkKindAttr kind,
                      FlatSymbolRefAttr first, FlatSymbolRefAttr second) {
  printer << stringifyLinkKind(kind.getValue());
  if (!first) {
    printer << " nodes";
    return;
  }
  printer << " " << first;
  if (second)
    printer << (kind.getValue() == LinkKind::Between ? " and " : " to ")
            << second;
}

#define GET_OP_CLASSES
#include "Poplar/Dialect/Cluster/ClusterOps.cpp.inc"

//===----------------------------------------------------------------------===//
// What verifiers share
//===----------------------------------------------------------------------===//

static constexpr int64_t kMaxThreads = 4096;
static constexpr int64_t kMaxMicroBatch = int64_t(1) << 31;

/// With the digits a person would write.
static std::string show(double value) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%.6g", value);
  return text;
}

static LogicalResult expectRange(Operation *op, StringRef name,
                                 std::optional<int64_t> value, int64_t minimum,
                                 int64_t maximum) {
  if (!value || (*value >= minimum && *value <= maximum))
    return success();
  return op->emitError() << name << " is " << *value << ", expected " << minimum
                         << " to " << maximum;
}

static LogicalResult expectPositive(Operation *op, const Twine &name,
                                    double value) {
  if (value > 0 && std::isfinite(value))
    return success();
  return op->emitError() << name << " is " << show(value)
                         << ", expected a finite number above 0";
}

static LogicalResult expectNotNegative(Operation *op, const Twine &name,
                                       double value) {
  if (value >= 0 && std::isfinite(value))
    return success();
  return op->emitError() << name << " is " << show(value)
                         << ", expected a finite number, not negative";
}

/// A time that plans may add up and multiply: 30 years are enough.
static LogicalResult expectSeconds(Operation *op, const Twine &name,
                                   double value, bool mayBeZero) {
  constexpr double most = 1e9;
  if (failed(mayBeZero ? expectNotNegative(op, name, value)
                       : expectPositive(op, name, value)))
    return failure();
  if (value <= most)
    return success();
  return op->emitError() << name << " is " << show(value)
                         << ", expected at most " << show(most) << " seconds";
}

/// `what` it is that has the name.
static LogicalResult verifyName(Operation *op, StringRef what, StringRef name) {
  if (isName(name))
    return success();
  return op->emitError() << what << " has the name " << showName(name) << ": "
                         << describeNameRule();
}

static LogicalResult verifyRecompute(Operation *op, StringAttr policy) {
  if (!policy || parseRecomputation(policy.getValue()))
    return success();
  return op->emitError() << "unknown recompute policy '" << policy.getValue()
                         << "' (known: " << describeRecomputations() << ")";
}

/// `symbol` must name an OpTy of the module; `what` is that in words.
template <typename OpTy>
static FailureOr<OpTy> findSymbol(Operation *op, SymbolTableCollection &symbols,
                                  FlatSymbolRefAttr symbol, StringRef what) {
  if (auto found = symbols.lookupNearestSymbolFrom<OpTy>(op, symbol))
    return found;
  InFlightDiagnostic diag = op->emitError()
                            << "unknown " << what << " " << symbol;
  // A typing error is seen soonest beside what could have been meant.
  constexpr size_t maxShown = 8;
  SmallVector<OpTy> known(cast<ModuleOp>(op->getParentOp()).getOps<OpTy>());
  if (known.empty())
    return diag << " (there is none)";
  diag << " (known: ";
  llvm::interleaveComma(
      ArrayRef<OpTy>(known).take_front(maxShown), diag,
      [&](OpTy candidate) { diag << "@" << candidate.getSymName(); });
  return diag << (known.size() > maxShown ? ", ...)" : ")");
}

//===----------------------------------------------------------------------===//
// device_type
//===----------------------------------------------------------------------===//

LogicalResult DeviceTypeOp::verify() {
  if (failed(verifyName(*this, "a device type", getSymName())))
    return failure();
  const TargetInfo *target = findTargetInfo(getTarget());
  if (!target) {
    InFlightDiagnostic diag = emitError() << "unknown target '" << getTarget()
                                          << "' (known: ";
    llvm::interleaveComma(getTargetInfos(), diag, [&](const TargetInfo &known) {
      diag << StringRef(known.name);
    });
    return diag << ")";
  }
  if (!llvm::is_contained(target->formats, getPrecision())) {
    InFlightDiagnostic diag = emitError()
                              << "'" << getTarget() << "' has no "
                              << toString(getPrecision()) << ": use precision ";
    llvm::interleave(
        target->formats, diag,
        [&](NumberFormat format) { diag << toString(format); }, " or ");
    return diag;
  }
  if (!getMemory())
    return emitError("device type @")
           << getSymName() << " has no memory: say how many bytes a rank may "
           << "use";
  if (failed(expectRange(*this, "memory", getMemory(), 1, kMaxBytes)) ||
      failed(expectRange(*this, "threads", getThreads(), 1, kMaxThreads)) ||
      failed(verifyRecompute(*this, getRecomputeAttr())))
    return failure();
  if (getThreads() && !target->getKind().isHost())
    return emitError("threads are for host targets, not for '")
           << getTarget() << "'";
  if (getBandwidth() &&
      failed(expectPositive(*this, "bandwidth",
                            getBandwidth()->convertToDouble())))
    return failure();
  if (getPower() &&
      failed(expectPositive(*this, "power", getPower()->convertToDouble())))
    return failure();
  if (getPrice() &&
      failed(expectNotNegative(*this, "price", getPrice()->convertToDouble())))
    return failure();
  DictionaryAttr flops = getFlopsAttr();
  if (!flops)
    return success();
  for (NamedAttribute entry : flops) {
    StringRef name = entry.getName();
    if (!parseWord<NumberFormat>(name))
      return emitError("flops are given for '")
             << name << "', expected f32, tf32, bf16 or f16";
    auto value = dyn_cast<FloatAttr>(entry.getValue());
    if (!value || !value.getType().isF64())
      return emitError("flops of ") << name << " are not an f64";
    if (failed(expectPositive(*this, "flops of " + name,
                              value.getValueAsDouble())))
      return failure();
  }
  return success();
}

//===----------------------------------------------------------------------===//
// The cluster as a whole
//===----------------------------------------------------------------------===//

namespace {
/// Links by ordered pair of nodes, for what no op can see alone.
class Topology {
public:
  explicit Topology(ModuleOp module) : module(module) {}

  /// - No direction between two nodes, and no inside of a node, has two links;
  ///   nor are there two defaults of a kind.
  /// - Names of nodes, and of device types, differ by more than case: hosts
  ///   and directories of some file systems are told apart by no less.
  /// - There are not too many devices.
  /// - Any two devices have a link.
  LogicalResult verify() {
    for (LinkOp link : module.getOps<LinkOp>())
      if (failed(add(link)))
        return failure();
    return failure(failed(verifyNames<NodeOp>("nodes")) ||
                   failed(verifyNames<DeviceTypeOp>("device types")) ||
                   failed(verifySize()) || failed(verifyReachable()));
  }

private:
  /// Null names stand for the default.
  using Key = std::pair<Attribute, Attribute>;

  LogicalResult add(LinkOp link, Key key) {
    auto [entry, isNew] = links.try_emplace(key, link);
    if (isNew)
      return success();
    InFlightDiagnostic diag = link.emitError("a second link ");
    bool inside = link.getKind() == LinkKind::Inside;
    if (link.isDefault())
      diag << (inside ? "inside nodes" : "between nodes");
    else if (inside)
      diag << "inside " << key.first;
    else
      diag << "from " << key.first << " to " << key.second;
    diag.attachNote(entry->second.getLoc()) << "the first is here";
    return diag;
  }

  LogicalResult add(LinkOp link) {
    Attribute first = link.getFirstAttr(), second = link.getSecondAttr();
    if (link.getKind() == LinkKind::Inside)
      return first ? add(link, {first, first}) : addDefault(link, hasInside);
    if (!first)
      return addDefault(link, hasBetween);
    if (failed(add(link, {first, second})))
      return failure();
    return link.getKind() == LinkKind::Between ? add(link, {second, first})
                                               : success();
  }

  LogicalResult addDefault(LinkOp link, bool &isThere) {
    isThere = true;
    auto kind = link.getKindAttr();
    return add(link, {kind, kind});
  }

  template <typename OpTy> LogicalResult verifyNames(StringRef what) {
    llvm::StringMap<OpTy> known;
    for (OpTy op : module.getOps<OpTy>()) {
      auto [entry, isNew] = known.try_emplace(op.getSymName().lower(), op);
      if (isNew)
        continue;
      InFlightDiagnostic diag = op.emitError()
                                << what << " @" << entry->second.getSymName()
                                << " and @" << op.getSymName()
                                << " have names that differ only by case";
      diag.attachNote(entry->second.getLoc()) << "the other is here";
      return diag;
    }
    return success();
  }

  LogicalResult verifySize() {
    int64_t numRanks = 0;
    for (NodeOp node : module.getOps<NodeOp>())
      if ((numRanks += node.getDevices().size()) > kMaxRanks)
        return node.emitError("node @")
               << node.getSymName() << " exceeds the limit of " << kMaxRanks
               << " devices";
    return success();
  }

  LogicalResult verifyReachable() {
    SmallVector<std::pair<NodeOp, Attribute>> nodes;
    for (NodeOp node : module.getOps<NodeOp>())
      nodes.emplace_back(node, FlatSymbolRefAttr::get(node.getSymNameAttr()));
    for (auto [node, name] : nodes) {
      if (!hasInside && node.getDevices().size() > 1 &&
          !links.contains({name, name}))
        return node.emitError("node ")
               << name << " has " << node.getDevices().size()
               << " devices, but there is no link inside it and no default "
               << "(inside nodes)";
      if (hasBetween)
        continue;
      for (auto [other, otherName] : nodes)
        if (other != node && !links.contains({otherName, name}))
          return node.emitError("node ")
                 << name << " cannot be reached from " << otherName
                 << ": there is no link and no default (between nodes)";
    }
    return success();
  }

  ModuleOp module;
  llvm::DenseMap<Key, LinkOp> links;
  bool hasInside = false, hasBetween = false;
};
} // namespace

/// The whole is verified once, by the last op that is part of it: the others'
/// references are known to be good by then.
static LogicalResult verifyTopology(Operation *op) {
  auto module = cast<ModuleOp>(op->getParentOp());
  for (Operation &other : llvm::reverse(*module.getBody()))
    if (isa<NodeOp, LinkOp>(other))
      return op == &other ? Topology(module).verify() : success();
  return success();
}

LogicalResult NodeOp::verifySymbolUses(SymbolTableCollection &symbols) {
  Attribute known;
  for (auto device : getDevices().getAsRange<FlatSymbolRefAttr>()) {
    if (device == known)
      continue;
    if (failed(findSymbol<DeviceTypeOp>(*this, symbols, device, "device type")))
      return failure();
    known = device;
  }
  return verifyTopology(*this);
}

LogicalResult NodeOp::verify() {
  if (failed(verifyName(*this, "a node", getSymName())))
    return failure();
  if (getDevices().empty())
    return emitError("node @") << getSymName() << " has no devices";
  if (static_cast<int64_t>(getDevices().size()) > kMaxDevicesPerNode)
    return emitError("node @")
           << getSymName() << " has " << getDevices().size()
           << " devices, expected at most " << kMaxDevicesPerNode;
  return success();
}

//===----------------------------------------------------------------------===//
// link
//===----------------------------------------------------------------------===//

LogicalResult LinkOp::verify() {
  bool inside = getKind() == LinkKind::Inside;
  if (inside ? getSecond().has_value()
             : getFirst().has_value() != getSecond().has_value())
    return emitError("a link '")
           << stringifyLinkKind(getKind()) << "' "
           << (inside ? "names at most one node" : "names two nodes");
  if (getKind() == LinkKind::FromTo && !getFirst())
    return emitError("a link 'from' names two nodes");
  if (!inside && getFirst() && getFirst() == getSecond())
    return emitError("joins ")
           << getFirstAttr() << " with itself: use 'inside'";
  if (failed(
          expectNotNegative(*this, "latency", getLatency().convertToDouble())))
    return failure();
  if (getOverhead() &&
      failed(expectNotNegative(*this, "overhead",
                               getOverhead()->convertToDouble())))
    return failure();
  return expectPositive(*this, "bandwidth", getBandwidth().convertToDouble());
}

LogicalResult LinkOp::verifySymbolUses(SymbolTableCollection &symbols) {
  for (FlatSymbolRefAttr end : {getFirstAttr(), getSecondAttr()})
    if (end && failed(findSymbol<NodeOp>(*this, symbols, end, "node")))
      return failure();
  return verifyTopology(*this);
}

//===----------------------------------------------------------------------===//
// profile
//===----------------------------------------------------------------------===//

/// - ZeRO stages are 0 to 3.
/// - Micro-batches increase from at least 1 to at most `max_micro_batch`.
/// - As many times as micro-batches, all above 0, and as many spreads, if any.
/// - At least two points, unless fewer micro-batches fit.
LogicalResult ProfileOp::verify() {
  if (static_cast<int64_t>(getStage()) < 0 || getStage() > 3)
    return emitError("stage is ")
           << static_cast<int64_t>(getStage()) << ", expected 0 to 3";
  ArrayRef<int64_t> batches = getMicroBatches();
  if (getSeconds().size() != batches.size())
    return emitError("has ") << batches.size() << " micro-batches but "
                             << getSeconds().size() << " times";
  if (getSpread() && getSpread()->size() != batches.size())
    return emitError("has ") << batches.size() << " micro-batches but "
                             << getSpread()->size() << " spreads";
  if (failed(expectRange(*this, "max_micro_batch", getMaxMicroBatch(), 0,
                         kMaxMicroBatch)))
    return failure();
  size_t needed = std::min<uint64_t>(2, getMaxMicroBatch().value_or(2));
  if (batches.size() < needed)
    return emitError("a curve needs at least ")
           << needed << " point" << (needed > 1 ? "s" : "") << ", this has "
           << batches.size();
  for (auto [i, batch] : llvm::enumerate(batches)) {
    if (failed(expectRange(*this, "micro-batch", batch, 1, kMaxMicroBatch)))
      return failure();
    if (i && batch <= batches[i - 1])
      return emitError("micro-batches must increase: ")
             << batch << " follows " << batches[i - 1];
    if (getMaxMicroBatch() && batch > static_cast<int64_t>(*getMaxMicroBatch()))
      return emitError("has a time of micro-batch ")
             << batch << ", but the largest that fits is "
             << *getMaxMicroBatch();
    if (failed(expectSeconds(*this, "time of micro-batch " + Twine(batch),
                             getSeconds()[i], /*mayBeZero=*/false)) ||
        (getSpread() &&
         failed(expectSeconds(*this, "spread of micro-batch " + Twine(batch),
                              (*getSpread())[i], /*mayBeZero=*/true))))
      return failure();
  }
  if (getFixedBytes().has_value() != getBytesPerSample().has_value())
    return emitError("memory needs both its fixed and its per-sample part");
  if (failed(
          expectRange(*this, "fixed memory", getFixedBytes(), 0, kMaxBytes)) ||
      failed(expectRange(*this, "memory per sample", getBytesPerSample(), 0,
                         kMaxBytes)))
    return failure();
  if (getOptimizer() && failed(expectSeconds(*this, "optimizer",
                                             getOptimizer()->convertToDouble(),
                                             /*mayBeZero=*/true)))
    return failure();
  if (failed(verifyRecompute(*this, getRecomputeAttr())))
    return failure();
  if (DictionaryAttr versions = getVersionsAttr())
    for (NamedAttribute entry : versions)
      if (!isa<StringAttr>(entry.getValue()))
        return emitError("version of ")
               << entry.getName() << " is not a string";
  return success();
}

LogicalResult ProfileOp::verifySymbolUses(SymbolTableCollection &symbols) {
  FailureOr<DeviceTypeOp> type = findSymbol<DeviceTypeOp>(
      *this, symbols, getDeviceTypeAttr(), "device type");
  if (failed(type))
    return failure();
  const TargetInfo *target = findTargetInfo(type->getTarget());
  if (getPrecision() && target &&
      !llvm::is_contained(target->formats, *getPrecision()))
    return emitError("has precision ")
           << toString(*getPrecision()) << ", which '" << type->getTarget()
           << "' does not support";
  // What a plan looks a profile up by must find one.
  auto isSame = [&](ProfileOp other) {
    auto precision = [&](ProfileOp op) {
      return op.getPrecision().value_or(type->getPrecision());
    };
    auto recompute = [&](ProfileOp op) {
      return op.getRecompute().value_or(type->getRecompute());
    };
    return getDeviceTypeAttr() == other.getDeviceTypeAttr() &&
           getStage() == other.getStage() && getModel() == other.getModel() &&
           getEstimate() == other.getEstimate() &&
           precision(*this) == precision(other) &&
           recompute(*this) == recompute(other);
  };
  for (auto other :
       cast<ModuleOp>((*this)->getParentOp()).getOps<ProfileOp>()) {
    if (other == *this)
      break;
    if (!isSame(other))
      continue;
    InFlightDiagnostic diag =
        emitError("a second profile of ")
        << getDeviceTypeAttr() << " in stage " << getStage()
        << " for the same model, precision and recompute policy";
    diag.attachNote(other.getLoc()) << "the first is here";
    return diag;
  }
  return success();
}
