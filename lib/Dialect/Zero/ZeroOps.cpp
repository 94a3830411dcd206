//===- ZeroOps.cpp - Verifiers of zero ops --------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/Cluster/Cluster.h"
#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Dialect/Zero/OptimizerStates.h"
#include "Poplar/Dialect/Zero/Zero.h"
#include "Poplar/Planner/Cluster/Targets.h"
#include "Poplar/Runtime/Quantized.h"
#include "Poplar/Support/Names.h"
#include "ZeroVerifiers.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace poplar;
using namespace poplar::zero;

/// One degree for all pipelines, or a list of one for each.
static ParseResult parseTensorDegrees(OpAsmParser &parser,
                                      DenseI64ArrayAttr &degrees) {
  int64_t degree;
  OptionalParseResult one = parser.parseOptionalInteger(degree);
  if (!one.has_value()) {
    degrees = dyn_cast_or_null<DenseI64ArrayAttr>(
        DenseI64ArrayAttr::parse(parser, Type()));
    return failure(!degrees);
  }
  degrees = parser.getBuilder().getDenseI64ArrayAttr(degree);
  return *one;
}

static void printTensorDegrees(OpAsmPrinter &printer, GroupOp,
                               DenseI64ArrayAttr degrees) {
  if (degrees.size() == 1)
    printer << degrees[0];
  else
    degrees.print(printer);
}

#define GET_OP_CLASSES
#include "Poplar/Dialect/Zero/ZeroOps.cpp.inc"

//===----------------------------------------------------------------------===//
// Values of buckets
//===----------------------------------------------------------------------===//

static FailureOr<BucketOp> findBucket(Operation *op, FlatSymbolRefAttr name,
                                      SymbolTableCollection &symbols) {
  auto bucket = symbols.lookupNearestSymbolFrom<BucketOp>(op, name);
  if (!bucket)
    return op->emitOpError("names ") << name << ", which is not a zero.bucket";
  return bucket;
}

/// One value per parameter, of its shape; of type `elementType` if given, else
/// of the same element type, as they are slices of one array.
static LogicalResult verifyValues(Operation *op, FlatSymbolRefAttr name,
                                  TypeRange types, Type elementType,
                                  SymbolTableCollection &symbols) {
  FailureOr<BucketOp> bucket = findBucket(op, name, symbols);
  if (failed(bucket) || types.empty())
    return bucket;
  ArrayAttr parameters = bucket->getParameters();
  if (types.size() != parameters.size())
    return op->emitOpError("has ")
           << types.size() << " values, but " << name << " has "
           << parameters.size() << " parameters";
  for (auto [type, parameterName] :
       llvm::zip_equal(types, parameters.getAsRange<FlatSymbolRefAttr>())) {
    auto parameter = symbols.lookupNearestSymbolFrom<nn::ParameterOp>(
        *bucket, parameterName);
    auto declared = cast<RankedTensorType>(parameter.getType());
    auto tensor = cast<RankedTensorType>(type);
    bool fits = !elementType || tensor.getElementType() == elementType;
    if (nn::isQuantized(declared))
      fits &= tensor.getElementType() == declared.getElementType();
    if (tensor.getShape() != declared.getShape() || !fits)
      return op->emitOpError("has a value of type ")
             << type << " for " << parameterName << " of " << declared;
    if (tensor.getElementType() != getElementTypeOrSelf(types.front()))
      return op->emitOpError("has a value of type ")
             << type << " beside one of type " << types.front()
             << ": a bucket is of one element type";
  }
  return success();
}

/// Bytes of quantised parameters, and nothing else, go over the wire as ui8.
static LogicalResult verifyWire(Operation *op, FlatSymbolRefAttr name,
                                Type wire, SymbolTableCollection &symbols) {
  FailureOr<BucketOp> bucket = findBucket(op, name, symbols);
  if (failed(bucket))
    return failure();
  if (bucket->getQuantized() == wire.isUnsignedInteger(8))
    return success();
  return op->emitOpError("carries ")
         << name << ", which is "
         << (bucket->getQuantized() ? "quantized" : "not quantized") << ", as "
         << wire;
}

LogicalResult AllGatherOp::verifySymbolUses(SymbolTableCollection &symbols) {
  if (failed(verifyWire(*this, getBucketAttr(), getWire(), symbols)))
    return failure();
  return verifyValues(*this, getBucketAttr(), getValues().getTypes(), {},
                      symbols);
}

LogicalResult
ReduceScatterOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyValues(*this, getBucketAttr(), getGradients().getTypes(),
                      Float32Type::get(getContext()), symbols);
}

LogicalResult AllReduceOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return findBucket(*this, getBucketAttr(), symbols);
}

LogicalResult StartOp::verifySymbolUses(SymbolTableCollection &symbols) {
  if (failed(verifyWire(*this, getBucketAttr(), getWire(), symbols)))
    return failure();
  return verifyValues(*this, getBucketAttr(), getGradients().getTypes(),
                      Float32Type::get(getContext()), symbols);
}

LogicalResult WaitOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto start = getToken().getDefiningOp<StartOp>();
  return verifyValues(*this, start.getBucketAttr(), getValues().getTypes(), {},
                      symbols);
}

LogicalResult GradientsOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyValues(*this, getBucketAttr(), getValues().getTypes(),
                      Float32Type::get(getContext()), symbols);
}

LogicalResult AdamWOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return findBucket(*this, getBucketAttr(), symbols);
}

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

LogicalResult SendOp::buildVJP(OpBuilder &builder, nn::Gradients &grads) {
  // The next group sends its gradient, even where all in front of it is frozen.
  auto gradient =
      ReceiveOp::create(builder, getLoc(), getValue().getType(),
                        MessageKind::Gradient, getGroup(), getChunk());
  if (grads.isNeeded(getValue()))
    grads.add(getValue(), gradient);
  return success();
}

LogicalResult ReceiveOp::buildVJP(OpBuilder &builder, nn::Gradients &grads) {
  SendOp::create(builder, getLoc(), MessageKind::Gradient,
                 grads.cotangent(getValue()), getGroup(), getChunk());
  return success();
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

CollectiveKind AllGatherOp::getCollectiveKind() {
  return CollectiveKind::AllGather;
}
CollectiveKind ReduceScatterOp::getCollectiveKind() {
  return CollectiveKind::ReduceScatter;
}
CollectiveKind AllReduceOp::getCollectiveKind() {
  return CollectiveKind::AllReduce;
}
CollectiveKind StartOp::getCollectiveKind() { return getKind(); }
CollectiveKind NormOp::getCollectiveKind() { return CollectiveKind::Norm; }

FlatSymbolRefAttr AllGatherOp::getBucketName() { return getBucketAttr(); }
FlatSymbolRefAttr ReduceScatterOp::getBucketName() { return getBucketAttr(); }
FlatSymbolRefAttr AllReduceOp::getBucketName() { return getBucketAttr(); }
FlatSymbolRefAttr StartOp::getBucketName() { return getBucketAttr(); }
FlatSymbolRefAttr NormOp::getBucketName() { return {}; }

Type AllGatherOp::getWireType() { return getWire(); }
Type ReduceScatterOp::getWireType() { return getWire(); }
Type AllReduceOp::getWireType() { return getWire(); }
Type StartOp::getWireType() { return getWire(); }
Type NormOp::getWireType() { return Float64Type::get(getContext()); }

WaitOp StartOp::getWait() { return cast<WaitOp>(*getToken().user_begin()); }

LogicalResult StartOp::verify() {
  if (getKind() == CollectiveKind::Norm)
    return emitOpError("cannot start a norm: zero.norm is synchronous");
  if (!getGradients().empty() && getKind() != CollectiveKind::ReduceScatter)
    return emitOpError("takes gradients, but only a reduce_scatter does");
  if (getKind() == CollectiveKind::AllGather && getUnscale())
    return emitOpError("has no gradients to unscale");
  if (getKind() != CollectiveKind::AllGather && getTransient())
    return emitOpError("is transient, but only an all_gather can be");
  if (!llvm::hasSingleElement(getToken().getUses()) ||
      !isa<WaitOp>(*getToken().user_begin()))
    return emitOpError("needs exactly one zero.wait");
  return success();
}

LogicalResult WaitOp::verify() {
  auto start = getToken().getDefiningOp<StartOp>();
  if (!start)
    return emitOpError("waits for a token that no zero.start made");
  if (start->getBlock() != (*this)->getBlock()) {
    InFlightDiagnostic diagnostic =
        emitOpError("must be in the block of its zero.start");
    diagnostic.attachNote(start.getLoc()) << "started here";
    return diagnostic;
  }
  if (start.getTransient() == getValues().empty()) {
    InFlightDiagnostic diagnostic =
        emitOpError(start.getTransient()
                        ? "must return the values of a transient all_gather"
                        : "returns values, but its collective gathers none");
    diagnostic.attachNote(start.getLoc()) << "started here";
    return diagnostic;
  }
  return success();
}

//===----------------------------------------------------------------------===//
// BucketOp
//===----------------------------------------------------------------------===//

LogicalResult BucketOp::verifySymbolUses(SymbolTableCollection &symbols) {
  if (failed(verifyAttributes(*this)))
    return failure();
  if (getParameters().empty())
    return emitOpError("has no parameters");
  if (getQuantized() && !getFrozen())
    return emitOpError("is quantized but not frozen");
  llvm::SmallDenseSet<Attribute> seen;
  Type format;
  bool hasWideStates = false;
  for (auto name : getParameters().getAsRange<FlatSymbolRefAttr>()) {
    auto parameter =
        symbols.lookupNearestSymbolFrom<nn::ParameterOp>(*this, name);
    if (!parameter)
      return emitOpError("names ") << name << ", which is not an nn.parameter";
    if (parameter.getFrozen() != getFrozen())
      return emitOpError("is ")
             << (getFrozen() ? "frozen" : "trained") << ", but " << name
             << " is " << (parameter.getFrozen() ? "frozen" : "trained")
             << ": a bucket holds parameters of one kind";
    Type element = getElementTypeOrSelf(parameter.getType());
    if (nn::isQuantized(element) != getQuantized() ||
        (format && element != format))
      return emitOpError("is ")
             << (getQuantized() ? "quantized" : "not quantized") << ", but "
             << name << " is of type " << parameter.getType()
             << ": a bucket holds parameters of one format";
    format = element;
    if (!seen.insert(name).second)
      return emitOpError("names ") << name << " twice";
    bool isInBlocks = hasBlockStates(parameter);
    if (isInBlocks && hasWideStates)
      return emitOpError("has ")
             << name
             << ", whose moments are in blocks, behind a parameter "
                "whose moments are in f32: they come first";
    hasWideStates |= !isInBlocks;
  }
  if (getPositions() &&
      (!getGroups() || getGroups()->size() != getPositions()->size()))
    return emitOpError("has positions [")
           << *getPositions() << "], expected one for each of its groups";
  std::optional<ArrayRef<int64_t>> bounds = getBounds();
  if (!bounds)
    return success();
  int64_t elements = BucketLayout::get(*this, symbols)->elements;
  if (bounds->size() < 2)
    return emitOpError("has no bounds, expected one more than ranks");
  if (bounds->front() != 0)
    return emitOpError("has a shard of rank 0 that begins at ")
           << bounds->front() << ", not at 0";
  for (size_t rank = 0; rank + 1 < bounds->size(); ++rank)
    if ((*bounds)[rank + 1] < (*bounds)[rank])
      return emitOpError("has shards of ranks ")
             << rank << " and " << rank + 1
             << " that overlap: bounds fall from " << (*bounds)[rank] << " to "
             << (*bounds)[rank + 1];
  int64_t blockStates = countBlockStates(*this, symbols);
  for (auto [rank, bound] : llvm::enumerate(*bounds))
    if (bound < blockStates && bound % POPLAR_STATE_BLOCK != 0)
      return emitOpError("has a shard of rank ")
             << rank << " that begins at " << bound
             << ", in the middle of a block of moments: expected a "
                "multiple of "
             << POPLAR_STATE_BLOCK;
  if (bounds->back() != elements)
    return emitOpError("has shards that end at ")
           << bounds->back() << ", but the bucket has " << elements
           << " elements";
  return success();
}

//===----------------------------------------------------------------------===//
// ProgramOp
//===----------------------------------------------------------------------===//

LogicalResult ProgramOp::verify() {
  if (!findTargetKind(getTarget()))
    return emitOpError("has the unknown target ") << showName(getTarget());
  if (failed(verifyRecompute(*this, getRecomputeAttr())))
    return failure();
  if (getWorldSize() % getReplicas() != 0)
    return emitOpError("has ")
           << getWorldSize() << " ranks for " << getReplicas() << " replicas";
  if (getGroup() >= getGroups())
    return emitOpError("has group ") << getGroup() << " of " << getGroups();
  int64_t numParts = getParts() ? int64_t(getParts()->size()) : 1;
  // Behind all parts is a program that computes whole units.
  if (int64_t(getPosition()) >= (numParts > 1 ? numParts + 1 : numParts))
    return emitOpError("has position ")
           << getPosition() << " of " << numParts << " parts";
  ProgramOp first = getProgram(cast<ModuleOp>((*this)->getParentOp()));
  if (first == *this)
    return success();
  InFlightDiagnostic diag =
      emitOpError("duplicates the zero.program of its module");
  diag.attachNote(first.getLoc()) << "the first one";
  return diag;
}
