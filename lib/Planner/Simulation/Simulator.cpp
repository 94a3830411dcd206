//===- Simulator.cpp - An iteration, event by event -----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Simulation/Simulator.h"
#include "Simulation/PortSharing.h"
#include <algorithm>
#include <deque>
#include <numeric>
#include <queue>

using namespace poplar;

using Collective = SimulationProblem::Collective;
using Operation = SimulationProblem::Operation;
using RankClass = SimulationProblem::RankClass;
using Activity = Timeline::Activity;

namespace {

/// A collective that was started, by some ranks at least, or a message that one
/// end of its channel knows of. Numbered in the order in which that happens.
struct Instance {
  /// -1 of a message that was not sent yet.
  int collective;
  /// What has to happen before it begins. Collectives: classes at the head of
  /// whose stream it is not yet. Messages: to be sent, to have memory to go to,
  /// and that the one before it has arrived.
  int missing;
  /// When the last of it happened; begins then.
  double begin = 0;
  double end = -1;
  /// The channel of a message, and its number in it.
  int channel = -1;
  size_t number = 0;

  bool isDone() const { return end >= 0; }
};

/// Messages by number.
struct ChannelState {
  std::vector<int> instances;
  size_t sent = 0, posted = 0, received = 0;
};

/// What ranks of a class are at.
struct ClassState {
  // Place in the program.
  int64_t iteration = 0, repetition = 0;
  size_t run = 0, operation = 0;
  /// The compute stream has come so far.
  double now = 0;
  /// The instance that it waits for, or -1.
  int waitsFor = -1;

  /// Started and not done, with the time of the start.
  struct Queued {
    int instance;
    double started;
  };
  std::deque<Queued> stream;
  /// When the stream was done with what it had.
  double streamFree = 0;
  /// Instance of each token of the phase.
  std::vector<int> tokens;
  /// How often each collective was started.
  std::vector<int> starts;
  /// Collectives that were done after `now`, as instances.
  std::deque<int> recent;

  Simulation::ClassSeconds seconds;
  double communicating = 0;
};

class Engine {
public:
  Engine(const SimulationProblem &problem, const SimulationOptions &options);
  bool run(std::string &error);
  Simulation takeResult();

private:
  /// Runs the compute stream until it has to wait, or ends.
  void advance(int index);
  bool nextOperation(ClassState &state, const RankClass &rankClass,
                     const Operation *&operation);
  void start(int index, const Operation &operation);
  /// The head of the stream of a class has changed.
  void arrive(int index);
  /// One of what has to happen before an instance begins was done at `time`.
  void prepare(int instance, double time);
  void complete(int instance, double time);
  /// Message `number` of a channel.
  int getMessage(int channel, size_t number);
  /// An operation of a channel. Returns the message to wait for, or -1.
  int useChannel(ClassState &state, const Operation &operation);
  void completeMessage(int instance, double time);
  void addOverhead(int index, const Instance &instance, double time);
  void resume(int index, double time);
  void waitFor(int index, const Instance &instance, double time);
  void record(std::vector<Timeline::Interval> Timeline::RankClass::*stream,
              int index, double begin, double end, Activity activity, int name);
  void recordMessage(int index, const Instance &message);
  std::string describeDeadlock() const;
  int getName(const Instance &instance) const {
    return static_cast<int>(problem.computations.size()) + instance.collective;
  }

  const SimulationProblem &problem;
  const SimulationOptions &options;
  std::vector<ClassState> states;
  std::vector<ChannelState> channels;
  /// The channels of each class in the timeline, by their index.
  std::vector<std::vector<int>> channelsOf;
  std::vector<int> allClasses;
  std::vector<Instance> instances;
  /// By collective: its instances.
  std::vector<std::vector<int>> instancesOf;
  /// When collectives begin to occupy ports, the first on top; those that begin
  /// at the same time in the order of their numbers.
  using Event = std::pair<double, int>;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> beginnings;
  PortSharing sharing;
  Timeline timeline;
};

} // namespace

Engine::Engine(const SimulationProblem &problem,
               const SimulationOptions &options)
    : problem(problem), options(options), states(problem.classes.size()),
      channels(problem.channels.size()), channelsOf(states.size()),
      allClasses(problem.classes.size()),
      instancesOf(problem.collectives.size()), sharing(problem) {
  std::iota(allClasses.begin(), allClasses.end(), 0);
  for (size_t i = 0; i < states.size(); ++i) {
    size_t tokens = 0;
    for (const SimulationProblem::Phase &phase : problem.classes[i].phases)
      tokens = std::max(tokens, phase.size());
    states[i].tokens.resize(tokens);
    states[i].starts.resize(problem.collectives.size());
    timeline.classes.push_back({problem.classes[i].name, {}, {}, {}});
  }
  for (size_t i = 0; i < channels.size(); ++i) {
    const SimulationProblem::Channel &channel = problem.channels[i];
    for (auto [index, way] :
         {std::pair(channel.from, ", out"), std::pair(channel.to, ", in")}) {
      channelsOf[index].push_back(static_cast<int>(i));
      timeline.classes[index].channels.push_back({channel.name + way, {}});
    }
  }
  timeline.names = problem.computations;
  for (const Collective &collective : problem.collectives)
    timeline.names.push_back(collective.name);
}

void Engine::record(
    std::vector<Timeline::Interval> Timeline::RankClass::*stream, int index,
    double begin, double end, Activity activity, int name) {
  if (options.recordsTimeline && end > begin)
    (timeline.classes[index].*stream).push_back({begin, end, activity, name});
}

void Engine::recordMessage(int index, const Instance &message) {
  if (!options.recordsTimeline || message.end <= message.begin)
    return;
  const std::vector<int> &own = channelsOf[index];
  size_t place =
      std::find(own.begin(), own.end(), message.channel) - own.begin();
  timeline.classes[index].channels[place].messages.push_back(
      {message.begin, message.end, Activity::Collective, getName(message)});
}

/// Moves the place in the program on; false at its end.
bool Engine::nextOperation(ClassState &state, const RankClass &rankClass,
                           const Operation *&operation) {
  while (state.iteration < options.iterations) {
    if (state.run == rankClass.iteration.size()) {
      state.run = 0;
      ++state.iteration;
      continue;
    }
    const RankClass::Run &run = rankClass.iteration[state.run];
    const SimulationProblem::Phase &phase = rankClass.phases[run.phase];
    if (state.repetition == run.times) {
      state.repetition = 0;
      ++state.run;
    } else if (state.operation == phase.size()) {
      state.operation = 0;
      ++state.repetition;
    } else {
      operation = &phase[state.operation++];
      return true;
    }
  }
  return false;
}

void Engine::start(int index, const Operation &operation) {
  ClassState &state = states[index];
  const Collective &collective = problem.collectives[operation.index];
  std::vector<int> &same = instancesOf[operation.index];
  size_t occurrence = state.starts[operation.index]++;
  if (occurrence == same.size()) {
    size_t members =
        collective.group.empty() ? allClasses.size() : collective.group.size();
    same.push_back(static_cast<int>(instances.size()));
    instances.push_back({operation.index, static_cast<int>(members)});
  }
  int instance = same[occurrence];
  state.tokens[operation.token] = instance;
  state.stream.push_back({instance, state.now});
  if (state.stream.size() == 1)
    arrive(index);
}

void Engine::arrive(int index) {
  const ClassState &state = states[index];
  const ClassState::Queued &head = state.stream.front();
  prepare(head.instance, std::max(head.started, state.streamFree));
}

void Engine::prepare(int number, double time) {
  Instance &instance = instances[number];
  instance.begin = std::max(instance.begin, time);
  if (--instance.missing == 0)
    beginnings.push(
        {instance.begin + problem.collectives[instance.collective].latency,
         number});
}

int Engine::getMessage(int channel, size_t number) {
  std::vector<int> &known = channels[channel].instances;
  while (known.size() <= number) {
    Instance message{-1, 3};
    message.channel = channel;
    message.number = known.size();
    if (known.empty() || instances[known.back()].isDone()) {
      --message.missing;
      message.begin = known.empty() ? 0 : instances[known.back()].end;
    }
    known.push_back(static_cast<int>(instances.size()));
    instances.push_back(message);
  }
  return known[number];
}

int Engine::useChannel(ClassState &state, const Operation &operation) {
  ChannelState &channel = channels[operation.token];
  switch (operation.kind) {
  case Operation::Send: {
    int message = getMessage(operation.token, channel.sent++);
    instances[message].collective = operation.index;
    prepare(message, state.now);
    return -1;
  }
  case Operation::Post:
    prepare(getMessage(operation.token, channel.posted++), state.now);
    return -1;
  case Operation::Flush: {
    auto underWay = static_cast<size_t>(operation.index);
    return channel.sent > underWay
               ? channel.instances[channel.sent - underWay - 1]
               : -1;
  }
  default:
    return getMessage(operation.token, channel.received++);
  }
}

void Engine::advance(int index) {
  ClassState &state = states[index];
  const Operation *operation;
  while (nextOperation(state, problem.classes[index], operation)) {
    int instance = -1;
    switch (operation->kind) {
    case Operation::Compute:
      record(&Timeline::RankClass::computation, index, state.now,
             state.now + operation->seconds, Activity::Compute,
             operation->index);
      state.now += operation->seconds;
      state.seconds.computing += operation->seconds;
      break;
    case Operation::Start:
      start(index, *operation);
      break;
    case Operation::Wait:
      instance = state.tokens[operation->token];
      break;
    default:
      instance = useChannel(state, *operation);
      break;
    }
    // What is done was done before the rank had come so far: the stream is not
    // ahead of it.
    if (instance < 0 || instances[instance].isDone())
      continue;
    state.waitsFor = instance;
    return;
  }
}

/// The rank of a class has waited until `time`, for its stream and, where
/// nothing was under way on it, for other ranks.
void Engine::resume(int index, double time) {
  ClassState &state = states[index];
  const Instance &awaited = instances[state.waitsFor];
  state.waitsFor = -1;
  if (awaited.channel >= 0)
    waitFor(index, awaited, time);
  else
    for (int instance : state.recent)
      waitFor(index, instances[instance], time);
  advance(index);
}

/// Until an instance is done, but not beyond `time`.
void Engine::waitFor(int index, const Instance &instance, double time) {
  ClassState &state = states[index];
  auto wait = [&](double until, Activity activity) {
    record(&Timeline::RankClass::computation, index, state.now, until, activity,
           getName(instance));
    if (activity == Activity::WaitForLink)
      state.seconds.exposed += until - state.now;
    state.now = until;
  };
  double end = std::min(instance.end, time);
  if (end <= state.now)
    return;
  if (instance.begin > state.now)
    wait(instance.begin, Activity::WaitForRanks);
  wait(end, Activity::WaitForLink);
}

void Engine::completeMessage(int number, double time) {
  // Instances may grow meanwhile.
  const Instance message = instances[number];
  const std::vector<int> &known = channels[message.channel].instances;
  if (message.number + 1 < known.size())
    prepare(known[message.number + 1], time);
  const SimulationProblem::Channel &channel = problem.channels[message.channel];
  for (int index : {channel.from, channel.to}) {
    states[index].communicating += time - message.begin;
    addOverhead(index, message, time);
    recordMessage(index, message);
  }
  for (int index : {channel.from, channel.to})
    if (states[index].waitsFor == number)
      resume(index, time);
}

void Engine::complete(int number, double time) {
  Instance &instance = instances[number];
  instance.end = time;
  if (instance.channel >= 0)
    return completeMessage(number, time);
  const Collective &collective = problem.collectives[instance.collective];
  // Instances may grow meanwhile.
  double begin = instance.begin;
  int name = getName(instance);
  for (int index : collective.group.empty() ? allClasses : collective.group) {
    ClassState &state = states[index];
    state.stream.pop_front();
    state.streamFree = time;
    state.communicating += time - begin;
    addOverhead(index, instances[number], time);
    record(&Timeline::RankClass::communication, index, begin, time,
           Activity::Collective, name);
    while (!state.recent.empty() &&
           instances[state.recent.front()].end <= state.now)
      state.recent.pop_front();
    state.recent.push_back(number);
    if (!state.stream.empty())
      arrive(index);
    if (state.waitsFor == number)
      resume(index, time);
  }
}

/// Adds the overhead of an instance that is done at `time`, for as much of it
/// as the rank has not waited for: its compute stream has come as far as it
/// can.
void Engine::addOverhead(int index, const Instance &instance, double time) {
  ClassState &state = states[index];
  double overhead = problem.collectives[instance.collective].overhead;
  if (overhead == 0 || state.now <= instance.begin)
    return;
  if (state.now < time)
    overhead *= (state.now - instance.begin) / (time - instance.begin);
  record(&Timeline::RankClass::computation, index, state.now,
         state.now + overhead, Activity::Compute, getName(instance));
  state.now += overhead;
  state.seconds.computing += overhead;
}

std::string Engine::describeDeadlock() const {
  for (size_t i = 0; i < states.size(); ++i) {
    if (states[i].waitsFor < 0)
      continue;
    const Instance &awaited = instances[states[i].waitsFor];
    if (awaited.channel >= 0) {
      const SimulationProblem::Channel &channel =
          problem.channels[awaited.channel];
      bool sends = static_cast<size_t>(channel.from) == i;
      return "ranks '" + problem.classes[i].name + "' wait for ever for '" +
             problem.classes[sends ? channel.to : channel.from].name + "' to " +
             (sends ? "take" : "send") + " message " +
             std::to_string(awaited.number) + " of '" + channel.name + "'";
    }
    // It waits for what is at the head of its stream.
    int head = states[i].stream.front().instance;
    const Collective &collective =
        problem.collectives[instances[head].collective];
    std::string text = "ranks '" + problem.classes[i].name +
                       "' wait for ever for collective '" + collective.name +
                       "'";
    for (int other : collective.group.empty() ? allClasses : collective.group)
      if (states[other].stream.empty() ||
          states[other].stream.front().instance != head)
        return text + ", to which ranks '" + problem.classes[other].name +
               "' do not come";
    return text;
  }
  return "";
}

bool Engine::run(std::string &error) {
  for (int index : allClasses)
    advance(index);
  while (true) {
    // What is done next is not done before now.
    bool begins =
        !beginnings.empty() && beginnings.top().first <= sharing.getNow();
    std::optional<PortSharing::Completion> completion;
    if (!begins) {
      completion = sharing.getNext();
      begins = !beginnings.empty() &&
               (!completion || beginnings.top().first <= completion->time);
    }
    if (begins) {
      auto [time, instance] = beginnings.top();
      beginnings.pop();
      sharing.add(time, instance, instances[instance].collective);
    } else if (completion) {
      sharing.remove(*completion);
      complete(completion->key, completion->time);
    } else {
      break;
    }
  }
  error = describeDeadlock();
  return error.empty();
}

Simulation Engine::takeResult() {
  double end = 0;
  for (const ClassState &state : states)
    end = std::max({end, state.now, state.streamFree});
  Simulation result;
  double count = double(options.iterations);
  result.seconds = end / count;
  for (const ClassState &state : states) {
    Simulation::ClassSeconds seconds = state.seconds;
    seconds.waiting = end - seconds.computing - seconds.exposed;
    seconds.hidden = state.communicating - seconds.exposed;
    for (double *part : {&seconds.computing, &seconds.waiting, &seconds.exposed,
                         &seconds.hidden})
      *part /= count;
    result.classes.push_back(seconds);
  }
  timeline.seconds = end;
  result.timeline = std::move(timeline);
  return result;
}

std::optional<Simulation> poplar::simulate(const SimulationProblem &problem,
                                           const SimulationOptions &options,
                                           std::string &error) {
  error = problem.check();
  if (error.empty() && options.iterations < 1)
    error = "iterations: " + std::to_string(options.iterations) +
            " is less than one";
  if (!error.empty())
    return std::nullopt;
  Engine engine(problem, options);
  if (!engine.run(error))
    return std::nullopt;
  return engine.takeResult();
}
