//===- AttentionGraph.cpp - Attention as a graph of cuDNN -----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cuda/AttentionGraph.h"
#include "support/Error.h"

#include <algorithm>
#include <limits>

using namespace poplar::runtime;
using namespace poplar::runtime::cuda;
using namespace poplar::runtime::cuda::dnn;

namespace {

/// The numbers by which tensors are known; those of intermediate ones follow.
enum Id : int64_t {
  IdQ = 1,
  IdK,
  IdV,
  IdOut,
  IdLse,
  IdDy,
  IdDq,
  IdDk,
  IdDv,
  IdDelta,
  IdInternal
};

using Extents = std::array<int64_t, 4>;

struct GraphTensor {
  Object Descriptor = nullptr;
  Extents Sizes = {}, Strides = {};
};

/// Where tensors of cuDNN begin: what its engines for attention ask for.
constexpr int64_t OperandAlignment = 16;
/// Engines that are looked at, of each mode of the heuristics.
constexpr int64_t MostConfigs = 16;

/// The workspace begins at a multiple of this, and so does each of its parts.
constexpr int64_t WorkspaceAlignment = 256;
int64_t roundUp(int64_t Bytes) {
  return (Bytes + WorkspaceAlignment - 1) / WorkspaceAlignment *
         WorkspaceAlignment;
}

Extents pack(const Extents &Sizes) {
  return {Sizes[1] * Sizes[2] * Sizes[3], Sizes[2] * Sizes[3], Sizes[3], 1};
}

int32_t getType(int32_t Type) { return Type == POPLAR_BF16 ? BF16 : F16; }

} // namespace

namespace poplar::runtime::cuda {

/// Makes the operations of a pass.
class AttentionBuilder {
public:
  AttentionBuilder(AttentionGraph &Graph, int64_t Batch)
      : Graph(Graph), A(Graph.Shapes), B(Batch), H(A.num_heads), T(A.seq_len),
        D(A.head_dim), Type(getType(A.type)),
        Scale(scalar(static_cast<float>(A.scale))) {}

  void buildForward();
  void buildGradient();

private:
  enum Place { InMemory, Intermediate };

  GraphTensor create(int64_t Number, int32_t Type, const Extents &Sizes,
                     const Extents &Strides, Place Where);
  /// An intermediate value.
  GraphTensor value(int32_t Type, const Extents &Sizes,
                    const Extents &Strides) {
    return create(NextInternal++, Type, Sizes, Strides, Intermediate);
  }
  GraphTensor value(const Extents &Sizes) {
    return value(F32, Sizes, pack(Sizes));
  }
  /// Heads of rows in the memory of an operand.
  GraphTensor operand(Id Number, int64_t Heads, int64_t Stride);
  GraphTensor scalar(float Value);
  /// The same elements as [B,H,D,T].
  GraphTensor transposed(Id Number, int64_t Heads, int64_t Stride);

  Object operation(int Kind, int DescriptionName, Object Description);
  void multiply(const GraphTensor &X, const GraphTensor &Y,
                const GraphTensor &Result);
  void point(int32_t Mode, const GraphTensor &X, const GraphTensor *Y,
             const GraphTensor &Result, const GraphTensor *Condition = nullptr,
             int32_t ComputeType = F32, int64_t Axis = -1);
  GraphTensor point(int32_t Mode, const GraphTensor &X) {
    GraphTensor Result = value(X.Sizes);
    point(Mode, X, nullptr, Result);
    return Result;
  }
  GraphTensor point(int32_t Mode, const GraphTensor &X, const GraphTensor &Y) {
    GraphTensor Result = value(X.Sizes);
    point(Mode, X, &Y, Result);
    return Result;
  }
  void reduce(int32_t Mode, const GraphTensor &X, const GraphTensor &Result);
  void reshape(const GraphTensor &X, const GraphTensor &Result);
  /// Scores where `Left` compares so with `Right`, else minus infinity.
  GraphTensor keepWhere(const GraphTensor &Scores, int32_t Mode,
                        const GraphTensor &Left, const GraphTensor &Right);
  GraphTensor index(const GraphTensor &Scores, int64_t Axis);
  GraphTensor mask(GraphTensor Scores);
  GraphTensor scores(const GraphTensor &Q, const GraphTensor &KT);
  GraphTensor stats() {
    Extents Sizes = {B, H, T, 1};
    return create(IdLse, F32, Sizes, pack(Sizes), InMemory);
  }
  /// `X`^T in 16 bits, a matrix for each head.
  GraphTensor transposeScores(const GraphTensor &X);
  /// Stores X Y, a matrix for each head, added up over the heads that share
  /// keys and values.
  void multiplyShared(const GraphTensor &X, const GraphTensor &Y,
                      const GraphTensor &Result);

  AttentionGraph &Graph;
  const PoplarAttention &A;
  int64_t B, H, T, D;
  int32_t Type;
  int64_t NextInternal = IdInternal;
  GraphTensor Scale;
};

} // namespace poplar::runtime::cuda

//===----------------------------------------------------------------------===//
// Tensors and operations
//===----------------------------------------------------------------------===//

GraphTensor AttentionBuilder::create(int64_t Number, int32_t Type,
                                     const Extents &Sizes,
                                     const Extents &Strides, Place Where) {
  GraphTensor Own = {Graph.create(TensorKind), Sizes, Strides};
  Graph.set(Own.Descriptor, TensorType, TypeValue, &Type);
  Graph.set(Own.Descriptor, TensorDimensions, Int64Value, Sizes.data(), 4);
  Graph.set(Own.Descriptor, TensorStrides, Int64Value, Strides.data(), 4);
  Graph.set(Own.Descriptor, TensorId, Int64Value, &Number);
  Graph.set(Own.Descriptor, TensorAlignment, Int64Value, &OperandAlignment);
  bool IsVirtual = Where == Intermediate;
  if (IsVirtual)
    Graph.set(Own.Descriptor, TensorIsVirtual, BooleanValue, &IsVirtual);
  else if (Number < IdInternal)
    Graph.Bound.push_back(Number);
  Graph.finalise(Own.Descriptor, "describe a tensor");
  return Own;
}

GraphTensor AttentionBuilder::operand(Id Number, int64_t Heads,
                                      int64_t Stride) {
  return create(Number, Type, {B, Heads, T, D}, {T * Stride, D, Stride, 1},
                InMemory);
}

GraphTensor AttentionBuilder::transposed(Id Number, int64_t Heads,
                                         int64_t Stride) {
  return create(Number, Type, {B, Heads, D, T}, {T * Stride, D, 1, Stride},
                InMemory);
}

GraphTensor AttentionBuilder::scalar(float Value) {
  GraphTensor Own = {Graph.create(TensorKind), {1, 1, 1, 1}, {1, 1, 1, 1}};
  int64_t Number = NextInternal++;
  bool IsByValue = true;
  Graph.set(Own.Descriptor, TensorType, TypeValue, &F32);
  Graph.set(Own.Descriptor, TensorDimensions, Int64Value, Own.Sizes.data(), 4);
  Graph.set(Own.Descriptor, TensorStrides, Int64Value, Own.Strides.data(), 4);
  Graph.set(Own.Descriptor, TensorId, Int64Value, &Number);
  Graph.set(Own.Descriptor, TensorAlignment, Int64Value, &OperandAlignment);
  Graph.set(Own.Descriptor, TensorIsByValue, BooleanValue, &IsByValue);
  Graph.finalise(Own.Descriptor, "describe a number");
  Graph.Scalars.emplace_back(Number, Value);
  return Own;
}

Object AttentionBuilder::operation(int Kind, int DescriptionName,
                                   Object Description) {
  Object Own = Graph.create(Kind);
  if (Description)
    Graph.set(Own, DescriptionName, ObjectValue, &Description);
  Graph.Operations.push_back(Own);
  return Own;
}

void AttentionBuilder::multiply(const GraphTensor &X, const GraphTensor &Y,
                                const GraphTensor &Result) {
  Object Description = Graph.create(MatmulKind);
  Graph.set(Description, MatmulType, TypeValue, &F32);
  Graph.finalise(Description, "describe a product");
  Object Own = operation(MatmulOperation, OperationMatmul, Description);
  Graph.set(Own, OperationMatmulA, ObjectValue, &X.Descriptor);
  Graph.set(Own, OperationMatmulB, ObjectValue, &Y.Descriptor);
  Graph.set(Own, OperationMatmulC, ObjectValue, &Result.Descriptor);
  Graph.finalise(Own, "describe a product");
}

void AttentionBuilder::point(int32_t Mode, const GraphTensor &X,
                             const GraphTensor *Y, const GraphTensor &Result,
                             const GraphTensor *Condition, int32_t ComputeType,
                             int64_t Axis) {
  Object Description = Graph.create(PointwiseKind);
  Graph.set(Description, PointwiseMode, PointwiseValue, &Mode);
  Graph.set(Description, PointwiseType, TypeValue, &ComputeType);
  if (Axis >= 0)
    Graph.set(Description, PointwiseAxis, Int64Value, &Axis);
  Graph.finalise(Description, "describe a function");
  Object Own = operation(PointwiseOperation, OperationPointwise, Description);
  Graph.set(Own, OperationPointwiseX, ObjectValue, &X.Descriptor);
  if (Y)
    Graph.set(Own, OperationPointwiseB, ObjectValue, &Y->Descriptor);
  if (Condition)
    Graph.set(Own, OperationPointwiseT, ObjectValue, &Condition->Descriptor);
  Graph.set(Own, OperationPointwiseY, ObjectValue, &Result.Descriptor);
  Graph.finalise(Own, "describe a function");
}

void AttentionBuilder::reduce(int32_t Mode, const GraphTensor &X,
                              const GraphTensor &Result) {
  Object Description = Graph.create(ReductionKind);
  Graph.set(Description, ReductionMode, ReductionValue, &Mode);
  Graph.set(Description, ReductionType, TypeValue, &F32);
  Graph.finalise(Description, "describe a reduction");
  Object Own = operation(ReductionOperation, OperationReduction, Description);
  Graph.set(Own, OperationReductionX, ObjectValue, &X.Descriptor);
  Graph.set(Own, OperationReductionY, ObjectValue, &Result.Descriptor);
  Graph.finalise(Own, "describe a reduction");
}

void AttentionBuilder::reshape(const GraphTensor &X,
                               const GraphTensor &Result) {
  Object Own = operation(ReshapeOperation, 0, nullptr);
  Graph.set(Own, ReshapeX, ObjectValue, &X.Descriptor);
  Graph.set(Own, ReshapeY, ObjectValue, &Result.Descriptor);
  Graph.finalise(Own, "describe a transposition");
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

GraphTensor AttentionBuilder::index(const GraphTensor &Scores, int64_t Axis) {
  GraphTensor Result = value(I32, Scores.Sizes, Scores.Strides);
  point(Index, Scores, nullptr, Result, nullptr, F32, Axis);
  return Result;
}

GraphTensor AttentionBuilder::keepWhere(const GraphTensor &Scores, int32_t Mode,
                                        const GraphTensor &Left,
                                        const GraphTensor &Right) {
  GraphTensor Visible = value(Boolean, Scores.Sizes, Scores.Strides);
  point(Mode, Left, &Right, Visible, nullptr, Boolean);
  GraphTensor Hidden = scalar(-std::numeric_limits<float>::infinity()),
              Result = value(Scores.Sizes);
  point(Select, Scores, &Hidden, Result, &Visible);
  return Result;
}

GraphTensor AttentionBuilder::mask(GraphTensor Scores) {
  if (A.causal) {
    GraphTensor Query = index(Scores, 2), Key = index(Scores, 3);
    Scores = keepWhere(Scores, IsNotLess, Query, Key);
  }
  if (A.window > 0) {
    GraphTensor Query = index(Scores, 2), Key = index(Scores, 3);
    GraphTensor Window = scalar(static_cast<float>(A.window)),
                Last = value(F32, Scores.Sizes, Scores.Strides);
    point(Add, Key, &Window, Last, nullptr, F32, 3);
    Scores = keepWhere(Scores, IsGreater, Last, Query);
  }
  return Scores;
}

GraphTensor AttentionBuilder::scores(const GraphTensor &Q,
                                     const GraphTensor &KT) {
  GraphTensor Products = value({B, H, T, T});
  multiply(Q, KT, Products);
  return point(Multiply, Products, Scale);
}

void AttentionBuilder::buildForward() {
  GraphTensor Q = operand(IdQ, H, A.q_stride),
              KT = transposed(IdK, A.num_kv_heads, A.k_stride),
              V = operand(IdV, A.num_kv_heads, A.v_stride),
              Out = operand(IdOut, H, A.out_stride), Lse = stats();
  GraphTensor Scores = mask(scores(Q, KT));
  GraphTensor Most = value({B, H, T, 1}), Total = value({B, H, T, 1});
  reduce(Maximum, Scores, Most);
  GraphTensor Powers = point(Exp, point(Subtract, Scores, Most));
  reduce(Sum, Powers, Total);
  GraphTensor Logarithm = point(Log, Total);
  point(Add, Most, &Logarithm, Lse);
  // The second product takes operands of one type.
  GraphTensor P = value(Type, Scores.Sizes, Scores.Strides);
  point(Divide, Powers, &Total, P);
  multiply(P, V, Out);
}

GraphTensor AttentionBuilder::transposeScores(const GraphTensor &X) {
  GraphTensor Result = value(Type, {B, H, T, T}, {H * T * T, T * T, 1, T});
  reshape(X, Result);
  return Result;
}

void AttentionBuilder::multiplyShared(const GraphTensor &X,
                                      const GraphTensor &Y,
                                      const GraphTensor &Result) {
  if (H == A.num_kv_heads)
    return multiply(X, Y, Result);
  Extents Sizes = {B, H, T, D};
  GraphTensor OfAllHeads = value(Type, Sizes, pack(Sizes));
  multiply(X, Y, OfAllHeads);
  reduce(Sum, OfAllHeads, Result);
}

void AttentionBuilder::buildGradient() {
  int64_t Shared = A.num_kv_heads;
  GraphTensor Q = operand(IdQ, H, A.q_stride),
              KT = transposed(IdK, Shared, A.k_stride),
              VT = transposed(IdV, Shared, A.v_stride),
              Out = operand(IdOut, H, A.out_stride), Lse = stats(),
              Dy = operand(IdDy, H, A.out_stride),
              Dq = operand(IdDq, H, A.q_stride),
              Dk = operand(IdDk, Shared, A.k_stride),
              Dv = operand(IdDv, Shared, A.v_stride);
  // The sums of dy . out, in the workspace.
  Extents Rows = {B, H, T, 1};
  GraphTensor Products = value(F32, {B, H, T, D}, {H * T * D, T * D, H * D, 1}),
              Sums = value(Rows),
              Delta = create(IdDelta, F32, Rows, pack(Rows), InMemory);
  point(Multiply, Dy, &Out, Products);
  reduce(Sum, Products, Sums);
  GraphTensor One = scalar(1);
  point(Multiply, Sums, &One, Delta);
  GraphTensor P = point(Exp, mask(point(Subtract, scores(Q, KT), Lse)));
  multiplyShared(transposeScores(P), Dy, Dv);
  GraphTensor Dp = value({B, H, T, T});
  multiply(Dy, VT, Dp);
  GraphTensor Ds = point(Multiply, point(Subtract, Dp, Delta), P);
  Ds = point(Multiply, Ds, Scale);
  multiplyShared(transposeScores(Ds), Q, Dk);
  GraphTensor K =
      value(F32, {B, Shared, T, D}, {T * A.k_stride, D, A.k_stride, 1});
  reshape(KT, K);
  multiply(Ds, K, Dq);
}

//===----------------------------------------------------------------------===//
// The graph and its plan
//===----------------------------------------------------------------------===//

AttentionGraph::AttentionGraph(const Cudnn &Library, dnn::Handle Handle,
                               const PoplarAttention &Shapes,
                               AttentionPass Pass, int64_t Batch)
    : Library(Library), Handle(Handle), Shapes(Shapes) {
  AttentionBuilder Builder(*this, Batch);
  if (Pass == AttentionPass::Forward)
    Builder.buildForward();
  else
    Builder.buildGradient();
  if (Pass == AttentionPass::Gradient)
    DeltaBytes = roundUp(4 * Batch * Shapes.num_heads * Shapes.seq_len);
  Graph = create(GraphKind);
  if (Handle)
    set(Graph, GraphHandle, HandleValue, &Handle);
  set(Graph, GraphOperations, ObjectValue, Operations.data(),
      static_cast<int64_t>(Operations.size()));
  finalise(Graph, "describe attention");
}

AttentionGraph::~AttentionGraph() {
  for (auto It = Objects.rbegin(); It != Objects.rend(); ++It)
    Library.cudnnBackendDestroyDescriptor(*It);
}

void AttentionGraph::check(Status S, const char *What) const {
  if (S != 0)
    fail(Library.getName(), " cannot ", What, " (", Library.explain(S), ")");
}

Object AttentionGraph::create(int Kind) const {
  Object Own = nullptr;
  check(Library.cudnnBackendCreateDescriptor(Kind, &Own), "make a descriptor");
  Objects.push_back(Own);
  return Own;
}

void AttentionGraph::set(Object To, int Name, int Type, const void *Values,
                         int64_t Count) const {
  check(Library.cudnnBackendSetAttribute(To, Name, Type, Count, Values),
        "describe attention");
}

void AttentionGraph::finalise(Object Own, const char *What) const {
  check(Library.cudnnBackendFinalize(Own), What);
}

std::vector<Object> AttentionGraph::queryConfigs(int32_t Mode,
                                                 Object Properties) const {
  Object Heuristic = create(HeuristicKind);
  set(Heuristic, HeuristicGraph, ObjectValue, &Graph);
  set(Heuristic, HeuristicMode, HeuristicValue, &Mode);
  if (Properties)
    set(Heuristic, HeuristicProperties, ObjectValue, &Properties);
  // A mode that has no engine may fail; the other one may have some.
  if (Library.cudnnBackendFinalize(Heuristic) != 0)
    return {};
  std::vector<Object> Configs;
  for (int64_t I = 0; I < MostConfigs; ++I)
    Configs.push_back(create(ConfigKind));
  int64_t Found = 0;
  check(Library.cudnnBackendGetAttribute(Heuristic, HeuristicResults,
                                         ObjectValue, MostConfigs, &Found,
                                         Configs.data()),
        "list its engines");
  Configs.resize(
      static_cast<size_t>(std::clamp<int64_t>(Found, 0, MostConfigs)));
  return Configs;
}

Object AttentionGraph::getEngine(Object Config) const {
  Object Engine = create(EngineKind);
  int64_t Found = 0;
  check(Library.cudnnBackendGetAttribute(Config, ConfigEngine, ObjectValue, 1,
                                         &Found, &Engine),
        "name an engine");
  return Engine;
}

bool AttentionGraph::isDeterministic(Object Config) const {
  int64_t Found = 0;
  std::array<int32_t, 16> Notes = {};
  check(Library.cudnnBackendGetAttribute(
            getEngine(Config), EngineNotes, NoteValue,
            static_cast<int64_t>(Notes.size()), &Found, Notes.data()),
        "tell how an engine computes");
  auto End = Notes.begin() + Found;
  return std::find(Notes.begin(), End, Nondeterministic) == End;
}

std::vector<AttentionEngine>
AttentionGraph::listEngines(Object Properties) const {
  std::vector<AttentionEngine> Engines;
  for (int32_t Mode : {Best, Fallback})
    for (Object Config : queryConfigs(Mode, Properties)) {
      AttentionEngine Own;
      int64_t Found = 0;
      check(Library.cudnnBackendGetAttribute(getEngine(Config), EngineIndex,
                                             Int64Value, 1, &Found,
                                             &Own.Number),
            "name an engine");
      check(Library.cudnnBackendGetAttribute(Config, ConfigWorkspace,
                                             Int64Value, 1, &Found,
                                             &Own.WorkspaceBytes),
            "tell its workspace");
      Own.WorkspaceBytes += DeltaBytes;
      Own.IsDeterministic = isDeterministic(Config);
      Engines.push_back(Own);
    }
  return Engines;
}

void AttentionGraph::plan(int64_t MostBytes, Object Properties) {
  std::string Reason = "it has no engine for it";
  for (int32_t Mode : {Best, Fallback})
    for (Object Config : queryConfigs(Mode, Properties)) {
      if (!isDeterministic(Config)) {
        Reason = "its engines for it do not repeat to the bit";
        continue;
      }
      Object Own = create(PlanKind);
      if (Handle)
        set(Own, PlanHandle, HandleValue, &Handle);
      if (Properties)
        set(Own, PlanProperties, ObjectValue, &Properties);
      set(Own, PlanConfig, ObjectValue, &Config);
      if (Status S = Library.cudnnBackendFinalize(Own)) {
        Reason = Library.explain(S);
        continue;
      }
      int64_t Found = 0, Bytes = 0;
      check(Library.cudnnBackendGetAttribute(Own, PlanWorkspace, Int64Value, 1,
                                             &Found, &Bytes),
            "tell its workspace");
      Bytes += DeltaBytes;
      if (Bytes > MostBytes) {
        Reason = "it needs a workspace of " + std::to_string(Bytes) +
                 " bytes, and the plan of the memory has " +
                 std::to_string(MostBytes);
        continue;
      }
      Plan = Own;
      WorkspaceBytes = Bytes;
      return;
    }
  fail(Library.getName(), " does not run attention: ", Reason);
}

std::string AttentionGraph::run(const AttentionOperands &Operands,
                                void *Workspace) const {
  auto Begin = reinterpret_cast<uintptr_t>(Workspace);
  void *Delta = Workspace;
  auto *Rest =
      reinterpret_cast<void *>(Begin + static_cast<uint64_t>(DeltaBytes));
  // By Id.
  const void *Known[] = {nullptr,      Operands.Q,   Operands.K,  Operands.V,
                         Operands.Out, Operands.Lse, Operands.Dy, Operands.Dq,
                         Operands.Dk,  Operands.Dv,  Delta};
  std::vector<int64_t> Ids = Bound;
  std::vector<const void *> Pointers;
  for (int64_t Number : Bound)
    Pointers.push_back(Known[Number]);
  for (const auto &[Number, Value] : Scalars) {
    Ids.push_back(Number);
    Pointers.push_back(&Value);
  }
  auto Count = static_cast<int64_t>(Ids.size());
  Object Pack = nullptr;
  Status S = Library.cudnnBackendCreateDescriptor(PackKind, &Pack);
  auto Set = [&](int Name, int Type, const void *Values, int64_t Count) {
    if (S == 0)
      S = Library.cudnnBackendSetAttribute(Pack, Name, Type, Count, Values);
  };
  Set(PackIds, Int64Value, Ids.data(), Count);
  Set(PackPointers, PointerValue, Pointers.data(), Count);
  Set(PackWorkspace, PointerValue, &Rest, 1);
  if (S == 0)
    S = Library.cudnnBackendFinalize(Pack);
  if (S == 0)
    S = Library.cudnnBackendExecute(Handle, Plan, Pack);
  std::string Reason = S == 0 ? "" : Library.explain(S);
  if (Pack)
    Library.cudnnBackendDestroyDescriptor(Pack);
  return Reason;
}
