//===- CudnnDeclarationsTest.cpp - Our declarations of cuDNN, its header --===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The same as in DeclarationsTest.cpp, for cuDNN.
//
//===----------------------------------------------------------------------===//

#include "Alike.h"
#include "cuda/Cudnn.h"

#include <cudnn.h>
#include <gtest/gtest.h>

namespace ours = poplar::runtime::cuda::dnn;
using poplar::emulated::Alike;

namespace {

#define CHECK_CUDNN(NAME, ...)                                                 \
  static_assert(Alike<decltype(ours::Cudnn::NAME), decltype(&::NAME)>::value);
POPLAR_CUDNN(CHECK_CUDNN)
CHECK_CUDNN(cudnnGetVersion)
CHECK_CUDNN(cudnnGetErrorString)
static_assert(sizeof(ours::Handle) == sizeof(cudnnHandle_t));
static_assert(sizeof(ours::Object) == sizeof(cudnnBackendDescriptor_t));
// Values of attributes.
static_assert(sizeof(cudnnDataType_t) == sizeof(int32_t));
static_assert(sizeof(cudnnPointwiseMode_t) == sizeof(int32_t));
static_assert(sizeof(cudnnReduceTensorOp_t) == sizeof(int32_t));
static_assert(sizeof(cudnnBackendHeurMode_t) == sizeof(int32_t));
static_assert(sizeof(cudnnBackendNumericalNote_t) == sizeof(int32_t));

struct Constant {
  const char *name;
  int ours, theirs;
};

#define SAME(OURS, THEIRS)                                                     \
  Constant { #THEIRS, ours::OURS, int(THEIRS) }

const Constant constants[] = {
    SAME(PointwiseKind, CUDNN_BACKEND_POINTWISE_DESCRIPTOR),
    SAME(EngineKind, CUDNN_BACKEND_ENGINE_DESCRIPTOR),
    SAME(ConfigKind, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR),
    SAME(HeuristicKind, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR),
    SAME(PlanKind, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR),
    SAME(PointwiseOperation, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR),
    SAME(GraphKind, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR),
    SAME(PackKind, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR),
    SAME(TensorKind, CUDNN_BACKEND_TENSOR_DESCRIPTOR),
    SAME(MatmulKind, CUDNN_BACKEND_MATMUL_DESCRIPTOR),
    SAME(MatmulOperation, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR),
    SAME(ReductionKind, CUDNN_BACKEND_REDUCTION_DESCRIPTOR),
    SAME(ReductionOperation, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR),
    SAME(ReshapeOperation, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR),
    SAME(HandleValue, CUDNN_TYPE_HANDLE),
    SAME(TypeValue, CUDNN_TYPE_DATA_TYPE),
    SAME(BooleanValue, CUDNN_TYPE_BOOLEAN),
    SAME(Int64Value, CUDNN_TYPE_INT64),
    SAME(PointerValue, CUDNN_TYPE_VOID_PTR),
    SAME(HeuristicValue, CUDNN_TYPE_HEUR_MODE),
    SAME(NoteValue, CUDNN_TYPE_NUMERICAL_NOTE),
    SAME(PointwiseValue, CUDNN_TYPE_POINTWISE_MODE),
    SAME(ObjectValue, CUDNN_TYPE_BACKEND_DESCRIPTOR),
    SAME(ReductionValue, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE),
    SAME(TextValue, CUDNN_TYPE_CHAR),
    SAME(PointwiseMode, CUDNN_ATTR_POINTWISE_MODE),
    SAME(PointwiseType, CUDNN_ATTR_POINTWISE_MATH_PREC),
    SAME(PointwiseAxis, CUDNN_ATTR_POINTWISE_AXIS),
    SAME(HeuristicMode, CUDNN_ATTR_ENGINEHEUR_MODE),
    SAME(HeuristicGraph, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH),
    SAME(HeuristicResults, CUDNN_ATTR_ENGINEHEUR_RESULTS),
    SAME(ConfigEngine, CUDNN_ATTR_ENGINECFG_ENGINE),
    SAME(ConfigWorkspace, CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE),
    SAME(PlanHandle, CUDNN_ATTR_EXECUTION_PLAN_HANDLE),
    SAME(PlanConfig, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG),
    SAME(PlanWorkspace, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE),
    SAME(OperationPointwise, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR),
    SAME(OperationPointwiseX, CUDNN_ATTR_OPERATION_POINTWISE_XDESC),
    SAME(OperationPointwiseB, CUDNN_ATTR_OPERATION_POINTWISE_BDESC),
    SAME(OperationPointwiseY, CUDNN_ATTR_OPERATION_POINTWISE_YDESC),
    SAME(OperationPointwiseT, CUDNN_ATTR_OPERATION_POINTWISE_TDESC),
    SAME(GraphHandle, CUDNN_ATTR_OPERATIONGRAPH_HANDLE),
    SAME(GraphOperations, CUDNN_ATTR_OPERATIONGRAPH_OPS),
    SAME(TensorAlignment, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT),
    SAME(TensorType, CUDNN_ATTR_TENSOR_DATA_TYPE),
    SAME(TensorDimensions, CUDNN_ATTR_TENSOR_DIMENSIONS),
    SAME(TensorStrides, CUDNN_ATTR_TENSOR_STRIDES),
    SAME(TensorId, CUDNN_ATTR_TENSOR_UNIQUE_ID),
    SAME(TensorIsVirtual, CUDNN_ATTR_TENSOR_IS_VIRTUAL),
    SAME(TensorIsByValue, CUDNN_ATTR_TENSOR_IS_BY_VALUE),
    SAME(PackIds, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS),
    SAME(PackPointers, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS),
    SAME(PackWorkspace, CUDNN_ATTR_VARIANT_PACK_WORKSPACE),
    SAME(EngineIndex, CUDNN_ATTR_ENGINE_GLOBAL_INDEX),
    SAME(EngineNotes, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE),
    SAME(MatmulType, CUDNN_ATTR_MATMUL_COMP_TYPE),
    SAME(OperationMatmulA, CUDNN_ATTR_OPERATION_MATMUL_ADESC),
    SAME(OperationMatmulB, CUDNN_ATTR_OPERATION_MATMUL_BDESC),
    SAME(OperationMatmulC, CUDNN_ATTR_OPERATION_MATMUL_CDESC),
    SAME(OperationMatmul, CUDNN_ATTR_OPERATION_MATMUL_DESC),
    SAME(ReductionMode, CUDNN_ATTR_REDUCTION_OPERATOR),
    SAME(ReductionType, CUDNN_ATTR_REDUCTION_COMP_TYPE),
    SAME(OperationReductionX, CUDNN_ATTR_OPERATION_REDUCTION_XDESC),
    SAME(OperationReductionY, CUDNN_ATTR_OPERATION_REDUCTION_YDESC),
    SAME(OperationReduction, CUDNN_ATTR_OPERATION_REDUCTION_DESC),
    SAME(ReshapeX, CUDNN_ATTR_OPERATION_RESHAPE_XDESC),
    SAME(ReshapeY, CUDNN_ATTR_OPERATION_RESHAPE_YDESC),
    SAME(F32, CUDNN_DATA_FLOAT),
    SAME(F16, CUDNN_DATA_HALF),
    SAME(I32, CUDNN_DATA_INT32),
    SAME(BF16, CUDNN_DATA_BFLOAT16),
    SAME(Boolean, CUDNN_DATA_BOOLEAN),
    SAME(Add, CUDNN_POINTWISE_ADD),
    SAME(Multiply, CUDNN_POINTWISE_MUL),
    SAME(Divide, CUDNN_POINTWISE_DIV),
    SAME(Subtract, CUDNN_POINTWISE_SUB),
    SAME(Exp, CUDNN_POINTWISE_EXP),
    SAME(Log, CUDNN_POINTWISE_LOG),
    SAME(IsGreater, CUDNN_POINTWISE_CMP_GT),
    SAME(IsNotLess, CUDNN_POINTWISE_CMP_GE),
    SAME(Index, CUDNN_POINTWISE_GEN_INDEX),
    SAME(Select, CUDNN_POINTWISE_BINARY_SELECT),
    SAME(Sum, CUDNN_REDUCE_TENSOR_ADD),
    SAME(Maximum, CUDNN_REDUCE_TENSOR_MAX),
    SAME(Fallback, CUDNN_HEUR_MODE_FALLBACK),
    SAME(Best, CUDNN_HEUR_MODE_A),
    SAME(Nondeterministic, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC),
#if CUDNN_VERSION >= 90800
    // Properties of GPUs, which tests alone use.
    SAME(PropertiesKind, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR),
    SAME(HeuristicProperties, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP),
    SAME(PlanProperties, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP),
    SAME(PropertiesText, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION),
#endif
};

TEST(Declarations, ConstantsOfCudnnAreThoseOfItsHeader) {
  for (const Constant &constant : constants)
    EXPECT_EQ(constant.ours, constant.theirs) << constant.name;
}

} // namespace
