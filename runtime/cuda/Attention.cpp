//===- Attention.cpp - Attention by cuDNN ---------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cuda/Attention.h"
#include "support/Error.h"

#include <cstdio>
#include <cstdlib>
#include <string_view>

using namespace poplar::runtime;
using namespace poplar::runtime::cuda;

/// The first version whose graphs are those of AttentionGraph.h without its
/// known errors (9.10.0 and 9.10.1), and the first one that masks what lies
/// behind the last whole tile of 128 keys itself.
static constexpr int64_t FirstVersion = 91100, FirstWithAnyLength = 91600;
static constexpr int64_t Tile = 128;
static constexpr uintptr_t WorkspaceAlignment = 256;

LibraryAttention::LibraryAttention(Stream Queue) : Queue(Queue) {
  const char *Given = std::getenv("POPLAR_CUDA_ATTENTION");
  std::string_view Text = Given ? Given : "";
  if (Text == "own")
    Wanted = Wish::Own;
  else if (Text == "cudnn")
    Wanted = Wish::Library;
  else if (!Text.empty())
    fail("POPLAR_CUDA_ATTENTION is '", Text, "'; it may be own or cudnn");
}

LibraryAttention::~LibraryAttention() {
  Graphs.clear();
  if (Handle)
    Library->cudnnDestroy(Handle);
}

std::string LibraryAttention::load() {
  if (IsLoaded)
    return Obstacle;
  IsLoaded = true;
  try {
    Library = std::make_unique<dnn::Cudnn>();
  } catch (const Error &E) {
    return Obstacle = E.what();
  }
  if (Library->getVersion() < FirstVersion)
    return Obstacle = Library->getName() + " is too old; install 9.11 or newer";
  dnn::Status S = Library->cudnnCreate(&Handle);
  if (S == 0)
    S = Library->cudnnSetStream(Handle, Queue);
  if (S != 0)
    Obstacle =
        Library->getName() + " does not start (" + Library->explain(S) + ")";
  return Obstacle;
}

void LibraryAttention::sayOnce(const std::string &Text) {
  if (Said.insert(Text).second)
    std::fprintf(stderr, "note: %s\n", Text.c_str());
}

void LibraryAttention::refuse(const std::string &Reason) {
  if (Wanted == Wish::Library)
    fail("cuDNN cannot compute attention: ", Reason,
         "; without POPLAR_CUDA_ATTENTION=cudnn, kernels of the program do");
  sayOnce("kernels of the program compute attention: " + Reason);
}

std::unique_ptr<AttentionGraph>
LibraryAttention::prepare(const PoplarLibraryAttention &What, int64_t Batch,
                          int64_t Bytes) {
  if (Wanted == Wish::Own) {
    refuse("POPLAR_CUDA_ATTENTION=own");
    return nullptr;
  }
  if (std::string Reason = load(); !Reason.empty()) {
    refuse(Reason);
    return nullptr;
  }
  if (What.attention.seq_len % Tile != 0 &&
      Library->getVersion() < FirstWithAnyLength) {
    refuse(Library->getName() + " needs sequences of a multiple of 128 tokens; "
                                "install 9.16 or newer");
    return nullptr;
  }
  try {
    auto Graph = std::make_unique<AttentionGraph>(
        *Library, Handle, What.attention,
        What.gradient ? AttentionPass::Gradient : AttentionPass::Forward,
        Batch);
    Graph->plan(Bytes);
    return Graph;
  } catch (const Error &E) {
    refuse(E.what());
    return nullptr;
  }
}

/// The operands, by the order of poplar_rt_attention's arguments.
static AttentionOperands findOperands(const PoplarLibraryAttention &What,
                                      void *const *Args) {
  const PoplarAttention &A = What.attention;
  auto At = [](void *Memory, int64_t Elements) -> void * {
    return static_cast<char *>(Memory) + 2 * Elements;
  };
  AttentionOperands O = {};
  void *const *Inputs = What.gradient ? Args + 3 : Args;
  O.Q = At(Inputs[0], A.q_offset);
  O.K = At(Inputs[1], A.k_offset);
  O.V = At(Inputs[2], A.v_offset);
  if (!What.gradient) {
    O.Out = Args[5];
    O.Lse = Args[6];
    return O;
  }
  O.Dy = Args[0];
  O.Out = Args[1];
  O.Lse = Args[2];
  O.Dq = At(Args[9], A.q_offset);
  O.Dk = At(Args[10], A.k_offset);
  O.Dv = At(Args[11], A.v_offset);
  return O;
}

bool LibraryAttention::run(const PoplarLibraryAttention &What,
                           void *const *Args, int64_t Batch, void *Scratch,
                           int64_t ScratchBytes) {
  // The gradient has memory of its own.
  void *Memory = What.gradient ? Args[8] : Scratch;
  int64_t Bytes = What.gradient ? Batch * What.workspace : ScratchBytes;
  auto Begin = reinterpret_cast<uintptr_t>(Memory);
  uintptr_t Gap = -Begin & (WorkspaceAlignment - 1);
  Bytes -= static_cast<int64_t>(Gap);
  Key Own = {&What, Batch};
  auto Known = Graphs.find(Own);
  bool IsFirst = Known == Graphs.end();
  if (IsFirst)
    Known = Graphs.emplace(Own, prepare(What, Batch, Bytes)).first;
  if (!Known->second)
    return false;
  std::string Reason = Known->second->run(
      findOperands(What, Args), reinterpret_cast<void *>(Begin + Gap));
  if (Reason.empty()) {
    sayOnce("attention is computed by " + Library->getName());
    return true;
  }
  Reason = Library->getName() + " fails (" + Reason + ")";
  // What was captured, or has run before, is not computed in another way.
  if (!IsFirst)
    fail(Reason, "; POPLAR_CUDA_ATTENTION=own uses kernels of the program");
  refuse(Reason);
  Known->second.reset();
  return false;
}
