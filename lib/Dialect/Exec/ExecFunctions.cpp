//===- ExecFunctions.cpp - Kernels, functions and their calls -------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/Exec/Exec.h"
#include "Poplar/Dialect/NN/NN.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Interfaces/FunctionImplementation.h"

using namespace mlir;
using namespace poplar;
using namespace poplar::exec;

//===----------------------------------------------------------------------===//
// KernelOp
//===----------------------------------------------------------------------===//

void KernelOp::build(OpBuilder &builder, OperationState &state, StringRef name,
                     FunctionType type, KernelKind kind, int64_t parts,
                     bool perSample) {
  Properties &properties = state.getOrAddProperties<Properties>();
  properties.sym_name = builder.getStringAttr(name);
  properties.function_type = TypeAttr::get(type);
  properties.kind = KernelKindAttr::get(builder.getContext(), kind);
  properties.parts = builder.getI64IntegerAttr(parts);
  if (perSample)
    properties.per_sample = builder.getUnitAttr();
  Block &body = state.addRegion()->emplaceBlock();
  for (Type argument : type.getInputs())
    body.addArgument(argument, state.location);
}

/// A signature and the types of results alone, without attributes of either.
static ParseResult parseSignature(OpAsmParser &parser,
                                  SmallVectorImpl<OpAsmParser::Argument> &args,
                                  TypeAttr &type) {
  SmallVector<Type> results;
  SmallVector<DictionaryAttr> resultAttrs;
  bool isVariadic = false;
  SMLoc loc = parser.getCurrentLocation();
  if (function_interface_impl::parseFunctionSignatureWithArguments(
          parser, /*allowVariadic=*/false, args, isVariadic, results,
          resultAttrs))
    return failure();
  SmallVector<Type> types;
  for (OpAsmParser::Argument &argument : args) {
    if (argument.attrs && !argument.attrs.empty())
      return parser.emitError(loc, "arguments take no attributes");
    types.push_back(argument.type);
  }
  type = TypeAttr::get(parser.getBuilder().getFunctionType(types, results));
  return success();
}

/// `(%a: t, ...)` and what follows it.
static void printArguments(OpAsmPrinter &printer, mlir::Region &body) {
  printer << '(';
  llvm::interleaveComma(
      body.getArguments(), printer,
      [&](BlockArgument argument) { printer.printRegionArgument(argument); });
  printer << ')';
}

template <typename Enum>
static ParseResult parseKind(OpAsmParser &parser,
                             std::optional<Enum> (*symbolize)(StringRef),
                             StringRef what, Enum &kind) {
  StringRef keyword;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&keyword))
    return failure();
  std::optional<Enum> known = symbolize(keyword);
  if (!known)
    return parser.emitError(loc)
           << "'" << keyword << "' is an unknown kind of " << what;
  kind = *known;
  return success();
}

ParseResult KernelOp::parse(OpAsmParser &parser, OperationState &state) {
  Properties &properties = state.getOrAddProperties<Properties>();
  SmallVector<OpAsmParser::Argument> args;
  KernelKind kind = KernelKind::Rows;
  int64_t parts;
  if (parser.parseSymbolName(properties.sym_name) ||
      parseSignature(parser, args, properties.function_type) ||
      parseKind<KernelKind>(parser, symbolizeKernelKind, "kernel", kind) ||
      parser.parseInteger(parts))
    return failure();
  Builder &builder = parser.getBuilder();
  properties.kind = KernelKindAttr::get(builder.getContext(), kind);
  properties.parts = builder.getI64IntegerAttr(parts);
  if (succeeded(parser.parseOptionalKeyword("per_sample")))
    properties.per_sample = builder.getUnitAttr();
  if (succeeded(parser.parseOptionalKeyword("in_place"))) {
    auto list = dyn_cast_or_null<DenseI64ArrayAttr>(
        DenseI64ArrayAttr::parse(parser, {}));
    if (!list)
      return failure();
    properties.in_place = list;
  }
  if (succeeded(parser.parseOptionalKeyword("reuse")) &&
      parser.parseAttribute(properties.reuse))
    return failure();
  return failure(parser.parseOptionalAttrDictWithKeyword(state.attributes) ||
                 parser.parseRegion(*state.addRegion(), args));
}

void KernelOp::print(OpAsmPrinter &printer) {
  printer << ' ';
  printer.printSymbolName(getSymName());
  printArguments(printer, getBody());
  if (!getResultTypes().empty()) {
    printer << " -> ";
    bool isOne = getResultTypes().size() == 1;
    printer << (isOne ? "" : "(");
    llvm::interleaveComma(getResultTypes(), printer);
    printer << (isOne ? "" : ")");
  }
  printer << ' ' << stringifyKernelKind(getKind()) << ' ' << getParts();
  if (getPerSample())
    printer << " per_sample";
  if (getInPlaceAttr()) {
    printer << " in_place ";
    getInPlaceAttr().print(printer);
  }
  if (getReuseAttr())
    printer << " reuse " << getReuseAttr();
  printer.printOptionalAttrDictWithKeyword(
      llvm::to_vector((*this)->getDiscardableAttrs()));
  printer << ' ';
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

LogicalResult KernelOp::verify() {
  for (TypeRange types :
       {TypeRange(getArgumentTypes()), TypeRange(getResultTypes())})
    for (Type type : types)
      if (!isa<RankedTensorType>(type))
        return emitOpError("takes or returns ")
               << type << ", expected a tensor";
      else if (!nn::isQuantized(type) &&
               !getElementTypeOrSelf(type).isIntOrFloat())
        return emitOpError("takes or returns ")
               << type << ", whose elements have no size in memory";
      else if (getBufferSize(type).bytes > kLargestBuffer)
        return emitOpError("takes or returns ")
               << type << ", of more than 2^40 bytes a sample";
  auto inRange = [&](int64_t argument) {
    return argument >= 0 && argument < int64_t(getNumArguments());
  };
  if (std::optional<ArrayRef<int64_t>> places = getInPlace()) {
    if (places->size() != getNumResults())
      return emitOpError("has ") << getNumResults() << " results, but in_place "
                                 << "lists " << places->size();
    for (auto [index, argument] : llvm::enumerate(*places))
      if (argument != -1 &&
          (!inRange(argument) ||
           getArgumentTypes()[argument] != getResultTypes()[index]))
        return emitOpError("result #")
               << index << " cannot be in place of argument #" << argument;
  }
  if (ArrayAttr lists = getReuseAttr()) {
    if (lists.size() != getNumResults())
      return emitOpError("has ") << getNumResults() << " results, but reuse "
                                 << "lists " << lists.size();
    for (unsigned index = 0; index < getNumResults(); ++index)
      for (int64_t argument : getReusableArguments(index))
        if (!inRange(argument) ||
            getArgumentTypes()[argument] != getResultTypes()[index])
          return emitOpError("result #")
                 << index << " cannot take over argument #" << argument;
  }
  auto yield = dyn_cast<YieldOp>(getBody().front().back());
  if (!yield || yield.getValues().getTypes() != TypeRange(getResultTypes()))
    return emitOpError("must yield values of its result types");
  return success();
}

std::optional<unsigned> KernelOp::getInPlaceArgument(unsigned index) {
  std::optional<ArrayRef<int64_t>> places = getInPlace();
  if (!places || (*places)[index] < 0)
    return std::nullopt;
  return (*places)[index];
}

ArrayRef<int64_t> KernelOp::getReusableArguments(unsigned index) {
  if (!getReuseAttr())
    return {};
  return cast<DenseI64ArrayAttr>(getReuseAttr()[index]).asArrayRef();
}

SmallVector<RankedTensorType> KernelOp::getBufferTypes() {
  SmallVector<RankedTensorType> types;
  for (Type type : getArgumentTypes())
    types.push_back(cast<RankedTensorType>(type));
  for (unsigned index = 0; index < getNumResults(); ++index)
    if (!getInPlaceArgument(index))
      types.push_back(cast<RankedTensorType>(getResultTypes()[index]));
  return types;
}

//===----------------------------------------------------------------------===//
// FunctionOp
//===----------------------------------------------------------------------===//

void FunctionOp::build(OpBuilder &builder, OperationState &state,
                       FunctionKind kind, StringRef name, TypeRange arguments) {
  Properties &properties = state.getOrAddProperties<Properties>();
  properties.sym_name = builder.getStringAttr(name);
  properties.function_type =
      TypeAttr::get(builder.getFunctionType(arguments, {}));
  properties.kind = FunctionKindAttr::get(builder.getContext(), kind);
  Block &body = state.addRegion()->emplaceBlock();
  for (Type argument : arguments)
    body.addArgument(argument, state.location);
}

ParseResult FunctionOp::parse(OpAsmParser &parser, OperationState &state) {
  Properties &properties = state.getOrAddProperties<Properties>();
  SmallVector<OpAsmParser::Argument> args;
  FunctionKind kind = FunctionKind::Unit;
  Builder &builder = parser.getBuilder();
  if (parseKind<FunctionKind>(parser, symbolizeFunctionKind, "function",
                              kind) ||
      parser.parseSymbolName(properties.sym_name) ||
      parseSignature(parser, args, properties.function_type))
    return failure();
  properties.kind = FunctionKindAttr::get(builder.getContext(), kind);
  auto parseNumber = [&](StringRef keyword, IntegerAttr &attr) -> ParseResult {
    int64_t number;
    if (failed(parser.parseOptionalKeyword(keyword)))
      return success();
    if (parser.parseInteger(number))
      return failure();
    attr = builder.getI64IntegerAttr(number);
    return success();
  };
  if (parseNumber("scratch", properties.scratch_bytes))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("inputs"))) {
    properties.inputs =
        dyn_cast_or_null<InputsAttr>(InputsAttr::parse(parser, {}));
    if (!properties.inputs)
      return failure();
  }
  Type resultType;
  if (parseNumber("result", properties.result) ||
      (properties.result && parser.parseColonType(resultType)))
    return failure();
  if (resultType)
    properties.result_type = TypeAttr::get(resultType);
  if (parseNumber("decoding", properties.decoding))
    return failure();
  return failure(parser.parseOptionalAttrDictWithKeyword(state.attributes) ||
                 parser.parseRegion(*state.addRegion(), args));
}

void FunctionOp::print(OpAsmPrinter &printer) {
  printer << ' ' << stringifyFunctionKind(getKind()) << ' ';
  printer.printSymbolName(getSymName());
  printArguments(printer, getBody());
  if (getScratchBytes())
    printer << " scratch " << *getScratchBytes();
  if (getInputsAttr()) {
    printer << " inputs ";
    getInputsAttr().print(printer);
  }
  if (getResult())
    printer << " result " << *getResult() << " : " << getResultTypeAttr();
  if (getDecoding())
    printer << " decoding " << *getDecoding();
  printer.printOptionalAttrDictWithKeyword(
      llvm::to_vector((*this)->getDiscardableAttrs()));
  printer << ' ';
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

LogicalResult FunctionOp::verify() {
  for (Type type : getArgumentTypes())
    if (!isa<MemRefType>(type))
      return emitOpError("takes ") << type << ", expected a buffer";
  if (!getResultTypes().empty())
    return emitOpError("returns results: take buffers for them as arguments");
  bool isUnit = getKind() == FunctionKind::Unit;
  if (isUnit != getScratchBytes().has_value())
    return emitOpError(
        isUnit ? "is a unit without `scratch`: give the bytes that it takes"
               : "takes scratch, but is not a unit");
  if (isUnit && (getInputsAttr() || getResult()))
    return emitOpError(
        "is a unit with inputs or a result: pass them as arguments");
  if (getResult().has_value() != getResultType().has_value())
    return emitOpError("needs both the offset and the type of its result");
  if (!isUnit && getNumArguments() != 0)
    return emitOpError("takes arguments, but is not a unit: list the offsets "
                       "of its inputs in `inputs`");
  return success();
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

/// Whether buffers are those of tensors of these types.
static LogicalResult verifyBuffers(Operation *op, StringRef callee,
                                   TypeRange buffers, TypeRange expected) {
  if (buffers.size() != expected.size())
    return op->emitOpError("passes ") << buffers.size() << " buffers, but @"
                                      << callee << " takes " << expected.size();
  for (auto [index, buffer, type] : llvm::enumerate(buffers, expected))
    if (buffer != type)
      return op->emitOpError("passes ")
             << buffer << " as buffer #" << index << " of @" << callee
             << ", which takes " << type;
  return success();
}

LogicalResult DispatchOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto kernel =
      symbols.lookupNearestSymbolFrom<KernelOp>(*this, getKernelAttr());
  if (!kernel)
    return emitOpError("names ")
           << getKernelAttr() << ", which is not an exec.kernel";
  bool onTensors =
      !getArgs().empty() && isa<RankedTensorType>(getArgs().front().getType());
  if (!getValues().empty() || onTensors) {
    if (getArgs().getTypes() != TypeRange(kernel.getArgumentTypes()) ||
        getValues().getTypes() != TypeRange(kernel.getResultTypes()))
      return emitOpError("does not have the types of ")
             << getKernelAttr() << ", " << kernel.getFunctionType();
    return success();
  }
  SmallVector<Type> expected;
  for (RankedTensorType type : kernel.getBufferTypes())
    expected.push_back(getBufferType(type));
  return verifyBuffers(*this, getKernel(), getArgs().getTypes(), expected);
}

LogicalResult CallOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto unit =
      symbols.lookupNearestSymbolFrom<FunctionOp>(*this, getCalleeAttr());
  if (!unit || unit.getKind() != FunctionKind::Unit)
    return emitOpError("names ") << getCalleeAttr() << ", which is not a unit";
  BufferSize scratch = getBufferSize(getScratch().getType());
  if (!scratch.perSample || scratch.bytes < int64_t(*unit.getScratchBytes()))
    return emitOpError("gives ")
           << scratch.bytes << " bytes of scratch, but " << getCalleeAttr()
           << " needs " << *unit.getScratchBytes() << " per sample";
  return verifyBuffers(*this, getCallee(), getArgs().getTypes(),
                       unit.getArgumentTypes());
}

LogicalResult OptimizerOp::verifySymbolUses(SymbolTableCollection &symbols) {
  for (FlatSymbolRefAttr name : {getUpdateAttr(), getRoundAttr()})
    if (name && !isa_and_present<KernelOp, func::FuncOp>(
                    symbols.lookupNearestSymbolFrom(*this, name)))
      return emitOpError("names ") << name << ", which is not a kernel";
  return success();
}
