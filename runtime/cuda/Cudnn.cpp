//===- Cudnn.cpp - cuDNN's graphs -----------------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cuda/Cudnn.h"
#include "cuda/Library.h"

using namespace poplar::runtime;
using namespace poplar::runtime::cuda;
using namespace poplar::runtime::cuda::dnn;

Cudnn::Cudnn() {
  Library Library({"libcudnn.so.9"},
                  "install it (pip install nvidia-cudnn-cu13, or a PyTorch for "
                  "CUDA) and name its directory in POPLAR_CUDA_PATH");
#define POPLAR_CUDNN_LOAD(NAME, ...) Library.get(#NAME, NAME);
  POPLAR_CUDNN(POPLAR_CUDNN_LOAD)
#undef POPLAR_CUDNN_LOAD
  Library.get("cudnnGetVersion", cudnnGetVersion);
  Library.get("cudnnGetErrorString", cudnnGetErrorString);
  Library.get("cudnnGetLastErrorString", cudnnGetLastErrorString);
}

std::string Cudnn::getName() const {
  int64_t Version = getVersion();
  return "cuDNN " + std::to_string(Version / 10000) + "." +
         std::to_string(Version / 100 % 100) + "." +
         std::to_string(Version % 100);
}

std::string Cudnn::explain(Status S) const {
  char Text[512] = "";
  cudnnGetLastErrorString(Text, sizeof(Text));
  std::string Words = cudnnGetErrorString(S);
  return *Text ? Words + ": " + Text : Words;
}
