//===- Host.cpp - Which ranks are on one host -----------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/Host.h"

#include <fstream>
#include <unistd.h>

std::string poplar::runtime::comm::getHostIdentity() {
  std::string Result;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), Result);
  for (const char *Namespace :
       {"/proc/self/ns/net", "/proc/self/ns/ipc", "/proc/self/ns/pid"}) {
    char Name[24] = {};
    if (readlink(Namespace, Name, sizeof(Name) - 1) < 0)
      Name[0] = 0;
    Result += std::string(" ") + Name;
  }
  return Result;
}

std::string poplar::runtime::comm::getHostName() {
  char Name[256] = {};
  gethostname(Name, sizeof(Name) - 1);
  return Name;
}
