//===- PhaseBuilder.cpp - A function as a simulation has it ---------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PhaseBuilder.h"
#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Dialect/Zero/ZeroExchange.h"
#include "Poplar/Planner/Model/OptimizerBytes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace poplar;

using Step = SimulationProblem::Operation;
using Phase = SimulationProblem::Phase;

PhaseBuilder::PhaseBuilder(SimulationProblem &problem,
                           std::vector<PhaseGroup> groups,
                           std::function<int(zero::BucketOp)> groupOf)
    : problem(problem), groups(std::move(groups)), groupOf(std::move(groupOf)) {
  for (const PhaseGroup &group : this->groups)
    for (const std::vector<int> &ports : group.ports)
      for (int port : ports)
        problem.ports = std::max(problem.ports, port + 1);
}

PhaseGroup PhaseBuilder::makeGroup(CollectiveCost cost,
                                   std::vector<double> shares) {
  PhaseGroup group{std::move(cost), std::move(shares), {}, {}};
  for (int port = 0; port < CollectiveCost::numPorts; ++port)
    group.ports[port] = {port};
  return group;
}

const std::vector<int64_t> &PhaseBuilder::getBounds(zero::BucketOp bucket) {
  int64_t elements = bucket.getBounds()->back();
  int group = getGroup(bucket);
  auto [entry, isNew] = bounds.try_emplace({group, elements});
  if (isNew)
    entry->second = shardByShares(elements, groups[group].shares).bounds;
  return entry->second;
}

void PhaseBuilder::addComputation(Phase &phase, StringRef name,
                                  double seconds) {
  if (seconds == 0)
    return;
  std::vector<std::string> &names = problem.computations;
  auto [entry, isNew] =
      computations.try_emplace(name, static_cast<int>(names.size()));
  if (isNew)
    names.push_back(name.str());
  phase.push_back(Step::compute(entry->second, seconds));
}

int PhaseBuilder::getCollective(
    const Twine &name,
    llvm::function_ref<SimulationProblem::Collective(std::string)> make) {
  std::vector<SimulationProblem::Collective> &list = problem.collectives;
  auto [entry, isNew] =
      collectives.try_emplace(name.str(), static_cast<int>(list.size()));
  if (isNew)
    list.push_back(make(name.str()));
  return entry->second;
}

/// A collective of a group, with the classes and ports that are the group's.
static SimulationProblem::Collective place(SimulationProblem::Collective it,
                                           const PhaseGroup &group) {
  std::vector<SimulationProblem::Collective::Use> uses;
  for (auto [kind, seconds] : it.uses)
    for (int port : group.ports[kind])
      uses.push_back({port, seconds});
  llvm::sort(uses,
             [](const auto &a, const auto &b) { return a.port < b.port; });
  it.uses = std::move(uses);
  it.group = group.classes;
  return it;
}

void PhaseBuilder::addExchange(Phase &phase, StringRef name, int64_t bytes) {
  if (groups.front().shares.size() < 2)
    return;
  int token = static_cast<int>(phase.size());
  int index = getCollective(name, [&](std::string text) {
    return place(groups.front().cost.exchange(std::move(text), bytes),
                 groups.front());
  });
  phase.push_back(Step::start(index, token));
  phase.push_back(Step::wait(token));
}

void PhaseBuilder::addTokens(Phase &phase, int group,
                             zero::ExchangeOpInterface op, int64_t batch) {
  const PhaseGroup &sharers = groups[group];
  auto bounds = op.getBounds().vec();
  auto start = dyn_cast<zero::StartExchangeOp>(op.getOperation());
  if (start)
    exchanges[start].clear();
  for (zero::TokenExchange exchange : op.getExchanges()) {
    int64_t bytes = exchange.bytesPerToken * batch;
    StringRef kind = stringifyExchangeKind(exchange.kind);
    bool gathers = exchange.kind == zero::ExchangeKind::GatherTokens;
    int64_t pieces = start ? int64_t(start.getPieces()) : 1;
    for (int64_t piece = 0; piece < pieces; ++piece) {
      // Pieces follow one another on the link: one latency for all of them,
      // before the first that is waited for, or the last.
      bool isLate = piece == (gathers ? 0 : pieces - 1);
      int index = getCollective(
          kind + ", " + Twine(group) + ", " + Twine(bytes) + ", " +
              Twine(pieces) + ", " + Twine(int(isLate)),
          [&](std::string) {
            std::string name = kind.str();
            double own = double(bytes) / double(pieces);
            SimulationProblem::Collective made =
                gathers ? sharers.cost.allGather(name, bounds, own)
                : exchange.kind == zero::ExchangeKind::ScatterTokens
                    ? sharers.cost.reduceScatter(name, bounds, own)
                    : sharers.cost.exchange(name, bounds.back() * bytes);
            if (!isLate)
              made.latency = 0;
            return place(std::move(made), sharers);
          });
      int token = static_cast<int>(phase.size());
      phase.push_back(Step::start(index, token));
      if (start)
        exchanges[start].push_back(token);
      else
        phase.push_back(Step::wait(token));
    }
  }
}

/// A collective of a group's buckets, or half of one across its shard groups.
static SimulationProblem::Collective getCost(const PhaseGroup &group,
                                             const std::vector<int64_t> &bounds,
                                             double bytes, bool reduces,
                                             bool sumsShards) {
  if (sumsShards)
    return reduces ? group.replicas->reduceShards("", bounds, bytes)
                   : group.replicas->gatherShards("", bounds, bytes);
  if (group.replicas)
    return reduces ? group.replicas->reduceScatter("", bounds, bytes)
                   : group.replicas->allGather("", bounds, bytes);
  return reduces ? group.cost.reduceScatter("", bounds, bytes,
                                            /*insideBytes=*/4)
                 : group.cost.allGather("", bounds, bytes);
}

/// Adds the collective of a bucket if it is not there yet. Buckets of one size
/// cost the same.
int PhaseBuilder::getCollective(const Twine &name, zero::BucketOp bucket,
                                double bytes, bool reduces, bool sumsShards) {
  return getCollective(name, [&](std::string text) {
    const std::vector<int64_t> &bounds = getBounds(bucket);
    int index = getGroup(bucket);
    const PhaseGroup &group = groups[index];
    auto [entry, isNew] =
        costs.try_emplace({index, bounds.back(), bytes, reduces, sumsShards});
    if (isNew)
      entry->second =
          place(getCost(group, bounds, bytes, reduces, sumsShards), group);
    SimulationProblem::Collective collective = entry->second;
    collective.name = std::move(text);
    // One rank alone sends nothing.
    if (group.shares.size() > 1)
      collective.bytes = double(bounds.back()) * bytes;
    return collective;
  });
}

/// Starts a collective; returns its token. An all-reduce is a reduce-scatter
/// and an all-gather, as in the runtime, and across shard groups if there are
/// replicas.
int PhaseBuilder::addStart(Phase &phase, zero::CollectiveOpInterface op) {
  auto bucket =
      symbols.lookupNearestSymbolFrom<zero::BucketOp>(op, op.getBucketName());
  double bytes = zero::getElementBytes(op.getWireType());
  int token = static_cast<int>(phase.size());
  zero::CollectiveKind kind = op.getCollectiveKind();
  std::string name =
      (stringifyCollectiveKind(kind) + " @" + bucket.getSymName()).str();
  bool sumsShards = kind == zero::CollectiveKind::AllReduce &&
                    groups[getGroup(bucket)].replicas;
  if (kind != zero::CollectiveKind::AllGather) {
    bool alone = kind == zero::CollectiveKind::ReduceScatter;
    int index = getCollective(name + (alone ? "" : ", sums"), bucket, bytes,
                              /*reduces=*/true, sumsShards);
    phase.push_back(Step::start(index, token));
    if (alone)
      return token;
  }
  int index = getCollective(name, bucket, bytes, /*reduces=*/false, sumsShards);
  phase.push_back(Step::start(index, token));
  return token;
}

/// The name of what a step of a program computes.
static StringRef getComputationName(Operation *op) {
  if (auto call = dyn_cast<func::CallOp>(op))
    return call.getCallee();
  return op->getName().stripDialect();
}

func::FuncOp PhaseBuilder::getExchangingCallee(Operation *op) {
  auto call = dyn_cast<func::CallOp>(op);
  if (!call)
    return {};
  auto callee =
      symbols.lookupNearestSymbolFrom<func::FuncOp>(call, call.getCalleeAttr());
  bool exchanges = llvm::any_of(callee.front(), [](Operation &inner) {
    return isa<zero::ExchangeOpInterface>(inner);
  });
  return exchanges ? callee : func::FuncOp();
}

/// What of a product runs before the exchange that it is cut by: the own rows
/// of what is gathered, the others' rows of what is scattered; 1 for other ops.
/// With that exchange.
static std::pair<double, zero::StartExchangeOp> findCut(Operation &op) {
  if (isa<zero::WaitExchangeOp>(op) || op.hasTrait<OpTrait::IsTerminator>())
    return {1, nullptr};
  for (Value operand : op.getOperands())
    if (auto gather = operand.getDefiningOp<zero::StartExchangeOp>();
        gather && gather.getKind() == zero::ExchangeKind::GatherTokens)
      return {gather.getOwnPart(), gather};
  for (Operation *user : op.getUsers())
    if (auto scatter = dyn_cast<zero::StartExchangeOp>(user);
        scatter && !scatter.getKept().empty())
      return {1 - scatter.getOwnPart(), scatter};
  return {1, nullptr};
}

/// Whether the next gather waits for it, piece by piece.
static bool isChained(zero::WaitExchangeOp wait) {
  for (Operation *op = wait->getNextNode(); op; op = op->getNextNode())
    if (isa<zero::WaitExchangeOp>(op))
      return false;
    else if (auto start = dyn_cast<zero::StartExchangeOp>(op))
      return start.getChained();
  return false;
}

/// A gather that is chained: as each piece of what was scattered arrives, what
/// is to be gathered is made of it and sent, and its own rows are computed.
void PhaseBuilder::addChained(Phase &phase, zero::StartExchangeOp gather,
                              StringRef name, double made, double own,
                              Messages messages) {
  size_t size = phase.size();
  messages(phase, gather);
  Phase begun(phase.begin() + size, phase.end());
  phase.resize(size);
  ArrayRef<int> arriving = exchanges[gather.getChain().getStart()];
  double share = 1.0 / begun.size();
  for (auto [token, start] : llvm::zip_equal(arriving, begun)) {
    phase.push_back(Step::wait(token));
    addComputation(phase, name, made * share);
    phase.push_back(start);
    addComputation(phase, name, own * share);
  }
}

/// Seconds of the own rows of the products that a gather stands beside.
static double getOwnRows(zero::StartExchangeOp gather,
                         PhaseBuilder::Seconds seconds) {
  double sum = 0;
  for (Operation *user : gather.getResult(0).getUsers())
    if (auto [part, cut] = findCut(*user); cut == gather)
      sum += part * seconds(user);
  return sum;
}

void PhaseBuilder::addCallee(Phase &phase, func::FuncOp callee, Seconds seconds,
                             Messages messages) {
  double since = 0;
  StringRef name = callee.getSymName();
  // What is cut by an exchange: rows that are given away, and what runs behind
  // a start or a wait because rows are missing before.
  DenseMap<Operation *, double> beforeStart, behindStart, behindWait;
  for (Operation &op : callee.front()) {
    double own = seconds(&op);
    auto [part, cut] = findCut(op);
    if (cut && cut.getKind() == zero::ExchangeKind::ScatterTokens) {
      beforeStart[cut] += own * part;
      behindStart[cut] += own * (1 - part);
    } else {
      // Own rows of a chained gather are computed with its pieces.
      if (!cut || !cut.getChained())
        since += own * part;
      if (cut)
        behindWait[cut] += own * (1 - part);
    }
    auto wait = dyn_cast<zero::WaitExchangeOp>(op);
    if (!wait && !isa<zero::ExchangeOpInterface>(op))
      continue;
    if (auto gather = dyn_cast<zero::StartExchangeOp>(op);
        gather && gather.getChained()) {
      // What it needs is computed since its chain has been waited for.
      addChained(phase, gather, name, since, getOwnRows(gather, seconds),
                 messages);
      since = 0;
      continue;
    }
    addComputation(phase, name, since);
    since = 0;
    if (wait && isChained(wait))
      continue;
    if (wait) {
      ArrayRef<int> tokens = exchanges[wait.getStart()];
      for (int token : tokens) {
        phase.push_back(Step::wait(token));
        addComputation(phase, name,
                       behindWait.lookup(wait.getStart()) / tokens.size());
      }
    } else {
      // A piece goes when it is computed. Other exchanges are not cut.
      size_t size = phase.size();
      messages(phase, &op);
      if (double seconds = beforeStart.lookup(&op)) {
        Phase pieces(phase.begin() + size, phase.end());
        phase.resize(size);
        for (Step piece : pieces) {
          addComputation(phase, name, seconds / pieces.size());
          phase.push_back(piece);
        }
      }
      since = behindStart.lookup(&op);
    }
  }
  addComputation(phase, name, since);
}

FailureOr<Phase> PhaseBuilder::make(ModuleOp program, StringRef name,
                                    Seconds seconds, Messages messages) {
  auto function = program.lookupSymbol<func::FuncOp>(name);
  if (!function || function.isExternal())
    return program.emitError("has no function @")
           << name << " to simulate: the programs must be scheduled first";
  Phase phase;
  DenseMap<Value, int> tokens;
  for (Operation &op : function.front()) {
    if (auto callee = messages ? getExchangingCallee(&op) : func::FuncOp()) {
      addCallee(phase, callee, seconds, messages);
      continue;
    }
    addComputation(phase, getComputationName(&op), seconds(&op));
    if (isa<zero::NormOp>(op)) {
      addExchange(phase, "norm", 2 * sizeof(double));
    } else if (auto wait = dyn_cast<zero::WaitOp>(op)) {
      phase.push_back(Step::wait(tokens.lookup(wait.getToken())));
    } else if (auto collective = dyn_cast<zero::CollectiveOpInterface>(op)) {
      int token = addStart(phase, collective);
      if (auto start = dyn_cast<zero::StartOp>(op))
        tokens[start.getToken()] = token;
      else
        phase.push_back(Step::wait(token));
    } else if (isa<zero::SendOp, zero::ReceiveOp, zero::ExchangeOpInterface>(
                   op)) {
      messages(phase, &op);
    }
  }
  return phase;
}

//===----------------------------------------------------------------------===//
// The loop around the micro-steps
//===----------------------------------------------------------------------===//

Phase PhaseBuilder::makeBegin(ModuleOp program, double secondsPerByte,
                              Elements own) {
  double elements = 0;
  for (auto bucket : program.getOps<zero::BucketOp>())
    elements += own(bucket);
  Phase phase;
  addExchange(phase, "stop", sizeof(int64_t));
  addExchange(phase, "targets", sizeof(int64_t));
  addComputation(phase, "zero gradients",
                 secondsPerByte * OptimizerBytes::zero * elements);
  return phase;
}

Phase PhaseBuilder::makeEnd() {
  Phase phase;
  addExchange(phase, "loss", sizeof(double));
  return phase;
}

FailureOr<Phase> PhaseBuilder::makeUpdate(ModuleOp program,
                                          double secondsPerByte, Elements own) {
  double all = 0;
  for (auto bucket : program.getOps<zero::BucketOp>())
    all += own(bucket);
  return make(program, nn::getName(nn::Entry::Update), [&](Operation *op) {
    double bytes = 0;
    if (isa<zero::NormOp>(op))
      bytes = OptimizerBytes::norm * all;
    else if (auto adamw = dyn_cast<zero::AdamWOp>(op))
      bytes = OptimizerBytes::adamw *
              own(symbols.lookupNearestSymbolFrom<zero::BucketOp>(
                  op, adamw.getBucketAttr()));
    return bytes * secondsPerByte;
  });
}
