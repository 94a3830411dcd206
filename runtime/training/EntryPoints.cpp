//===- EntryPoints.cpp - Functions that generated code calls --------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "program/Collectives.h"
#include "program/Executor.h"
#include "program/ProductTrace.h"
#include "support/CommandName.h"
#include "support/Error.h"
#include "training/Optimizer.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <omp.h>

using namespace poplar::runtime;

/// No exception may cross generated code, which has no unwind tables.
template <typename Function>
static void endProcessOnError(void *Context, Function &&Body) {
  try {
    Body();
  } catch (const std::exception &E) {
    if (Collectives *Group = static_cast<Executor *>(Context)->collectives)
      Group->fail(E.what());
    std::fprintf(stderr, "%s: error: %s\n", CommandName, E.what());
    std::_Exit(1);
  }
}

extern "C" void poplar_rt_dispatch(void *Context, PoplarKernel Kernel,
                                   void *const *Args, int64_t Batch,
                                   int64_t Extent, int64_t Grain) {
  static_cast<Executor *>(Context)->dispatch(Kernel, Args, Batch, Extent,
                                             Grain);
}

extern "C" void poplar_rt_launch(void *Context, int64_t Kernel,
                                 void *const *Args, int64_t Batch,
                                 int64_t Extent) {
  endProcessOnError(Context, [=] {
    static_cast<Executor *>(Context)->device().launch(Kernel, Args, Batch,
                                                      Extent);
  });
}

extern "C" void poplar_rt_attention(void *Context,
                                    const PoplarLibraryAttention *Attention,
                                    void *const *Args, int64_t Batch) {
  endProcessOnError(Context, [=] {
    static_cast<Executor *>(Context)->device().runAttention(*Attention, Args,
                                                            Batch);
  });
}

extern "C" void poplar_rt_zero(void *Context, void *Buffer, int64_t Bytes) {
  endProcessOnError(Context, [=] {
    static_cast<Executor *>(Context)->device().zero(Buffer, Bytes);
  });
}

extern "C" void poplar_rt_norm(void *Context, int64_t Unscale) {
  endProcessOnError(Context, [=] {
    Optimizer &Optim = *static_cast<Executor *>(Context)->optimizer;
    if (Unscale)
      Optim.unscaleShards();
    Optim.norm();
  });
}

extern "C" void poplar_rt_unscale(void *Context, int64_t Bucket,
                                  void *Gradients) {
  endProcessOnError(Context, [=] {
    static_cast<Executor *>(Context)->optimizer->unscale(
        Bucket, static_cast<float *>(Gradients));
  });
}

extern "C" void poplar_rt_poison(void *Context, void *Buffer, int64_t Bytes) {
  endProcessOnError(Context, [=] {
    static_cast<Executor *>(Context)->device().poison(Buffer, Bytes);
  });
}

extern "C" void poplar_rt_adamw(void *Context, int64_t Bucket) {
  endProcessOnError(Context, [=] {
    static_cast<Executor *>(Context)->optimizer->adamw(Bucket);
  });
}

extern "C" void poplar_rt_gemm(void *Context, const PoplarGemm *Gemm,
                               const void *A, const void *B, const void *Bias,
                               void *Aux, void *C, int64_t Batch) {
  endProcessOnError(Context, [=] {
    auto *Exec = static_cast<Executor *>(Context);
    Exec->device().runGemm(*Gemm, A, B, Bias, Aux, C, Batch);
    if (Exec->products)
      Exec->products->add(*Gemm, A, B, Aux, C, Batch);
  });
}

extern "C" void poplar_rt_start(void *Context,
                                const PoplarCollective *Collective,
                                void *Buffer) {
  endProcessOnError(Context, [=] {
    static_cast<Executor *>(Context)->collectives->start(*Collective, Buffer);
  });
}

extern "C" void poplar_rt_wait(void *Context,
                               const PoplarCollective *Collective) {
  endProcessOnError(Context, [=] {
    static_cast<Executor *>(Context)->collectives->wait(*Collective);
  });
}

extern "C" void poplar_rt_start_exchange(void *Context,
                                         const PoplarExchange *Exchange,
                                         void *const *Buffers, int64_t Batch,
                                         int64_t Round, int64_t Piece) {
  endProcessOnError(Context, [=] {
    static_cast<Executor *>(Context)->startExchange(*Exchange, Buffers, Batch,
                                                    Round, Piece);
  });
}

extern "C" void poplar_rt_wait_exchange(void *Context,
                                        const PoplarExchange *Exchange,
                                        int64_t Round, int64_t Piece) {
  endProcessOnError(Context, [=] {
    static_cast<Executor *>(Context)->waitExchange(*Exchange, Round, Piece);
  });
}

extern "C" void poplar_rt_exchange(void *Context,
                                   const PoplarExchange *Exchange,
                                   void *const *Buffers, int64_t Batch) {
  poplar_rt_start_exchange(Context, Exchange, Buffers, Batch, -1, 0);
  poplar_rt_wait_exchange(Context, Exchange, -1, 0);
}

extern "C" void poplar_rt_send(void *Context, int64_t Kind) {
  endProcessOnError(Context, [=] {
    static_cast<Executor *>(Context)->pipeline()->send(Kind);
  });
}

extern "C" void poplar_rt_receive(void *Context, int64_t Kind) {
  endProcessOnError(Context, [=] {
    static_cast<Executor *>(Context)->pipeline()->receive(Kind);
  });
}
