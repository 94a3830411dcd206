//===- ProgramCalls.cpp - Calls on buffers become calls of the runtime ----===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Conversion/Program/FunctionLowering.h"
#include "Poplar/Conversion/Program/RuntimeCalls.h"
#include "Poplar/Dialect/Exec/ExecExperts.h"
#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Runtime/Quantized.h"
#include "Poplar/Support/HostCPU.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace poplar;

//===----------------------------------------------------------------------===//
// Costs of the GPU's library
//===----------------------------------------------------------------------===//

static int64_t getWidth(int32_t type) { return type == POPLAR_F32 ? 4 : 2; }

/// Matrix products of a tile of attention, and how often the arrays of the
/// shape of the queries and of the keys are read or written.
struct AttentionPass {
  const char *name;
  int64_t products, queries, keys;
  /// Numbers of a row of scores.
  int64_t numbers;
};
/// Scores and output; the log-sum-exp.
static constexpr AttentionPass forwardPass = {"forward", 2, 2, 2, 1};
/// Scores, dP and dQ, from q, dy and the output; with delta.
static constexpr AttentionPass queriesPass = {"backward_q", 3, 4, 2, 2};
/// Scores, dP, dV and dK, from q and dy.
static constexpr AttentionPass keysPass = {"backward_kv", 4, 2, 4, 2};

static GPUKernelCost getCost(const PoplarAttention &desc,
                             const AttentionPass &pass) {
  int64_t pairs =
      nn::countAttentionPairs(desc.seq_len, desc.causal, desc.window);
  int64_t width = desc.seq_len * desc.head_dim * getWidth(desc.type);
  GPUKernelCost cost;
  cost.flopsPerSample =
      2 * pass.products * pairs * desc.num_heads * desc.head_dim;
  cost.bytesPerSample = pass.numbers * 4 * desc.seq_len * desc.num_heads +
                        pass.queries * desc.num_heads * width +
                        pass.keys * desc.num_kv_heads * width;
  return cost;
}

/// Every row of dy is read, and added to one of the table.
static GPUKernelCost getCost(const PoplarEmbeddingGrad &desc) {
  return {0, desc.seq_len * (desc.width * (getWidth(desc.type) + 8) + 4), 0};
}

//===----------------------------------------------------------------------===//
// Functions, buffers, kernels
//===----------------------------------------------------------------------===//

static void lower(exec::BufferOp op, FunctionLowering &l) {
  l.setPointer(op.getBuffer(), l.advance(l.getBase(op.getRegion()),
                                         op.getOffset(), op.isPerSample()));
}

/// NaN, in any format, where nobody should read any more.
static void lower(exec::EndOp op, FunctionLowering &l) {
  if (!l.trapDeadRanges)
    return;
  auto buffer = op.getBuffer().getDefiningOp<exec::BufferOp>();
  Value bytes = l.getBytes(buffer);
  l.callRuntime("poplar_rt_poison", {l.pointerOf(op.getBuffer()), bytes});
}

static void lower(exec::ViewOp op, FunctionLowering &l) {
  int64_t width = op.getBucket().getType().getElementTypeBitWidth() / 8;
  l.setPointer(op.getTensor(), l.advance(l.pointerOf(op.getBucket()),
                                         op.getOffset() * width, false));
}

static void lower(exec::PortOp op, FunctionLowering &l) {
  static constexpr PoplarPort ports[] = {
      POPLAR_ACTIVATION_IN, POPLAR_ACTIVATION_OUT, POPLAR_GRADIENT_IN,
      POPLAR_GRADIENT_OUT};
  l.setPointer(op.getBuffer(), l.loadPort(ports[size_t(op.getKind())]));
}

static void lower(exec::CallOp op, FunctionLowering &l) {
  l.callUnit(op.getCallee(), l.pointerOf(op.getScratch()),
             l.pointersOf(llvm::to_vector(op.getArgs())));
}

static void lower(exec::DispatchOp op, FunctionLowering &l) {
  auto kernel = l.shared.symbols.lookup<exec::KernelOp>(op.getKernel());
  SmallVector<Value> arguments;
  for (Value buffer : op.getArgs())
    arguments.push_back(l.pointerOf(buffer));
  if (l.shared.gpuKernels.exists())
    return l.launch(l.shared.gpuKernels.getNumber(op.getKernel()), arguments,
                    kernel.getParts(), kernel.getPerSample());
  auto type = FunctionType::get(
      l.builder.getContext(),
      {l.shared.pointer, l.shared.i64, l.shared.i64, l.shared.i64}, {});
  Value function = func::ConstantOp::create(l.builder, l.loc, type,
                                            getKernelBodyName(op.getKernel()));
  Value address = UnrealizedConversionCastOp::create(l.builder, l.loc,
                                                     l.shared.pointer, function)
                      .getResult(0);
  // Columns and elements are split at cache lines.
  bool byElement = kernel.getKind() == exec::KernelKind::Columns ||
                   kernel.getKind() == exec::KernelKind::Flat;
  l.dispatch(address, arguments, kernel.getParts(), kernel.getPerSample(),
             byElement ? 16 : 1);
}

//===----------------------------------------------------------------------===//
// Products, attention, embeddings
//===----------------------------------------------------------------------===//

/// Whether a product has one row for each sample, in formats that the kernel
/// library reads. A library of products would pack what is read only once, and
/// what is quantised would be written to memory as well.
static bool isRowProduct(const PoplarGemm &gemm) {
  auto isRead = [](int32_t type) {
    return type == POPLAR_F32 || type == POPLAR_BF16;
  };
  // Sixteen quantised values are read at a time, of one row.
  int64_t width = gemm.trans_b ? gemm.k : gemm.n;
  bool isReadB =
      poplar_is_quantized(gemm.b_type) ? width % 16 == 0 : isRead(gemm.b_type);
  return gemm.m == 1 && gemm.batched == 1 && isRead(gemm.a_type) && isReadB &&
         isRead(gemm.c_type) && gemm.epilogue == POPLAR_STORE && !gemm.fp8;
}

static void lower(exec::ProductOp op, FunctionLowering &l) {
  PoplarGemm gemm = op.getDescriptor();
  if (isRowProduct(gemm) && !l.shared.gpuKernels.exists()) {
    StringRef kernel =
        l.wrap("poplar_row_product", l.shared.getStruct("row_product", gemm));
    return l.dispatch(
        l.addressOf(kernel),
        l.pointersOf({op.getA(), op.getB(), op.getBias(), op.getC()}), gemm.n,
        /*batched=*/false, /*grain=*/16);
  }
  Value desc = l.addressOf(l.shared.getProduct(gemm, l.isDecoding()));
  l.callRuntime("poplar_rt_gemm",
                {desc, l.pointerOf(op.getA()), l.pointerOf(op.getB()),
                 l.pointerOf(op.getBias()), l.pointerOf(op.getAux()),
                 l.pointerOf(op.getC()), l.getBatch()});
}

/// A kernel of a GPU for a pass of an attention, and how often a sample needs
/// it.
struct OwnAttention {
  int64_t kernel, parts;
};

/// A block has a tile of rows of each of `heads`.
static OwnAttention addAttention(FunctionLowering &l, const AttentionPass &pass,
                                 const PoplarAttention &desc, int64_t heads,
                                 size_t arguments) {
  GPUAttention chosen = chooseGPUAttention(desc, l.shared.capability);
  int64_t kernel = l.shared.gpuKernels.add(
      chosen.stem + pass.name, l.shared.getDescriptor(desc), chosen.block,
      static_cast<int32_t>(arguments), getCost(desc, pass));
  return {kernel, heads * chosen.getTiles(desc)};
}

static void launchAttention(FunctionLowering &l, const AttentionPass &pass,
                            const PoplarAttention &desc, int64_t heads,
                            ArrayRef<Value> arguments) {
  OwnAttention own = addAttention(l, pass, desc, heads, arguments.size());
  l.launch(own.kernel, arguments, own.parts, true);
}

/// What a library may compute, with our kernels for where it cannot.
static void callLibraryAttention(FunctionLowering &l,
                                 const PoplarAttention &desc,
                                 ArrayRef<OwnAttention> kernels,
                                 int64_t workspace, ArrayRef<Value> arguments) {
  PoplarLibraryAttention library = {};
  library.attention = desc;
  library.gradient = kernels.size() > 1;
  for (auto [index, own] : llvm::enumerate(kernels)) {
    library.kernels[index] = own.kernel;
    library.parts[index] = own.parts;
  }
  library.workspace = workspace;
  l.callRuntime("poplar_rt_attention",
                {l.addressOf(l.shared.getStruct("library_attention", library)),
                 l.pack(arguments), l.getBatch()});
}

static void lower(exec::AttentionOp op, FunctionLowering &l) {
  PoplarAttention desc = op.getDescriptor();
  Value q = op.getQ(), k = op.isPacked() ? q : op.getK(),
        v = op.isPacked() ? q : op.getV();
  SmallVector<Value> arguments = l.pointersOf(
      {q, k, v, op.getKeys(), op.getPositions(), op.getOut(), op.getLse()});
  if (op.getLibrary())
    return callLibraryAttention(
        l, desc,
        addAttention(l, forwardPass, desc, desc.num_heads, arguments.size()),
        /*workspace=*/0, arguments);
  if (l.shared.gpuKernels.exists())
    return launchAttention(l, forwardPass, desc, desc.num_heads, arguments);
  StringRef kernel =
      l.wrap("poplar_attention_forward", l.shared.getStruct("attention", desc));
  l.dispatch(l.addressOf(kernel), arguments,
             desc.num_heads *
                 llvm::divideCeil(desc.seq_len, POPLAR_ATTENTION_BLOCK),
             /*batched=*/true, /*grain=*/1);
}

/// On a GPU, a warp has a row of a head.
static void lower(exec::AttentionSinksOp op, FunctionLowering &l) {
  PoplarAttention desc = op.getDescriptor();
  SmallVector<Value> arguments =
      l.pointersOf({op.getOut(), op.getLse(), op.getSinks()});
  if (!l.shared.gpuKernels.exists()) {
    StringRef kernel =
        l.wrap("poplar_attention_sinks", l.shared.getStruct("attention", desc));
    return l.dispatch(l.addressOf(kernel), arguments, desc.seq_len,
                      /*batched=*/true, /*grain=*/16);
  }
  int64_t rows = desc.seq_len * desc.num_heads,
          bytes = 2 * (desc.head_dim * getWidth(desc.type) + 4);
  int64_t kernel = l.shared.gpuKernels.add(
      "poplar_gpu_attention_sinks", l.shared.getDescriptor(desc),
      {32, POPLAR_GPU_EXPERT_WARPS, 1}, static_cast<int32_t>(arguments.size()),
      {0, rows * bytes, 0}, POPLAR_GPU_EXPERT_WARPS);
  l.launch(kernel, arguments, rows, /*batched=*/true);
}

static void lower(exec::AttentionGradOp op, FunctionLowering &l) {
  PoplarAttention desc = op.getDescriptor();
  bool packed = op.isPacked();
  Value q = op.getQ(), k = packed ? q : op.getK(), v = packed ? q : op.getV(),
        dq = op.getDq(), dk = packed ? dq : op.getDk(),
        dv = packed ? dq : op.getDv();
  if (l.shared.gpuKernels.exists()) {
    assert(op.getDelta() && "--plan-memory adds it for GPUs");
    SmallVector<Value> ofQueries =
                           l.pointersOf({op.getDy(), op.getOut(), op.getLse(),
                                         q, k, v, op.getKeys(),
                                         op.getPositions(), op.getDelta(), dq}),
                       ofKeys = l.pointersOf({op.getDy(), op.getLse(), q, k, v,
                                              op.getKeys(), op.getPositions(),
                                              op.getDelta(), dk, dv});
    if (!op.getLibrary()) {
      launchAttention(l, queriesPass, desc, desc.num_heads, ofQueries);
      return launchAttention(l, keysPass, desc, desc.num_kv_heads, ofKeys);
    }
    OwnAttention own[] = {
        addAttention(l, queriesPass, desc, desc.num_heads, ofQueries.size()),
        addAttention(l, keysPass, desc, desc.num_kv_heads, ofKeys.size())};
    SmallVector<Value> all = ofQueries;
    all.append(ofKeys.end() - 2, ofKeys.end());
    return callLibraryAttention(l, desc, own,
                                4 * op.getDelta().getType().getDimSize(1), all);
  }
  SmallVector<Value> arguments =
      l.pointersOf({op.getDy(), op.getOut(), op.getLse(), q, k, v, op.getKeys(),
                    op.getPositions(), dq, dk, dv});
  StringRef kernel = l.wrap("poplar_attention_backward",
                            l.shared.getStruct("attention_grad", desc));
  l.dispatch(l.addressOf(kernel), arguments, desc.num_kv_heads,
             /*batched=*/true,
             /*grain=*/1);
}

/// On a GPU: a thread appends an element; then a block is a token in a head.
static void launchCachedAttention(FunctionLowering &l,
                                  const PoplarCachedAttention &desc,
                                  ArrayRef<Value> arguments) {
  constexpr int32_t threads = POPLAR_GPU_FLAT_THREADS, lanes = 32;
  const PoplarAttention &shapes = desc.attention;
  exec::RecordAttr descriptor = l.shared.getDescriptor(desc);
  auto pointers = static_cast<int32_t>(arguments.size());
  int64_t elements = desc.tokens * shapes.num_kv_heads * shapes.head_dim,
          width = getWidth(shapes.type);
  int64_t append = l.shared.gpuKernels.add(
      "poplar_gpu_append_cache", descriptor, {threads, 1, 1}, pointers,
      {0, 4 * elements * width, 0}, threads);
  l.launch(append, arguments, elements, /*batched=*/true);
  // Both caches, were they full.
  int64_t bytes =
      2 * shapes.seq_len * shapes.num_kv_heads * shapes.head_dim * width;
  int64_t attend = l.shared.gpuKernels.add(
      "poplar_gpu_cached_attention", descriptor, {lanes, threads / lanes, 1},
      pointers, {0, bytes, 0});
  l.launch(attend, arguments, desc.tokens * shapes.num_heads,
           /*batched=*/true);
}

static void lower(exec::CachedAttentionOp op, FunctionLowering &l) {
  PoplarCachedAttention desc = op.getDescriptor();
  Value q = op.getQ();
  SmallVector<Value> arguments = l.pointersOf(
      {q, op.isPacked() ? q : op.getK(), op.isPacked() ? q : op.getV(),
       op.getPositions(), op.getKeyCache(), op.getValueCache(), op.getOut(),
       op.getSinks()});
  if (l.shared.gpuKernels.exists())
    return launchCachedAttention(l, desc, arguments);
  StringRef shapes = l.shared.getStruct("cached_attention", desc);
  int64_t heads = desc.attention.num_kv_heads;
  l.dispatch(l.addressOf(l.wrap("poplar_append_cache", shapes)), arguments,
             heads, /*batched=*/true, /*grain=*/1);
  l.dispatch(l.addressOf(l.wrap("poplar_cached_attention", shapes)), arguments,
             heads *
                 llvm::divideCeil(desc.tokens, POPLAR_CACHED_ATTENTION_BLOCK),
             /*batched=*/true, /*grain=*/1);
}

static void lower(exec::EmbeddingGradOp op, FunctionLowering &l) {
  PoplarEmbeddingGrad desc = op.getDescriptor();
  SmallVector<Value> arguments =
      l.pointersOf({op.getDy(), op.getIds(), op.getAcc()});
  if (l.shared.gpuKernels.exists()) {
    int64_t kernel = l.shared.gpuKernels.add(
        "poplar_gpu_embedding_grad", l.shared.getDescriptor(desc),
        {POPLAR_GPU_EMBEDDING_THREADS, 1, 1}, 3, getCost(desc));
    return l.launch(kernel, arguments, desc.seq_len, /*batched=*/true);
  }
  StringRef kernel = l.wrap("poplar_embedding_grad",
                            l.shared.getStruct("embedding_grad", desc));
  l.dispatch(l.addressOf(kernel), arguments, desc.width, /*batched=*/false,
             /*grain=*/16);
}

//===----------------------------------------------------------------------===//
// Mixtures of experts
//===----------------------------------------------------------------------===//

template <typename Desc>
static void dispatchExperts(FunctionLowering &l, StringRef function,
                            const Desc &desc, ArrayRef<Value> arguments,
                            int64_t parts, bool batched, int64_t grain) {
  StringRef kernel = l.wrap(function, l.shared.getStruct("experts", desc));
  l.dispatch(l.addressOf(kernel), arguments, parts, batched, grain);
}

template <typename Op> static PoplarRoute getRoute(Op op) {
  MemRefType logits = op.getLogits().getType();
  PoplarRoute desc = {};
  desc.seq_len = logits.getDimSize(1);
  desc.num_experts = logits.getDimSize(2);
  desc.top_k = op.getTopK();
  desc.type = exec::getPoplarType(logits.getElementType());
  desc.normalized = op.getNormalized();
  desc.sigmoid = op.getSigmoid();
  desc.groups = desc.top_groups = 1;
  return desc;
}

/// `accesses` is how often an array of the shape of the logits is read or
/// written. On a GPU, a warp has a token.
static void lowerRoute(Operation *op, FunctionLowering &l,
                       const PoplarRoute &desc, StringRef name,
                       int64_t accesses) {
  SmallVector<Value> arguments =
      l.pointersOf(llvm::to_vector(op->getOperands()));
  if (!l.shared.gpuKernels.exists())
    return dispatchExperts(l, ("poplar_" + name).str(), desc, arguments,
                           desc.seq_len, /*batched=*/true, /*grain=*/1);
  int64_t bytes = accesses * desc.num_experts * getWidth(desc.type) +
                  (4 + 4 * accesses) * desc.top_k;
  int64_t kernel = l.shared.gpuKernels.add(
      ("poplar_gpu_" + name + (desc.biased ? "_biased" : "")).str(),
      l.shared.getDescriptor(desc), {32, POPLAR_GPU_EXPERT_WARPS, 1},
      static_cast<int32_t>(arguments.size()), {0, desc.seq_len * bytes, 0},
      POPLAR_GPU_EXPERT_WARPS);
  l.launch(kernel, arguments, desc.seq_len, /*batched=*/true);
}

static void lower(exec::RouteOp op, FunctionLowering &l) {
  PoplarRoute desc = getRoute(op);
  desc.biased = op.getBias() != nullptr;
  desc.groups = static_cast<int32_t>(op.getGroups());
  desc.top_groups = static_cast<int32_t>(op.getTopGroups());
  lowerRoute(op, l, desc, "route", /*accesses=*/1);
}

static void lower(exec::RouteGradOp op, FunctionLowering &l) {
  lowerRoute(op, l, getRoute(op), "route_grad", /*accesses=*/2);
}

/// `weightBytes` of every weight or gradient, and the rows of a sample;
/// products of all that is taken of its tokens.
static GPUKernelCost getCost(const PoplarGPUExperts &desc,
                             int64_t weightBytes) {
  const PoplarExperts &shapes = desc.shapes;
  auto countRows = [&](int32_t isOwn) { return isOwn ? desc.taken : 1; };
  int64_t elements = shapes.inputs * shapes.outputs,
          results = countRows(shapes.own_outputs) * (1 + desc.adds),
          row = countRows(shapes.own_inputs) * shapes.inputs +
                results * shapes.outputs;
  return {weightBytes * shapes.num_experts,
          shapes.seq_len * (row * getWidth(shapes.type) + 4 * desc.taken),
          2 * shapes.seq_len * desc.taken * elements};
}

static void launchExperts(FunctionLowering &l, const std::string &name,
                          const PoplarGPUExperts &desc, int64_t weightBytes,
                          GPUExperts chosen, int64_t tile,
                          ArrayRef<Value> arguments) {
  int64_t kernel = l.shared.gpuKernels.add(
      name + chosen.suffix, l.shared.getDescriptor(desc),
      {32, POPLAR_GPU_EXPERT_WARPS, 1}, static_cast<int32_t>(arguments.size()),
      getCost(desc, weightBytes));
  l.launch(kernel, arguments,
           desc.shapes.num_experts *
               llvm::divideCeil(desc.shapes.outputs, tile),
           /*batched=*/false);
}

/// The bytes of the weight of an expert.
static int64_t getWeightBytes(const PoplarExperts &desc) {
  if (!desc.quantized)
    return desc.inputs * desc.outputs * getWidth(desc.type);
  bool isTransposed = desc.transposed != 0;
  return poplar_quantized_layout(static_cast<int32_t>(desc.quantized),
                                 isTransposed ? desc.outputs : desc.inputs,
                                 isTransposed ? desc.inputs : desc.outputs)
      .bytes;
}

/// Pointers to the weights of all experts, which may lie in one stack.
static SmallVector<Value> getExperts(OperandRange weights,
                                     const PoplarExperts &desc,
                                     FunctionLowering &l) {
  SmallVector<Value> pointers = l.pointersOf(llvm::to_vector(weights));
  auto type = cast<MemRefType>(weights.front().getType());
  if (type.getRank() != 3)
    return pointers;
  int64_t bytes =
      desc.inputs * desc.outputs * (type.getElementTypeBitWidth() / 8);
  for (int64_t expert = 1; expert < desc.num_experts; ++expert)
    pointers.push_back(l.advance(pointers.back(), bytes, false));
  return pointers;
}

static void lower(exec::ExpertProductOp op, FunctionLowering &l) {
  PoplarExperts desc = op.getDescriptor();
  SmallVector<Value> arguments =
      l.pointersOf({op.getX(), op.getExperts(), op.getResult()});
  llvm::append_range(arguments, getExperts(op.getWeights(), desc, l));
  if (!l.shared.gpuKernels.exists())
    return dispatchExperts(l, "poplar_expert_product", desc, arguments,
                           desc.outputs, /*batched=*/false, /*grain=*/16);
  GPUExperts chosen = chooseGPUExperts(desc, l.shared.capability);
  int64_t width = getWidth(desc.type);
  auto launch = [&](int32_t taken, int32_t adds) {
    launchExperts(l, "poplar_gpu_expert_product", {desc, taken, adds},
                  getWeightBytes(desc), chosen, chosen.columns, arguments);
  };
  if (desc.own_outputs)
    return launch(static_cast<int32_t>(desc.top_k), 0);
  for (int64_t rank = 0; rank < desc.top_k; ++rank) {
    launch(1, rank > 0);
    arguments[1] = l.advance(arguments[1], sizeof(int32_t), false);
    if (desc.own_inputs)
      arguments[0] = l.advance(arguments[0], desc.inputs * width, false);
  }
}

static void lower(exec::ExpertWeightGradOp op, FunctionLowering &l) {
  PoplarExperts desc = op.getDescriptor();
  SmallVector<Value> arguments =
      l.pointersOf({op.getDy(), op.getX(), op.getExperts()});
  llvm::append_range(arguments, getExperts(op.getWeights(), desc, l));
  if (!l.shared.gpuKernels.exists())
    return dispatchExperts(l, "poplar_expert_weight_grad", desc, arguments,
                           desc.outputs, /*batched=*/false, /*grain=*/4);
  GPUExperts chosen = chooseGPUExperts(desc, l.shared.capability);
  launchExperts(l, "poplar_gpu_expert_weight_grad",
                {desc, static_cast<int32_t>(desc.top_k), 0},
                int64_t(2 * sizeof(float)) * desc.inputs * desc.outputs, chosen,
                chosen.gradientRows, arguments);
}

//===----------------------------------------------------------------------===//
// Collectives, messages, state
//===----------------------------------------------------------------------===//

static void lower(exec::StartOp op, FunctionLowering &l) {
  PoplarCollective desc = {};
  desc.id = l.shared.numCollectives++;
  desc.kind = int32_t(op.getKind());
  desc.bucket = l.shared.getBucket(op.getBucket());
  desc.wire_type = exec::getPoplarWire(op.getWire());
  desc.transient = op.getTransient();
  Value address = l.addressOf(l.shared.getStruct("collective", desc));
  Value buffer = op.getBuffer() ? l.pointerOf(op.getBuffer()) : l.null();
  l.callRuntime("poplar_rt_start", {address, buffer});
  l.setPointer(op.getToken(), address);
}

static void lower(exec::WaitOp op, FunctionLowering &l) {
  l.callRuntime("poplar_rt_wait", l.pointerOf(op.getToken()));
}

static void lower(exec::SendOp op, FunctionLowering &l) {
  l.callRuntime("poplar_rt_send", l.constant(int64_t(op.getKind())));
}

static void lower(exec::ReceiveOp op, FunctionLowering &l) {
  l.callRuntime("poplar_rt_receive", l.constant(int64_t(op.getKind())));
}

/// What both forms of an exchange pass: descriptor, buffers and batch.
template <typename Op>
static SmallVector<Value> getExchange(Op op, int64_t pieces,
                                      FunctionLowering &l) {
  PoplarExchange desc = {};
  desc.kind = int32_t(op.getKind());
  llvm::copy(op.getBounds(), desc.bounds);
  desc.count = int32_t(op.getBounds().size()) - 1;
  desc.pieces = pieces;
  auto type = cast<MemRefType>(op.getSource().getType());
  // Behind the batch and, unless it counts samples, the tokens.
  unsigned first = op.getKind() == zero::ExchangeKind::Collect ? 1 : 2;
  desc.row_bytes = type.getElementTypeBitWidth() / 8;
  for (int64_t size : type.getShape().drop_front(first))
    desc.row_bytes *= size;
  SmallVector<Value> buffers = {l.pointerOf(op.getSource())};
  llvm::append_range(buffers, l.pointersOf(llvm::to_vector(op.getResults())));
  return {l.addressOf(l.shared.getStruct("exchange", desc)), l.pack(buffers),
          l.getBatch()};
}

static void lower(exec::ExchangeOp op, FunctionLowering &l) {
  l.callRuntime("poplar_rt_exchange", getExchange(op, 1, l));
}

static void addRound(exec::StartExchangeOp op, FunctionLowering &l,
                     SmallVector<Value> &arguments) {
  arguments.push_back(l.constant(op.getRound() ? int64_t(*op.getRound()) : -1));
  arguments.push_back(l.constant(int64_t(op.getPiece())));
}

static void lower(exec::StartExchangeOp op, FunctionLowering &l) {
  SmallVector<Value> arguments = getExchange(op, int64_t(op.getPieces()), l);
  l.setPointer(op.getToken(), arguments.front());
  addRound(op, l, arguments);
  l.callRuntime("poplar_rt_start_exchange", arguments);
}

static void lower(exec::WaitExchangeOp op, FunctionLowering &l) {
  SmallVector<Value> arguments = {l.pointerOf(op.getToken())};
  addRound(op.getToken().getDefiningOp<exec::StartExchangeOp>(), l, arguments);
  l.callRuntime("poplar_rt_wait_exchange", arguments);
}

static void lower(exec::RowsOp op, FunctionLowering &l) {
  l.setPointer(op.getRows(),
               l.advance(l.pointerOf(op.getBuffer()),
                         int64_t(op.getFirst()) * op.getRowBytes(), true));
}

static void lower(exec::ZeroOp op, FunctionLowering &l) {
  MemRefType type = op.getBuffer().getType();
  l.callRuntime(
      "poplar_rt_zero",
      {l.pointerOf(op.getBuffer()),
       l.constant(type.getNumElements() * type.getElementTypeBitWidth() / 8)});
}

static void lower(exec::UnscaleOp op, FunctionLowering &l) {
  l.callRuntime("poplar_rt_unscale",
                {l.constant(l.shared.getBucket(op.getBucket())),
                 l.pointerOf(op.getGradients())});
}

static void lower(exec::NormOp op, FunctionLowering &l) {
  l.callRuntime("poplar_rt_norm", l.constant(op.getUnscale()));
}

static void lower(exec::AdamWOp op, FunctionLowering &l) {
  l.callRuntime("poplar_rt_adamw",
                l.constant(l.shared.getBucket(op.getBucket())));
}

static void lower(exec::ReturnOp, FunctionLowering &l) {
  func::ReturnOp::create(l.builder, l.loc);
}

//===----------------------------------------------------------------------===//
// Models
//===----------------------------------------------------------------------===//

/// Why this machine has no products of a type.
static std::string explainNoProduct(int32_t type) {
  const char *format = type == POPLAR_BF16  ? "bf16"
                       : type == POPLAR_F16 ? "f16"
                                            : "f32";
  std::string text = std::string("has no product in ") + format +
                     " on this CPU (" + getHostCPU().name + ")";
  if (type == POPLAR_BF16 && !getHostCPU().has("avx512bw"))
    text += std::string(", which lacks AVX-512 (avx512f, avx512bw, avx512dq, "
                        "avx512vl)") +
            (std::getenv(kMaxISAVariable) ? ": POPLAR_MAX_ISA hides it" : "");
  return text + "; choose the precision f32, or build on a CPU that has it";
}

namespace {

template <typename Op>
struct CallModel
    : exec::ProgramCallOpInterface::ExternalModel<CallModel<Op>, Op> {
  void lowerCall(Operation *op, FunctionLowering &lowering) const {
    lower(cast<Op>(op), lowering);
  }
};

struct ProductModel
    : exec::ProgramCallOpInterface::ExternalModel<ProductModel,
                                                  exec::ProductOp> {
  void lowerCall(Operation *op, FunctionLowering &lowering) const {
    lower(cast<exec::ProductOp>(op), lowering);
  }
  FailureOr<int64_t> getLibraryScratch(Operation *op, int64_t maxBatch,
                                       int threads) const {
    PoplarGemm gemm = cast<exec::ProductOp>(op).getDescriptor();
    if (gemm.a_row || gemm.c_row)
      return op->emitOpError("has padded rows, which libraries of CPUs are not "
                             "told of");
    int64_t bytes = poplar_gemm_scratch_bytes(&gemm, maxBatch, threads);
    if (bytes < 0)
      return op->emitOpError(explainNoProduct(gemm.a_type));
    return bytes;
  }
};

} // namespace

template <typename... Ops> static void attachModels(MLIRContext &context) {
  (Ops::template attachInterface<CallModel<Ops>>(context), ...);
}

void poplar::registerProgramCalls(DialectRegistry &registry) {
  registry.insert<exec::ExecDialect>();
  registry.addExtension(+[](MLIRContext *context, exec::ExecDialect *) {
    attachModels<exec::BufferOp, exec::EndOp, exec::ViewOp, exec::PortOp,
                 exec::CallOp, exec::DispatchOp, exec::AttentionOp,
                 exec::AttentionSinksOp, exec::AttentionGradOp,
                 exec::CachedAttentionOp, exec::EmbeddingGradOp, exec::StartOp,
                 exec::WaitOp, exec::SendOp, exec::ReceiveOp, exec::ExchangeOp,
                 exec::ZeroOp, exec::UnscaleOp, exec::NormOp, exec::AdamWOp,
                 exec::ReturnOp, exec::RowsOp, exec::StartExchangeOp,
                 exec::WaitExchangeOp, exec::RouteOp, exec::RouteGradOp,
                 exec::ExpertProductOp, exec::ExpertWeightGradOp>(*context);
    exec::ProductOp::attachInterface<ProductModel>(*context);
  });
}
