//===- MessageQueue.h - Messages between two ranks --------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The messages of a CommStream, and the turns in which its two threads move
// them. A message is free, queued until the library has it, under way, and done
// until the rank releases it.
//
// The rank's own thread starts messages, and tests them while it waits for one.
// The communication thread tests them now and then while the rank computes, and
// while it waits within a collective. If the communication thread did all of
// it, it would wake the rank up on the core that they share, and often lose the
// core to it before it has gone to sleep; it would then get it back, and look
// at messages again, only when the rank waits again or its slice of some
// milliseconds ends.
//
// Locking: the stream's mutex guards everything here, and the two threads take
// turns by it in calling the library. All functions are called with the mutex
// held, but isActive(), getCapacity() and wake(), which any thread may call
// without it. poll() and pollHere() release it while they rest, and for no
// other reason. The rank's thread calls no library while the communication
// thread is in the midst of an operation: that is for the stream to see to.
//
// Nothing is allocated but by reserve().
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_COMM_MESSAGEQUEUE_H
#define POPLAR_RUNTIME_COMM_MESSAGEQUEUE_H

#include "comm/Bell.h"
#include "comm/CommStatistics.h"
#include "comm/Communicator.h"
#include "comm/Pause.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <vector>

namespace poplar::runtime::comm {

class MessageQueue {
public:
  /// The longest rest of pollHere(), at first.
  static constexpr std::chrono::microseconds ShortPause{50};

  /// Counts in `Statistics`, and notifies `Progress` when messages are done.
  MessageQueue(CommStatistics &Statistics, std::condition_variable &Progress)
      : Statistics(Statistics), Progress(Progress) {}

  /// Makes room for `Count` messages at a time, which `Through` carries.
  void reserve(Communicator &Through, int Count);
  int getCapacity() const { return static_cast<int>(Messages.size()); }
  /// Whether any message is queued or under way.
  bool isActive() const { return NumActive != 0; }
  int64_t getNumCompleted() const { return NumCompleted; }

  /// Queues a message, and returns its number. An Error if there is no room.
  int add(bool Sends, int Peer, int Kind, void *Data, int64_t Bytes);
  bool isDone(int Number) const {
    return Messages[static_cast<size_t>(Number)].TheState == Message::Done;
  }
  /// Frees the number of a message that is done, for which the rank has waited
  /// since `Since`.
  void release(int Number, Clock::time_point Since);

  /// Gives the library what is queued, in order: whether there was anything.
  bool startQueued();
  /// Whether a message that is under way is done now.
  bool test(int Number);
  /// Starts what is queued and tests all: whether anything has moved.
  bool advance();

  /// On the rank's thread, which waits for a message: starts what is queued,
  /// tests the message, and rests if it is not done.
  void pollHere(std::unique_lock<std::mutex> &Lock, int Number, Pause &P);
  /// The rank waits no longer.
  void stopPollingHere() { PollsHere = Clock::time_point::min(); }
  /// On the communication thread, which has nothing else to do: advances, and
  /// rests if nothing has moved. The less so if the rank polls.
  void poll(std::unique_lock<std::mutex> &Lock, bool RankWaits);
  /// Whether the communication thread, as it rests now, will look in time at
  /// what has just been started.
  bool looksSoon() const;
  /// Ends the rest of the communication thread. Call it after what the thread
  /// is to see has been written with the lock.
  void wake() const {
    if (IsResting)
      Waker.ring();
  }

private:
  struct Message {
    enum State { Free, Queued, UnderWay, Done } TheState = Free;
    bool Sends = false;
    int Peer = 0, Kind = 0, Number = 0;
    void *Data = nullptr;
    int64_t Bytes = 0;
    Clock::time_point Begin;
  };

  bool test(Message &M);
  bool testAll();
  void requireNoInterrupt() const;

  CommStatistics &Statistics;
  std::condition_variable &Progress;
  Communicator *Through = nullptr;
  std::vector<Message> Messages;
  /// Those that are queued, in order.
  std::vector<int> Queued;
  /// Queued or under way.
  std::atomic<int> NumActive{0};
  int64_t NumCompleted = 0;
  /// The communication thread's rest, and until when.
  Bell Waker;
  std::atomic<bool> IsResting{false};
  Clock::time_point RestsUntil = Clock::time_point::min();
  /// When a message has moved last, and when the rank will look again, which
  /// waits for one.
  Clock::time_point MovedLast = Clock::now(),
                    PollsHere = Clock::time_point::min();
};

} // namespace poplar::runtime::comm

#endif // POPLAR_RUNTIME_COMM_MESSAGEQUEUE_H
