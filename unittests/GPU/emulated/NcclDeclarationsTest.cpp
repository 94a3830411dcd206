//===- NcclDeclarationsTest.cpp - Our declarations of NCCL ----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// As DeclarationsTest.cpp; NCCL's header comes without CUDA's and the other way
// round.
//
//===----------------------------------------------------------------------===//

#include "Alike.h"
#include "cuda/Nccl.h"

#include <cstddef>
#include <gtest/gtest.h>
#include <nccl.h>

namespace ours = poplar::runtime::cuda::nccl;
using poplar::emulated::Alike;

namespace {

#define CHECK_NCCL(NAME, ...)                                                  \
  static_assert(Alike<decltype(ours::Nccl::NAME), decltype(&::NAME)>::value);
POPLAR_NCCL(CHECK_NCCL)
CHECK_NCCL(ncclGetErrorString)
CHECK_NCCL(ncclGetLastError)

TEST(Declarations, NcclConstantsAreThoseOfTheHeader) {
  EXPECT_EQ(ours::InvalidUsage, ncclInvalidUsage);
  EXPECT_EQ(ours::RemoteError, ncclRemoteError);
  EXPECT_EQ(ours::InProgress, ncclInProgress);
  EXPECT_EQ(ours::Uint8, ncclUint8);
  EXPECT_EQ(ours::Int64, ncclInt64);
  EXPECT_EQ(ours::Float16, ncclFloat16);
  EXPECT_EQ(ours::Float32, ncclFloat32);
  EXPECT_EQ(ours::BFloat16, ncclBfloat16);
  EXPECT_EQ(ours::Sum, ncclSum);
  EXPECT_EQ(sizeof(ours::UniqueId), sizeof(ncclUniqueId));
  EXPECT_GE(NCCL_VERSION_CODE, ours::LeastVersion);
}

TEST(Declarations, NcclConfigBeginsAsThatOfTheHeader) {
  ncclConfig_t Config = NCCL_CONFIG_INITIALIZER;
  EXPECT_EQ(ours::Config().Magic, Config.magic);
  EXPECT_EQ(offsetof(ours::Config, Size), offsetof(ncclConfig_t, size));
  EXPECT_EQ(offsetof(ours::Config, Magic), offsetof(ncclConfig_t, magic));
  EXPECT_EQ(offsetof(ours::Config, Version), offsetof(ncclConfig_t, version));
  EXPECT_EQ(offsetof(ours::Config, Blocking), offsetof(ncclConfig_t, blocking));
  // As many as there were in the version that it gives; what follows is newer.
  EXPECT_EQ(ours::Config().Version, unsigned(NCCL_VERSION(2, 14, 0)));
  EXPECT_LE(sizeof(ours::Config), offsetof(ncclConfig_t, minCTAs));
}

} // namespace
