//===- Cudnn.h - cuDNN's graphs ---------------------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The part of the interface of its backend that is used, declared here like the
// driver's (cuDNN 9.19, "Backend API"). Everything is a descriptor, an object
// that gets attributes and is then finalised.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_CUDA_CUDNN_H
#define POPLAR_RUNTIME_CUDA_CUDNN_H

#include "cuda/Driver.h"

#include <cstdint>
#include <string>

namespace poplar::runtime::cuda::dnn {

/// cudnnStatus_t.
using Status = int;
/// Opaque: cudnnHandle_t and cudnnBackendDescriptor_t.
using Handle = void *;
using Object = void *;

/// cudnnBackendDescriptorType_t.
constexpr int PointwiseKind = 0, EngineKind = 2, ConfigKind = 3,
              HeuristicKind = 4, PlanKind = 5, PointwiseOperation = 13,
              GraphKind = 15, PackKind = 16, TensorKind = 17, MatmulKind = 18,
              MatmulOperation = 19, ReductionKind = 21, ReductionOperation = 22,
              ReshapeOperation = 31, PropertiesKind = 38;

/// cudnnBackendAttributeType_t.
constexpr int HandleValue = 0, TypeValue = 1, BooleanValue = 2, Int64Value = 3,
              PointerValue = 6, HeuristicValue = 8, NoteValue = 11,
              PointwiseValue = 14, ObjectValue = 15, ReductionValue = 18,
              TextValue = 24;

/// cudnnBackendAttributeName_t.
constexpr int PointwiseMode = 0, PointwiseType = 1, PointwiseAxis = 9;
constexpr int HeuristicMode = 200, HeuristicGraph = 201, HeuristicResults = 202,
              HeuristicProperties = 204;
constexpr int ConfigEngine = 300, ConfigWorkspace = 303;
constexpr int PlanHandle = 400, PlanConfig = 401, PlanWorkspace = 402,
              PlanProperties = 407;
constexpr int OperationPointwise = 750, OperationPointwiseX = 751,
              OperationPointwiseB = 752, OperationPointwiseY = 753,
              OperationPointwiseT = 758;
constexpr int GraphHandle = 800, GraphOperations = 801;
constexpr int TensorAlignment = 900, TensorType = 901, TensorDimensions = 902,
              TensorStrides = 903, TensorId = 906, TensorIsVirtual = 907,
              TensorIsByValue = 908;
constexpr int PackIds = 1000, PackPointers = 1001, PackWorkspace = 1003;
constexpr int EngineIndex = 1301, EngineNotes = 1303;
constexpr int MatmulType = 1500, OperationMatmulA = 1520,
              OperationMatmulB = 1521, OperationMatmulC = 1522,
              OperationMatmul = 1523;
constexpr int ReductionMode = 1600, ReductionType = 1601,
              OperationReductionX = 1610, OperationReductionY = 1611,
              OperationReduction = 1612;
constexpr int ReshapeX = 2200, ReshapeY = 2201;
/// Describes a GPU that is not there, for tests.
constexpr int PropertiesText = 2702;

/// cudnnDataType_t.
constexpr int32_t F32 = 0, F16 = 2, I32 = 4, BF16 = 9, Boolean = 11;
/// cudnnPointwiseMode_t.
constexpr int32_t Add = 0, Multiply = 1, Divide = 6, Subtract = 9, Exp = 13,
                  Log = 15, IsGreater = 302, IsNotLess = 303, Index = 501,
                  Select = 601;
/// cudnnReduceTensorOp_t.
constexpr int32_t Sum = 0, Maximum = 3;
/// cudnnBackendHeurMode_t.
constexpr int32_t Fallback = 2, Best = 3;
/// cudnnBackendNumericalNote_t.
constexpr int32_t Nondeterministic = 4;

#define POPLAR_CUDNN(X)                                                        \
  X(cudnnCreate, Handle *)                                                     \
  X(cudnnDestroy, Handle)                                                      \
  X(cudnnSetStream, Handle, Stream)                                            \
  X(cudnnBackendCreateDescriptor, int, Object *)                               \
  X(cudnnBackendDestroyDescriptor, Object)                                     \
  X(cudnnBackendFinalize, Object)                                              \
  X(cudnnBackendSetAttribute, Object, int, int, int64_t, const void *)         \
  X(cudnnBackendGetAttribute, Object, int, int, int64_t, int64_t *, void *)    \
  X(cudnnBackendExecute, Handle, Object, Object)

/// The functions of the library.
struct Cudnn {
  /// Loads it. Throws an Error where there is none.
  Cudnn();

#define POPLAR_CUDNN_MEMBER(NAME, ...) Status (*NAME)(__VA_ARGS__);
  POPLAR_CUDNN(POPLAR_CUDNN_MEMBER)
#undef POPLAR_CUDNN_MEMBER
  size_t (*cudnnGetVersion)();
  const char *(*cudnnGetErrorString)(Status);
  void (*cudnnGetLastErrorString)(char *, size_t);

  /// 91900 for 9.19.0.
  int64_t getVersion() const { return static_cast<int64_t>(cudnnGetVersion()); }
  /// "cuDNN 9.19.0".
  std::string getName() const;
  /// What the library says about a failed call.
  std::string explain(Status S) const;
};

} // namespace poplar::runtime::cuda::dnn

#endif // POPLAR_RUNTIME_CUDA_CUDNN_H
