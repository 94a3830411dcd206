//===- ZeroDialect.cpp - The zero dialect ---------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Dialect/Zero/OptimizerStates.h"
#include "Poplar/Dialect/Zero/ParameterParts.h"
#include "Poplar/Dialect/Zero/ZeroExchange.h"
#include "Poplar/Planner/Model/WireFormat.h"
#include "Poplar/Runtime/Quantized.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace poplar;
using namespace poplar::zero;

#include "Poplar/Dialect/Zero/ZeroDialect.cpp.inc"
#include "Poplar/Dialect/Zero/ZeroEnums.cpp.inc"
#include "Poplar/Dialect/Zero/ZeroInterfaces.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "Poplar/Dialect/Zero/ZeroTypes.cpp.inc"

void ZeroDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "Poplar/Dialect/Zero/ZeroOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "Poplar/Dialect/Zero/ZeroExchangeOps.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "Poplar/Dialect/Zero/ZeroTypes.cpp.inc"
      >();
}

static LogicalResult verifyParts(Operation *op, Attribute attribute) {
  auto parts = dyn_cast<ArrayAttr>(attribute);
  if (isa<nn::ParameterOp>(op) && parts && parts.size() > 1 &&
      llvm::all_of(parts, llvm::IsaPred<FlatSymbolRefAttr>))
    return success();
  return op->emitError()
         << kPartsAttr
         << " must be a list of two or more parameters on a parameter";
}

LogicalResult ZeroDialect::verifyOperationAttribute(Operation *op,
                                                    NamedAttribute attribute) {
  if (attribute.getName() == kPartsAttr)
    return verifyParts(op, attribute.getValue());
  if (attribute.getName() != kTurnAttr)
    return op->emitError() << attribute.getName()
                           << " is not an attribute of an operation";
  auto chunk = dyn_cast<IntegerAttr>(attribute.getValue());
  if (!isa<func::FuncOp>(op) || !chunk || chunk.getInt() < 0)
    return op->emitError() << kTurnAttr
                           << " must be the number of a chunk on a function";
  return success();
}

/// Verifies attributes of arguments and results of a turn.
static LogicalResult verifyTurnValue(Operation *op, NamedAttribute attribute,
                                     ArrayRef<StringRef> places) {
  if (attribute.getName() == kResidualAttr) {
    auto number = dyn_cast<IntegerAttr>(attribute.getValue());
    if (number && number.getInt() >= 0)
      return success();
    return op->emitError() << kResidualAttr
                           << " must be the number of a residual";
  }
  if (llvm::is_contained(places, attribute.getName()) &&
      isa<UnitAttr>(attribute.getValue()))
    return success();
  return op->emitError() << attribute.getName()
                         << " is not an attribute of arguments or results";
}

LogicalResult ZeroDialect::verifyRegionArgAttribute(Operation *op, unsigned,
                                                    unsigned,
                                                    NamedAttribute attribute) {
  return verifyTurnValue(op, attribute, {kReceivedAttr, kSentAttr});
}

LogicalResult
ZeroDialect::verifyRegionResultAttribute(Operation *op, unsigned, unsigned,
                                         NamedAttribute attribute) {
  return verifyTurnValue(op, attribute, {});
}

//===----------------------------------------------------------------------===//
// ProgramInfo
//===----------------------------------------------------------------------===//

FloatType zero::getFloatType(MLIRContext *context, NumberFormat format) {
  switch (format) {
  case NumberFormat::F32:
  case NumberFormat::TF32:
    return Float32Type::get(context);
  case NumberFormat::BF16:
    return BFloat16Type::get(context);
  case NumberFormat::F16:
    return Float16Type::get(context);
  }
  llvm_unreachable("unknown number format");
}

Type zero::getWireType(MLIRContext *context, WireFormat wire) {
  switch (wire) {
  case WireFormat::F32:
    return Float32Type::get(context);
  case WireFormat::BF16:
    return BFloat16Type::get(context);
  case WireFormat::F16:
    return Float16Type::get(context);
  case WireFormat::I8:
    return IntegerType::get(context, 8);
  }
  llvm_unreachable("unknown wire format");
}

double zero::getElementBytes(Type wire) {
  return wire.isSignlessInteger() ? poplar::getElementBytes(WireFormat::I8)
                                  : wire.getIntOrFloatBitWidth() / 8.0;
}

ProgramOp zero::getProgram(ModuleOp module) {
  auto programs = module.getOps<ProgramOp>();
  return programs.empty() ? ProgramOp() : *programs.begin();
}

/// The inverse of getWireType.
static WireFormat getWireFormat(Type type) {
  return type.isF32()    ? WireFormat::F32
         : type.isBF16() ? WireFormat::BF16
         : type.isF16()  ? WireFormat::F16
                         : WireFormat::I8;
}

/// The inverse of getFloatType.
static NumberFormat getNumberFormat(Type type) {
  return type.isBF16()  ? NumberFormat::BF16
         : type.isF16() ? NumberFormat::F16
                        : NumberFormat::F32;
}

ProgramInfo ProgramInfo::get(ModuleOp module) {
  ProgramInfo info;
  ProgramOp op = getProgram(module);
  if (!op)
    return info;
  info.deviceType = op.getDeviceType().str();
  info.target = op.getTarget().str();
  info.precision = op.getPrecision();
  info.wire = getWireFormat(op.getWire());
  info.gradientWire = getWireFormat(op.getGradientWire());
  info.hasLossyParameters = op.getLossyParameters();
  info.recompute = op.getRecompute();
  info.stage = op.getStage();
  info.worldSize = op.getWorldSize();
  info.replicas = op.getReplicas();
  info.mixedRecompute = op.getMixedRecompute();
  info.scaled = op.getScaled();
  if (std::optional<Type> received = op.getReceived())
    info.received = getNumberFormat(*received);
  if (std::optional<Type> sent = op.getSent())
    info.sent = getNumberFormat(*sent);
  info.group = op.getGroup();
  info.numGroups = op.getGroups();
  info.numChunks = op.getChunks();
  if (std::optional<ArrayRef<int64_t>> parts = op.getParts())
    info.parts = SmallVector<int64_t, 0>(*parts);
  info.position = op.getPosition();
  if (std::optional<llvm::APFloat> bandwidth = op.getSharersBandwidth())
    info.sharersBandwidth = bandwidth->convertToDouble();
  return info;
}

ProgramOp ProgramInfo::create(OpBuilder &builder, Location location) const {
  MLIRContext *context = builder.getContext();
  auto type = [&](std::optional<NumberFormat> format) {
    return format ? TypeAttr::get(getFloatType(context, *format)) : TypeAttr();
  };
  auto flag = [&](bool isSet) {
    return isSet ? builder.getUnitAttr() : UnitAttr();
  };
  return ProgramOp::create(
      builder, location, builder.getStringAttr(deviceType),
      builder.getStringAttr(target), cluster::getFormatAttr(context, precision),
      TypeAttr::get(getWireType(context, wire)),
      TypeAttr::get(getWireType(context, gradientWire)),
      flag(hasLossyParameters), builder.getStringAttr(toString(recompute)),
      builder.getI64IntegerAttr(stage), builder.getI64IntegerAttr(worldSize),
      builder.getI64IntegerAttr(replicas), flag(mixedRecompute), flag(scaled),
      type(received), type(sent), builder.getI64IntegerAttr(group),
      builder.getI64IntegerAttr(numGroups),
      builder.getI64IntegerAttr(numChunks),
      sharesUnits() ? builder.getDenseI64ArrayAttr(parts) : DenseI64ArrayAttr(),
      builder.getI64IntegerAttr(position),
      sharersBandwidth ? builder.getF64FloatAttr(sharersBandwidth)
                       : FloatAttr());
}

std::string ProgramInfo::getProgramName() const {
  std::string name = deviceType;
  if (isPipelineStage())
    name += ".stage" + std::to_string(group);
  if (sharesUnits() && !joinsParts(*this))
    name += ".part" + std::to_string(position);
  return name;
}

std::string ProgramInfo::getTurnName(nn::Entry pass, int64_t chunk) const {
  return nn::getName(pass).str() +
         (numChunks > 1 ? ".chunk" + std::to_string(chunk) : "");
}

int64_t ProgramInfo::getOwnChunk(MessageKind kind, bool sends,
                                 int64_t otherGroup, int64_t otherChunk) const {
  bool isOtherBehind = (kind == MessageKind::Activation) == sends;
  int64_t place =
      otherChunk * numGroups + otherGroup + (isOtherBehind ? -1 : 1);
  // A message that goes nowhere is reported by --zero-verify-stages.
  return std::clamp<int64_t>(place / numGroups, 0, numChunks - 1);
}

int64_t zero::getChunk(Operation *function) {
  auto chunk = function->getAttrOfType<IntegerAttr>(kTurnAttr);
  return chunk ? chunk.getInt() : 0;
}

int64_t ProgramInfo::getStage(BucketOp bucket) const {
  return bucket.getStage().value_or(stage);
}

bool ProgramInfo::holds(BucketOp bucket) const {
  return bucket.isUsedBy(group, position);
}

bool ProgramInfo::isShared(BucketOp bucket) const {
  return bucket.getGroups() && bucket.getGroups()->size() > 1;
}

std::pair<int64_t, int64_t>
ProgramInfo::getShard(BucketOp bucket, int64_t elements, int64_t rank) const {
  if (worldSize == 1 || getStage(bucket) == 0)
    return {0, elements};
  ArrayRef<int64_t> bounds = *bucket.getBounds();
  int64_t place = rank % getShardGroupSize();
  return {bounds[place], bounds[place + 1]};
}

bool ProgramInfo::hasOwnMaster(BucketOp bucket) const {
  int64_t held = getStage(bucket);
  return hasLossyParameters && worldSize > 1 && (held == 1 || held == 2) &&
         getWorkingFormat() == NumberFormat::F32 && !bucket.getFrozen();
}

//===----------------------------------------------------------------------===//
// BucketLayout
//===----------------------------------------------------------------------===//

BucketLayout::BucketLayout(ArrayRef<int64_t> sizes, int64_t alignment) {
  for (int64_t size : sizes) {
    offsets.push_back(elements);
    elements += llvm::alignTo(size, alignment);
  }
}

FailureOr<BucketLayout> BucketLayout::get(BucketOp bucket,
                                          SymbolTableCollection &symbols) {
  SmallVector<int64_t> sizes;
  for (auto name : bucket.getParameters().getAsRange<FlatSymbolRefAttr>()) {
    auto parameter =
        symbols.lookupNearestSymbolFrom<nn::ParameterOp>(bucket, name);
    if (!parameter)
      return failure();
    sizes.push_back(
        nn::getStoredElements(cast<RankedTensorType>(parameter.getType())));
    if (hasBlockStates(parameter))
      sizes.back() = llvm::alignTo(sizes.back(), POPLAR_STATE_BLOCK);
  }
  return BucketLayout(sizes,
                      bucket.getQuantized() ? kByteAlignment : kAlignment);
}

//===----------------------------------------------------------------------===//
// Optimizer states
//===----------------------------------------------------------------------===//

int32_t zero::getStateBits(ModuleOp module) {
  return static_cast<int32_t>(nn::Model::of(module).getStateBits().value_or(0));
}

bool zero::hasBlockStates(nn::ParameterOp parameter) {
  int64_t elements =
      cast<RankedTensorType>(parameter.getType()).getNumElements();
  bool isCut = false;
  if (nn::SliceAttr slice = parameter.getSliceAttr()) {
    elements = ShapedType::getNumElements(slice.getShape());
    isCut = poplar_cuts_blocks(int64_t(slice.getShape().size()),
                               slice.getShape().data(), slice.getDim(),
                               int64_t(slice.getRanges().size() / 2),
                               slice.getRanges().data(), POPLAR_STATE_BLOCK);
  }
  // What the module says is looked up for large parameters only.
  if (parameter.getFrozen() || isCut || elements < POPLAR_SMALLEST_BLOCK_STATES)
    return false;
  int32_t bits = getStateBits(parameter->getParentOfType<ModuleOp>());
  return poplar_has_block_states(bits, elements);
}

int64_t zero::countBlockStates(BucketOp bucket,
                               SymbolTableCollection &symbols) {
  BucketLayout layout = *BucketLayout::get(bucket, symbols);
  int64_t end = 0;
  for (auto [name, offset] :
       llvm::zip_equal(bucket.getParameters().getAsRange<FlatSymbolRefAttr>(),
                       layout.offsets)) {
    auto parameter =
        symbols.lookupNearestSymbolFrom<nn::ParameterOp>(bucket, name);
    auto type = cast<RankedTensorType>(parameter.getType());
    if (hasBlockStates(parameter))
      end = offset + llvm::alignTo(type.getNumElements(), POPLAR_STATE_BLOCK);
  }
  return end;
}
