//===- DeviceBuffers.cpp - Collectives of a device, for the suite ---------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DeviceBuffers.h"
#include "cuda/Memory.h"

using namespace poplar::runtime;
using namespace poplar::runtime::comm;

namespace {

class OnDevice : public Communicator {
public:
  OnDevice(std::unique_ptr<Communicator> TheInner, int GPU)
      : Communicator(TheInner->rank(), TheInner->getTopology()),
        Inner(std::move(TheInner)) {
    cuda::Context Primary;
    cuda::check(D.cuDevicePrimaryCtxRetain(&Primary, GPU), "make a context");
    cuda::check(D.cuCtxSetCurrent(Primary), "use its context");
    cuda::check(D.cuStreamCreate(&Queue, cuda::NonBlocking), "make a stream");
    cuda::check(D.cuEventCreate(&Ready, cuda::NoTiming), "make an event");
    Pinned = std::make_unique<cuda::PinnedBuffer>();
  }
  ~OnDevice() override {
    Pinned.reset();
    D.cuEventDestroy_v2(Ready);
    D.cuStreamDestroy_v2(Queue);
  }

  const char *getBackend() const override { return Inner->getBackend(); }
  const Topology &getSumOrder() const override { return Inner->getSumOrder(); }
  bool addsInOrder() const override { return Inner->addsInOrder(); }

  void allGather(const void *Shard, Type ShardType, void *Full, Type FullType,
                 Type Wire, const int64_t *Bounds) override {
    int64_t Bytes = Bounds[size()] * getBytes(FullType);
    Copy There(*this, Full, Bytes);
    Copy Own(*this, Shard, getOwn(Bounds) * getBytes(ShardType), &There);
    start();
    Inner->allGather(Own.Place, ShardType, There.Place, FullType, Wire, Bounds);
    There.back();
  }
  void reduceScatter(const float *Full, float *Shard, bool Accumulate,
                     Type Wire, const int64_t *Bounds) override {
    Copy There(*this, Full, Bounds[size()] * 4);
    Copy Own(*this, Shard, getOwn(Bounds) * 4, &There);
    start();
    Inner->reduceScatter(reinterpret_cast<float *>(There.Place),
                         reinterpret_cast<float *>(Own.Place), Accumulate, Wire,
                         Bounds);
    (Own.Memory ? Own : There).back();
  }
  void allReduce(const float *Source, float *Result, Type Wire,
                 const int64_t *Bounds) override {
    Copy From(*this, Source, Bounds[size()] * 4);
    Copy To(*this, Result, Bounds[size()] * 4, &From);
    start();
    Inner->allReduce(reinterpret_cast<float *>(From.Place),
                     reinterpret_cast<float *>(To.Place), Wire, Bounds);
    (To.Memory ? To : From).back();
  }

  void allReduceSum(int64_t *Values, int64_t Count) override {
    Inner->allReduceSum(Values, Count);
  }
  void allReduceMax(int64_t *Values, int64_t Count) override {
    Inner->allReduceMax(Values, Count);
  }
  void allReduceSum(double *Values, int64_t Count) override {
    Inner->allReduceSum(Values, Count);
  }
  void broadcast(void *Data, int64_t Bytes, int Root) override {
    Inner->broadcast(Data, Bytes, Root);
  }
  void gather(const void *Shard, void *Full, Type T, const int64_t *Bounds,
              int Root) override {
    Inner->gather(Shard, Full, T, Bounds, Root);
  }
  void useScratch(void *Memory, int64_t Bytes) override {
    Inner->useScratch(Memory, Bytes);
  }
  int64_t getLocalBytes() const override { return Inner->getLocalBytes(); }
  int64_t getRemoteBytes() const override { return Inner->getRemoteBytes(); }
  double getLinkSeconds() const override { return Inner->getLinkSeconds(); }
  void close() override { Inner->close(); }
  void abort(const std::string &Message) override { Inner->abort(Message); }
  void interrupt() override { Inner->interrupt(); }

private:
  /// Memory of the GPU with what the host has; inside `Around` where that is.
  struct Copy {
    Copy(OnDevice &C, const void *Host, int64_t Bytes,
         const Copy *Around = nullptr)
        : C(C), Host(static_cast<char *>(const_cast<void *>(Host))),
          Bytes(Bytes) {
      if (Around && this->Host >= Around->Host &&
          this->Host + Bytes <= Around->Host + Around->Bytes) {
        Place = Around->Place + (this->Host - Around->Host);
        return;
      }
      Memory = std::make_unique<cuda::Allocation>(Bytes);
      Place = Memory->data();
      C.Pinned->copyIn(Place, this->Host, static_cast<size_t>(Bytes), C.Queue);
    }
    void back() const {
      C.Pinned->copyOut(Host, Place, static_cast<size_t>(Bytes), C.Queue);
    }

    OnDevice &C;
    char *Host, *Place;
    int64_t Bytes;
    std::unique_ptr<cuda::Allocation> Memory;
  };

  int64_t getOwn(const int64_t *Bounds) const {
    return Bounds[Rank + 1] - Bounds[Rank];
  }
  /// Nothing waits for the copies but what waits for this point.
  void start() {
    cuda::check(D.cuEventRecord(Ready, Queue), "record an event");
    Inner->waitFor(Ready);
  }

  const cuda::Driver &D = cuda::Driver::get();
  std::unique_ptr<Communicator> Inner;
  cuda::Stream Queue = nullptr;
  cuda::Event Ready = nullptr;
  std::unique_ptr<cuda::PinnedBuffer> Pinned;
};

} // namespace

std::unique_ptr<Communicator> onDevice(std::unique_ptr<Communicator> Inner,
                                       int GPU) {
  return std::make_unique<OnDevice>(std::move(Inner), GPU);
}
