//===- DeclarationsTest.cpp - Our declarations of CUDA, and its headers ---===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The runtime is built without CUDA's headers. Where they are at hand, every
// function that it declares has to have as many parameters as there, each of
// the same size, and every constant has to be the same.
//
//===----------------------------------------------------------------------===//

#include "../../../lib/Import/VendorLibrary.h"
#include "Alike.h"
#include "cuda/BlasLt.h"
#include "cuda/Driver.h"

#include <cublasLt.h>
#include <cuda.h>
#include <gtest/gtest.h>

// Drivers before CUDA 12.8 have the first version only, with the same
// arguments.
#ifdef cuEventElapsedTime
#undef cuEventElapsedTime
extern "C" decltype(cuEventElapsedTime_v2) cuEventElapsedTime;
#endif

namespace ours = poplar::runtime::cuda;
using poplar::emulated::Alike;

namespace {

// cuda.h renames functions to their newest version.
#define CHECK_DRIVER(NAME, ...)                                                \
  static_assert(Alike<decltype(ours::Driver::NAME), decltype(&::NAME)>::value);
POPLAR_CUDA_DRIVER(CHECK_DRIVER)
// What poplar itself calls, to measure links.
namespace nvidia = poplar::nvidia;
#define CHECK_PROBE(NAME, ...)                                                 \
  static_assert(                                                               \
      Alike<nvidia::Status (*)(__VA_ARGS__), decltype(&::NAME)>::value);
POPLAR_PROBE_DRIVER(CHECK_PROBE)
#define CHECK_BLASLT(NAME, ...)                                                \
  static_assert(                                                               \
      Alike<decltype(ours::lt::BlasLt::NAME), decltype(&::NAME)>::value);
POPLAR_CUBLASLT(CHECK_BLASLT)

TEST(Declarations, DriverConstantsOfStreamsAreThoseOfTheHeaders) {
  EXPECT_EQ(ours::NotReady, CUDA_ERROR_NOT_READY);
  EXPECT_EQ(ours::NoTiming, unsigned(CU_EVENT_DISABLE_TIMING));
  EXPECT_EQ(nvidia::kPeerAlreadyEnabled,
            CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
}

TEST(Declarations, ConstantsAreThoseOfTheHeaders) {
  EXPECT_EQ(ours::OutOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(ours::InvalidImage, CUDA_ERROR_INVALID_IMAGE);
  EXPECT_EQ(ours::NoBinaryForGPU, CUDA_ERROR_NO_BINARY_FOR_GPU);
  EXPECT_EQ(ours::UnsupportedPTXVersion, CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
  EXPECT_EQ(ours::CapabilityMajor,
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  EXPECT_EQ(ours::CapabilityMinor,
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  EXPECT_EQ(ours::MemoryClockKHz, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
  EXPECT_EQ(ours::MemoryBusBits, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
  EXPECT_EQ(ours::NonBlocking, unsigned(CU_STREAM_NON_BLOCKING));
  EXPECT_EQ(ours::ParameterBuffer, CU_LAUNCH_PARAM_BUFFER_POINTER);
  EXPECT_EQ(ours::ParameterBytes, CU_LAUNCH_PARAM_BUFFER_SIZE);
  EXPECT_EQ(ours::ParametersEnd, CU_LAUNCH_PARAM_END);
  EXPECT_EQ(ours::JitErrorLog, CU_JIT_ERROR_LOG_BUFFER);
  EXPECT_EQ(ours::JitErrorLogBytes, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
  namespace lt = ours::lt;
  EXPECT_EQ(lt::TypeF32, CUDA_R_32F);
  EXPECT_EQ(lt::TypeF16, CUDA_R_16F);
  EXPECT_EQ(lt::TypeBF16, CUDA_R_16BF);
  EXPECT_EQ(lt::TypeE4M3, CUDA_R_8F_E4M3);
  EXPECT_EQ(lt::ComputeF32, CUBLAS_COMPUTE_32F);
  EXPECT_EQ(lt::ComputeTF32, CUBLAS_COMPUTE_32F_FAST_TF32);
  EXPECT_EQ(lt::Plain, CUBLAS_OP_N);
  EXPECT_EQ(lt::Transposed, CUBLAS_OP_T);
  EXPECT_EQ(lt::TransA, CUBLASLT_MATMUL_DESC_TRANSA);
  EXPECT_EQ(lt::TransB, CUBLASLT_MATMUL_DESC_TRANSB);
  EXPECT_EQ(lt::Epilogue, CUBLASLT_MATMUL_DESC_EPILOGUE);
  EXPECT_EQ(lt::BiasPointer, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
  EXPECT_EQ(lt::AuxPointer, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER);
  EXPECT_EQ(lt::AuxLeading, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD);
  EXPECT_EQ(lt::EpilogueBias, uint32_t(CUBLASLT_EPILOGUE_BIAS));
  EXPECT_EQ(lt::EpilogueGeluBias, uint32_t(CUBLASLT_EPILOGUE_GELU_BIAS));
  EXPECT_EQ(lt::EpilogueGeluAuxBias, uint32_t(CUBLASLT_EPILOGUE_GELU_AUX_BIAS));
  EXPECT_EQ(lt::EpilogueGeluGrad, uint32_t(CUBLASLT_EPILOGUE_DGELU));
  EXPECT_EQ(lt::EpilogueBiasGradA, uint32_t(CUBLASLT_EPILOGUE_BGRADA));
  EXPECT_EQ(lt::EpilogueBiasGradB, uint32_t(CUBLASLT_EPILOGUE_BGRADB));
  EXPECT_EQ(lt::MaxWorkspaceBytes, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
  EXPECT_EQ(lt::ReductionSchemes, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
  EXPECT_EQ(lt::NotSplit, uint32_t(CUBLASLT_REDUCTION_SCHEME_NONE));
  EXPECT_EQ(lt::SplitInComputeType,
            uint32_t(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  EXPECT_EQ(lt::MinAlignmentA, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
  EXPECT_EQ(lt::MinAlignmentA + 3, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
  EXPECT_EQ(lt::AlgorithmId, CUBLASLT_ALGO_CONFIG_ID);
  EXPECT_EQ(lt::AlgorithmTile, CUBLASLT_ALGO_CONFIG_TILE_ID);
  EXPECT_EQ(lt::AlgorithmSplitK, CUBLASLT_ALGO_CONFIG_SPLITK_NUM);
  EXPECT_EQ(lt::AlgorithmSwizzling, CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING);
  EXPECT_EQ(lt::AlgorithmStages, CUBLASLT_ALGO_CONFIG_STAGES_ID);
  EXPECT_EQ(lt::AlgorithmCluster, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID);
  EXPECT_EQ(sizeof(lt::Algorithm), sizeof(cublasLtMatmulAlgo_t));
  EXPECT_EQ(sizeof(lt::Heuristic), sizeof(cublasLtMatmulHeuristicResult_t));
  EXPECT_EQ(offsetof(lt::Heuristic, State),
            offsetof(cublasLtMatmulHeuristicResult_t, state));
}

} // namespace
