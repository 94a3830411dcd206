//===- ProgramTables.cpp - The constant poplar_program --------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ABILayout.h"
#include "Poplar/Conversion/Kernels/Kernels.h"
#include "Poplar/Target/GPUImage.h"
#include "Poplar/Target/ProgramDescription.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/Module.h"
#include <map>

using namespace mlir;
using namespace poplar;

/// Makes the constants of a description.
class ProgramDescription::Emitter {
public:
  Emitter(const ProgramDescription &program, llvm::Module &module,
          const GPUImage *image)
      : program(program), module(module), image(image) {}

  void run();

private:
  llvm::Constant *int32(int64_t value) {
    return llvm::ConstantInt::get(llvm::Type::getInt32Ty(context), value);
  }
  llvm::Constant *int64(int64_t value) {
    return llvm::ConstantInt::get(llvm::Type::getInt64Ty(context), value);
  }
  llvm::Constant *float64(double value) {
    return llvm::ConstantFP::get(llvm::Type::getDoubleTy(context), value);
  }
  llvm::Constant *null() {
    return llvm::ConstantPointerNull::get(llvm::PointerType::get(context, 0));
  }
  llvm::GlobalVariable *global(llvm::Constant *value, const char *name) {
    return new llvm::GlobalVariable(
        module, value->getType(),
        /*isConstant=*/true, llvm::GlobalValue::InternalLinkage, value, name);
  }
  llvm::Constant *text(StringRef value) {
    return global(llvm::ConstantDataArray::getString(context, value), "text");
  }
  /// A function or variable of the module; null for no name.
  llvm::Constant *symbol(StringRef name) {
    return name.empty() ? null() : module.getNamedValue(name);
  }
  llvm::Constant *integers(ArrayRef<int64_t> values) {
    return llvm::ConstantDataArray::get(context, values);
  }
  /// Null if there are none.
  llvm::Constant *list(ArrayRef<int64_t> values, const char *name) {
    return values.empty() ? null() : global(integers(values), name);
  }
  llvm::Constant *table(ArrayRef<llvm::Constant *> entries, const char *name) {
    if (entries.empty())
      return null();
    return global(
        llvm::ConstantArray::get(
            llvm::ArrayType::get(entries.front()->getType(), entries.size()),
            entries),
        name);
  }
  ABIConstant make(ArrayRef<ABIField> fields) {
    return ABIConstant(fields, module.getDataLayout());
  }

  llvm::Constant *makeSlice(const std::optional<Slice> &slice);
  llvm::Constant *makeParameters();
  llvm::Constant *makeBuckets();
  llvm::Constant *makeTurns(const std::vector<int32_t> &values);
  llvm::Constant *makeLinks(const std::vector<Link> &links);
  llvm::Constant *makeRanks();
  llvm::Constant *makeImage();
  llvm::Constant *makePipeline();
  llvm::Constant *makeDecoding(const std::optional<Decoding> &decoding);
  std::pair<llvm::Constant *, llvm::Constant *> findProducts(StringRef list);
  void setFunctions(ABIConstant &constant);

  const ProgramDescription &program;
  llvm::Module &module;
  const GPUImage *image;
  llvm::LLVMContext &context = module.getContext();
  /// Ranks with as many steps have the same turns.
  std::map<std::vector<int32_t>, llvm::Constant *> turns;
};

/// Null of a whole tensor.
llvm::Constant *
ProgramDescription::Emitter::makeSlice(const std::optional<Slice> &slice) {
  if (!slice)
    return null();
  std::vector<int64_t> shape = slice->shape;
  shape.resize(4, 1);
  return global(make(sliceFields)
                    .set("tensor", text(slice->tensor))
                    .set("rank", int64(int64_t(slice->shape.size())))
                    .set("shape", integers(shape))
                    .set("dim", int64(slice->dim))
                    .set("num_ranges", int64(int64_t(slice->ranges.size() / 2)))
                    .set("ranges", list(slice->ranges, "ranges"))
                    .get(),
                "slice");
}

llvm::Constant *ProgramDescription::Emitter::makeParameters() {
  std::vector<llvm::Constant *> entries;
  for (const Parameter &parameter : program.parameters) {
    std::vector<int64_t> shape = parameter.shape;
    shape.resize(4, 1);
    entries.push_back(make(parameterFields)
                          .set("name", text(parameter.name))
                          .set("rank", int64(int64_t(parameter.shape.size())))
                          .set("shape", integers(shape))
                          .set("elements", int64(parameter.elements))
                          .set("bucket", int64(parameter.bucket))
                          .set("offset", int64(parameter.offset))
                          .set("init", int32(parameter.init))
                          .set("decay", int32(parameter.decay))
                          .set("std_dev", float64(parameter.stdDev))
                          .set("slice", makeSlice(parameter.slice))
                          .set("quantized", int32(parameter.quantized))
                          .set("reserved", int32(0))
                          .get());
  }
  return table(entries, "parameters");
}

llvm::Constant *ProgramDescription::Emitter::makeBuckets() {
  std::vector<llvm::Constant *> entries;
  for (const Bucket &bucket : program.buckets)
    entries.push_back(
        make(bucketFields)
            .set("name", text(bucket.name))
            .set("elements", int64(bucket.elements))
            .set("working", int64(bucket.working))
            .set("gradient", int64(bucket.gradient))
            .set("bounds", list(bucket.bounds, "bounds"))
            .set("stage", int64(bucket.stage))
            .set("num_ranks", int64(int64_t(bucket.holders.size())))
            .set("ranks", list(bucket.holders, "holders"))
            .set("frozen", int32(bucket.frozen))
            .set("quantized", int32(bucket.quantized))
            .set("residuals", list(bucket.residuals, "residuals"))
            .set("own_master", int64(bucket.ownMaster))
            .get());
  return table(entries, "buckets");
}

llvm::Constant *
ProgramDescription::Emitter::makeTurns(const std::vector<int32_t> &values) {
  llvm::Constant *&known = turns[values];
  if (!known)
    known =
        values.empty()
            ? null()
            : global(llvm::ConstantDataArray::get(context, values), "turns");
  return known;
}

llvm::Constant *
ProgramDescription::Emitter::makeLinks(const std::vector<Link> &links) {
  std::vector<llvm::Constant *> entries;
  for (const Link &link : links)
    entries.push_back(make(linkFields)
                          .set("rank", int64(link.rank))
                          .set("first", int64(link.first))
                          .set("count", int64(link.count))
                          .get());
  return table(entries, "links");
}

llvm::Constant *ProgramDescription::Emitter::makeRanks() {
  std::vector<llvm::Constant *> entries;
  for (const Rank &rank : program.ranks)
    entries.push_back(
        make(rankFields)
            .set("device_type", text(rank.deviceType))
            .set("node", text(rank.node))
            .set("micro_batch", int64(rank.microBatch))
            .set("steps", int64(rank.steps))
            .set("last", int64(rank.last))
            .set("threads", int64(rank.threads))
            .set("group", int64(rank.group))
            .set("num_previous", int64(int64_t(rank.previous.size())))
            .set("num_next", int64(int64_t(rank.next.size())))
            .set("previous", makeLinks(rank.previous))
            .set("next", makeLinks(rank.next))
            .set("num_sharers", int64(int64_t(rank.sharers.size())))
            .set("sharers", list(rank.sharers, "sharers"))
            .set("position", int64(rank.position))
            .set("in_flight", list(rank.inFlight, "in_flight"))
            .set("turns", makeTurns(rank.turns))
            .set("chunks", makeTurns(rank.chunks))
            .get());
  return table(entries, "ranks");
}

/// Null in a program for a CPU.
llvm::Constant *ProgramDescription::Emitter::makeImage() {
  if (!image)
    return null();
  std::vector<llvm::Constant *> kernels;
  int64_t adamw = -1, convert = -1;
  for (const GPUKernel &entry : image->kernels) {
    if (entry.name == program.adamwKernel)
      adamw = int64_t(kernels.size());
    if (entry.name == program.convertKernel)
      convert = int64_t(kernels.size());
    kernels.push_back(
        make(gpuKernelFields)
            .set("name", text(entry.name))
            .set("block", llvm::ConstantDataArray::get(context, entry.block))
            .set("pointers", int32(entry.pointers))
            .set("parts_per_block", int64(entry.partsPerBlock))
            .set("bytes", int64(entry.cost.bytes))
            .set("bytes_per_sample", int64(entry.cost.bytesPerSample))
            .set("flops_per_sample", int64(entry.cost.flopsPerSample))
            .get());
  }
  llvm::Constant *cubin = null();
  if (!image->cubin.empty()) {
    llvm::GlobalVariable *data = global(
        llvm::ConstantDataArray::getString(context, image->cubin), "cubin");
    data->setAlignment(llvm::Align(64));
    cubin = data;
  }
  return global(make(gpuImageFields)
                    .set("chip", text(image->chip))
                    .set("ptx", text(image->ptx))
                    .set("cubin", cubin)
                    .set("num_kernels", int64(int64_t(kernels.size())))
                    .set("kernels", table(kernels, "gpu_kernels"))
                    .set("adamw", int64(adamw))
                    .set("convert_working", int64(convert))
                    .get(),
                "gpu_image");
}

/// Null where all ranks are one group.
llvm::Constant *ProgramDescription::Emitter::makePipeline() {
  if (program.chunks.empty())
    return null();
  std::vector<llvm::Constant *> entries;
  for (const Chunk &chunk : program.chunks)
    entries.push_back(make(chunkFields)
                          .set("slot_bytes", int64(chunk.slotBytes))
                          .set("message_bytes", integers(chunk.messageBytes))
                          .set("keeps_sent", int64(chunk.keepsSent))
                          .set("forward", symbol(chunk.forward))
                          .set("backward", symbol(chunk.backward))
                          .set("backward_last", symbol(chunk.backwardLast))
                          .set("evaluate", symbol(chunk.evaluate))
                          .set("infer", symbol(chunk.infer))
                          .set("decode", symbol(chunk.decode))
                          .set("prefill", symbol(chunk.prefill))
                          .get());
  return global(make(pipelineFields)
                    .set("group", int64(program.group))
                    .set("num_groups", int64(program.numGroups))
                    .set("num_chunks", int64(int64_t(program.chunks.size())))
                    .set("chunks", table(entries, "chunks"))
                    .get(),
                "pipeline");
}

/// Null where sampling has no caches.
llvm::Constant *ProgramDescription::Emitter::makeDecoding(
    const std::optional<Decoding> &decoding) {
  if (!decoding)
    return null();
  return global(make(decodingFields)
                    .set("tokens", int64(decoding->tokens))
                    .set("ids", int64(decoding->ids))
                    .set("positions", int64(decoding->positions))
                    .set("logits", int64(decoding->logits))
                    .set("run", symbol(decoding->function))
                    .get(),
                "decoding");
}

/// How many are listed, and the list.
std::pair<llvm::Constant *, llvm::Constant *>
ProgramDescription::Emitter::findProducts(StringRef list) {
  llvm::GlobalVariable *products = module.getNamedGlobal(list);
  if (!products)
    return {int64(0), null()};
  auto *type = cast<llvm::ArrayType>(products->getValueType());
  return {int64(int64_t(type->getNumElements())), products};
}

void ProgramDescription::Emitter::setFunctions(ABIConstant &constant) {
  auto step = [&](StringRef name) {
    return program.chunks.empty() ? symbol(name) : null();
  };
  auto kernel = [&](const std::string &name) {
    return image || name.empty() ? null() : symbol(getKernelBodyName(name));
  };
  constant.set("train", step("train.step"))
      .set("train_last", step(program.trainLast))
      .set("update", symbol("update.step"))
      .set("evaluate", step("evaluate.step"))
      .set("infer", step("infer.step"))
      .set("adamw", kernel(program.adamwKernel))
      .set("convert_working", kernel(program.convertKernel));
}

void ProgramDescription::Emitter::run() {
  auto [numProducts, products] = findProducts(kProductsSymbol);
  auto [numDecoding, decodingProducts] = findProducts(kDecodingProductsSymbol);
  ABIConstant constant = make(programFields);
  constant.set("magic", int32(POPLAR_ABI_MAGIC))
      .set("version", int32(POPLAR_ABI_VERSION))
      .set("description", text(program.json))
      .set("plan_hash", int64(int64_t(program.planHash)))
      .set("stage", int64(program.stage))
      .set("world_size", int64(program.worldSize))
      .set("ranks", makeRanks())
      .set("fixed_bytes", int64(program.fixedBytes))
      .set("bytes_per_sample", int64(program.bytesPerSample))
      .set("scratch_offset", int64(program.scratchOffset))
      .set("scratch_bytes", int64(program.scratchBytes))
      .set("ids", int64(program.inputs[0]))
      .set("targets", int64(program.inputs[1]))
      .set("keys", int64(program.inputs[2]))
      .set("positions", int64(program.positions))
      .set("dloss", int64(program.dloss))
      .set("train_loss", int64(program.trainLoss))
      .set("train_last_loss", int64(program.trainLastLoss))
      .set("evaluate_loss", int64(program.evaluateLoss))
      .set("logits", int64(program.logits))
      .set("logits_type", int32(program.logitsType))
      .set("reserved", int32(0))
      .set("num_parameters", int64(int64_t(program.parameters.size())))
      .set("parameters", makeParameters())
      .set("num_buckets", int64(int64_t(program.buckets.size())))
      .set("buckets", makeBuckets())
      .set("working_type", int32(program.workingType))
      .set("num_collectives", int32(program.numCollectives))
      .set("num_gemms", numProducts)
      .set("gemms", products)
      .set("num_decoding_gemms", numDecoding)
      .set("decoding_gemms", decodingProducts)
      .set("flops_per_sample", float64(program.flopsPerSample))
      .set("gpu", makeImage())
      .set("pipeline", makePipeline())
      .set("decode", makeDecoding(program.decode))
      .set("prefill", makeDecoding(program.prefill))
      .set("sampling_bytes_per_sample", int64(program.samplingBytesPerSample));
  setFunctions(constant);
  llvm::Constant *value = constant.get();
  new llvm::GlobalVariable(module, value->getType(), /*isConstant=*/true,
                           llvm::GlobalValue::ExternalLinkage, value,
                           "poplar_program");
}

void ProgramDescription::emit(llvm::Module &module,
                              const GPUImage *image) const {
  Emitter(*this, module, image).run();
}
