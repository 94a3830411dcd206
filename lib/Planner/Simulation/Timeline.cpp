//===- Timeline.cpp - Who does what when ----------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Format: "Trace Event Format", Google, 2016; complete events ("X") and
// metadata ("M"), times in microseconds.
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Simulation/Timeline.h"
#include <cstdio>

using namespace poplar;

const char *poplar::toString(Timeline::Activity activity) {
  switch (activity) {
  case Timeline::Activity::Compute:
    return "compute";
  case Timeline::Activity::WaitForRanks:
    return "wait for ranks";
  case Timeline::Activity::WaitForLink:
    return "wait for link";
  case Timeline::Activity::Collective:
    break;
  }
  return "collective";
}

static std::string quote(const std::string &text) {
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\')
      quoted += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) {
      quoted += c;
      continue;
    }
    char escape[8];
    std::snprintf(escape, sizeof(escape), "\\u%04x", c);
    quoted += escape;
  }
  return quoted + "\"";
}

namespace {

class TraceWriter {
public:
  explicit TraceWriter(const std::string &title) {
    text = "{\"displayTimeUnit\": \"ms\", \"otherData\": {\"title\": " +
           quote(title) + "}, \"traceEvents\": [";
  }
  void name(const char *what, size_t process, int thread,
            const std::string &name) {
    begin(what, 'M', process, thread);
    text += ", \"args\": {\"name\": " + quote(name) + "}}";
  }
  void add(size_t process, int thread,
           const std::vector<Timeline::Interval> &intervals,
           const std::vector<std::string> &names) {
    for (const Timeline::Interval &interval : intervals) {
      // All waiting is drawn alike.
      bool waits = interval.activity == Timeline::Activity::WaitForRanks ||
                   interval.activity == Timeline::Activity::WaitForLink;
      begin(waits ? toString(interval.activity) : names[interval.name], 'X',
            process, thread);
      char times[80];
      std::snprintf(times, sizeof(times), ", \"ts\": %.3f, \"dur\": %.3f",
                    interval.begin * 1e6,
                    (interval.end - interval.begin) * 1e6);
      text += times;
      text += std::string(", \"cat\": \"") + toString(interval.activity) + "\"";
      if (waits)
        text += ", \"args\": {\"for\": " + quote(names[interval.name]) + "}";
      text += "}";
    }
  }
  std::string take() { return text + "\n]}\n"; }

private:
  void begin(const std::string &name, char phase, size_t process, int thread) {
    text += first ? "\n" : ",\n";
    first = false;
    text += "{\"name\": " + quote(name) + ", \"ph\": \"" + phase +
            "\", \"pid\": " + std::to_string(process) +
            ", \"tid\": " + std::to_string(thread);
  }

  std::string text;
  bool first = true;
};

} // namespace

std::string poplar::formatChromeTrace(const Timeline &timeline,
                                      const std::string &title) {
  TraceWriter writer(title);
  for (size_t i = 0; i < timeline.classes.size(); ++i) {
    const Timeline::RankClass &rankClass = timeline.classes[i];
    writer.name("process_name", i, 0, rankClass.name);
    writer.name("thread_name", i, 0, "compute");
    writer.name("thread_name", i, 1, "communication");
    writer.add(i, 0, rankClass.computation, timeline.names);
    writer.add(i, 1, rankClass.communication, timeline.names);
    int thread = 1;
    for (const Timeline::RankClass::Channel &channel : rankClass.channels) {
      writer.name("thread_name", i, ++thread, channel.name);
      writer.add(i, thread, channel.messages, timeline.names);
    }
  }
  return writer.take();
}
