//===- RequestPool.h - Messages under way, by number ------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Requests of a transport plug-in's library, kept by small numbers. Header
// only, because plug-ins do not link the runtime.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_COMM_REQUESTPOOL_H
#define POPLAR_RUNTIME_COMM_REQUESTPOOL_H

#include <cstddef>
#include <cstdint>
#include <vector>

namespace poplar::runtime::comm {

template <typename Request> class RequestPool {
public:
  /// Room for `Most` at a time, which are `None` at first.
  void reserve(int32_t Most, Request None) {
    Requests.assign(static_cast<size_t>(Most), None);
    Free.clear();
    for (int32_t Number = Most; Number-- > 0;)
      Free.push_back(Number);
  }
  /// False if there are too many.
  bool take(int32_t &Number) {
    if (Free.empty())
      return false;
    Number = Free.back();
    Free.pop_back();
    return true;
  }
  void give(int32_t Number) { Free.push_back(Number); }
  Request &operator[](int32_t Number) {
    return Requests[static_cast<size_t>(Number)];
  }

private:
  std::vector<Request> Requests;
  std::vector<int32_t> Free;
};

} // namespace poplar::runtime::comm

#endif // POPLAR_RUNTIME_COMM_REQUESTPOOL_H
