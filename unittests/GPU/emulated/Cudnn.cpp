//===- Cudnn.cpp - An emulated cuDNN --------------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What runtime/cuda/ calls of libcudnn, for tests. Descriptors take the
// attributes that cuDNN's have, of their types, until they are finalised;
// what lacks one is not finalised. What the variables say:
//
//   POPLAR_EMULATED_CUDNN_VERSION    the version, 91900 by default
//   POPLAR_EMULATED_CUDNN_FAIL       what fails: create, graph, plan, run, or
//                                    capture (the second time something is run)
//   POPLAR_EMULATED_CUDNN_WORKSPACE  bytes that an engine asks for besides
//
//===----------------------------------------------------------------------===//

#include "cuda/Cudnn.h"
#include "CudnnGraph.h"
#include "Memory.h"
#include "Prelude.h"

#include <cstdlib>
#include <memory>
#include <string>

using namespace poplar::emulated;
using namespace poplar::runtime::cuda::dnn;
using poplar::runtime::cuda::Stream;

namespace {

constexpr Status notInitialised = 1001, badParameter = 2000,
                 notSupported = 3000, executionFailed = 5000;

std::string lastError;

Status refuse(Status status, const std::string &reason) {
  lastError = reason;
  return status;
}

bool isToFail(const char *what) {
  const char *given = std::getenv("POPLAR_EMULATED_CUDNN_FAIL");
  return given && std::string(given) == what;
}

int64_t getNumber(const char *variable, int64_t otherwise) {
  const char *given = std::getenv(variable);
  return given ? std::atoll(given) : otherwise;
}

struct Attribute {
  int type;
  int64_t count;
  std::vector<char> bytes;
};

struct Descriptor {
  int kind;
  bool isFinal = false;
  std::map<int, Attribute> attributes;
  /// What a heuristic found.
  int64_t engine = -1;
  const Descriptor *graph = nullptr;
  int64_t runs = 0;

  bool has(int name) const { return attributes.count(name); }
  template <typename T> T get(int name, size_t index = 0) const {
    T value;
    std::memcpy(&value, attributes.at(name).bytes.data() + index * sizeof(T),
                sizeof(T));
    return value;
  }
  const Descriptor &object(int name, size_t index = 0) const {
    return *static_cast<Descriptor *>(get<Object>(name, index));
  }
};

/// An attribute that a kind of descriptor takes.
struct Rule {
  int kind, name, type;
  /// How many values; 0 for any number.
  int64_t count;
  bool isNeeded;
};

constexpr Rule rules[] = {
    {TensorKind, TensorType, TypeValue, 1, true},
    {TensorKind, TensorDimensions, Int64Value, 4, true},
    {TensorKind, TensorStrides, Int64Value, 4, true},
    {TensorKind, TensorId, Int64Value, 1, true},
    {TensorKind, TensorAlignment, Int64Value, 1, true},
    {TensorKind, TensorIsVirtual, BooleanValue, 1, false},
    {TensorKind, TensorIsByValue, BooleanValue, 1, false},
    {MatmulKind, MatmulType, TypeValue, 1, true},
    {MatmulOperation, OperationMatmul, ObjectValue, 1, true},
    {MatmulOperation, OperationMatmulA, ObjectValue, 1, true},
    {MatmulOperation, OperationMatmulB, ObjectValue, 1, true},
    {MatmulOperation, OperationMatmulC, ObjectValue, 1, true},
    {PointwiseKind, PointwiseMode, PointwiseValue, 1, true},
    {PointwiseKind, PointwiseType, TypeValue, 1, true},
    {PointwiseKind, PointwiseAxis, Int64Value, 1, false},
    {PointwiseOperation, OperationPointwise, ObjectValue, 1, true},
    {PointwiseOperation, OperationPointwiseX, ObjectValue, 1, true},
    {PointwiseOperation, OperationPointwiseB, ObjectValue, 1, false},
    {PointwiseOperation, OperationPointwiseT, ObjectValue, 1, false},
    {PointwiseOperation, OperationPointwiseY, ObjectValue, 1, true},
    {ReductionKind, ReductionMode, ReductionValue, 1, true},
    {ReductionKind, ReductionType, TypeValue, 1, true},
    {ReductionOperation, OperationReduction, ObjectValue, 1, true},
    {ReductionOperation, OperationReductionX, ObjectValue, 1, true},
    {ReductionOperation, OperationReductionY, ObjectValue, 1, true},
    {ReshapeOperation, ReshapeX, ObjectValue, 1, true},
    {ReshapeOperation, ReshapeY, ObjectValue, 1, true},
    {GraphKind, GraphHandle, HandleValue, 1, true},
    {GraphKind, GraphOperations, ObjectValue, 0, true},
    {HeuristicKind, HeuristicGraph, ObjectValue, 1, true},
    {HeuristicKind, HeuristicMode, HeuristicValue, 1, true},
    {PlanKind, PlanHandle, HandleValue, 1, true},
    {PlanKind, PlanConfig, ObjectValue, 1, true},
    {PackKind, PackIds, Int64Value, 0, true},
    {PackKind, PackPointers, PointerValue, 0, true},
    {PackKind, PackWorkspace, PointerValue, 1, true},
};

const Rule *findRule(int kind, int name) {
  for (const Rule &rule : rules)
    if (rule.kind == kind && rule.name == name)
      return &rule;
  return nullptr;
}

size_t getBytes(int type) {
  if (type == BooleanValue)
    return 1;
  return type == TypeValue || type == HeuristicValue || type == NoteValue ||
                 type == PointwiseValue || type == ReductionValue
             ? 4
             : 8;
}

GraphTensor readTensor(const Descriptor &own) {
  GraphTensor tensor;
  tensor.id = own.get<int64_t>(TensorId);
  tensor.type = own.get<int32_t>(TensorType);
  tensor.alignment = own.get<int64_t>(TensorAlignment);
  for (size_t i = 0; i < 4; ++i) {
    tensor.sizes[i] = own.get<int64_t>(TensorDimensions, i);
    tensor.strides[i] = own.get<int64_t>(TensorStrides, i);
  }
  tensor.isVirtual = own.has(TensorIsVirtual) && own.get<bool>(TensorIsVirtual);
  tensor.isByValue = own.has(TensorIsByValue) && own.get<bool>(TensorIsByValue);
  return tensor;
}

GraphOperation readOperation(const Descriptor &own) {
  GraphOperation op = {};
  auto take = [&](GraphTensor &tensor, int name) {
    if (own.has(name))
      tensor = readTensor(own.object(name));
  };
  switch (own.kind) {
  case MatmulOperation:
    op.kind = GraphOperation::Multiply;
    take(op.x, OperationMatmulA);
    take(op.b, OperationMatmulB);
    take(op.y, OperationMatmulC);
    break;
  case PointwiseOperation: {
    const Descriptor &function = own.object(OperationPointwise);
    op.kind = GraphOperation::Point;
    op.mode = function.get<int32_t>(PointwiseMode);
    if (function.has(PointwiseAxis))
      op.axis = function.get<int64_t>(PointwiseAxis);
    take(op.x, OperationPointwiseX);
    take(op.b, OperationPointwiseB);
    take(op.t, OperationPointwiseT);
    take(op.y, OperationPointwiseY);
    break;
  }
  case ReductionOperation:
    op.kind = GraphOperation::Reduce;
    op.mode = own.object(OperationReduction).get<int32_t>(ReductionMode);
    take(op.x, OperationReductionX);
    take(op.y, OperationReductionY);
    break;
  default:
    op.kind = GraphOperation::Reshape;
    take(op.x, ReshapeX);
    take(op.y, ReshapeY);
  }
  return op;
}

Graph readGraph(const Descriptor &own) {
  Graph graph;
  for (size_t i = 0; i < size_t(own.attributes.at(GraphOperations).count); ++i)
    graph.push_back(readOperation(own.object(GraphOperations, i)));
  return graph;
}

template <typename Function>
void forEachTensor(const Graph &graph, const Function &function) {
  for (const GraphOperation &op : graph)
    for (const GraphTensor *tensor : {&op.x, &op.b, &op.t, &op.y})
      if (tensor->id >= 0)
        function(*tensor);
}

/// Why there is no engine for a graph: what cuDNN asks of the operands of
/// attention (Developer Guide, "Scaled Dot Product Attention").
std::string findObstacle(const Graph &graph) {
  std::string obstacle;
  forEachTensor(graph, [&](const GraphTensor &tensor) {
    if (tensor.isVirtual || tensor.isByValue || tensor.type == F32)
      return;
    int64_t columns = std::min(tensor.strides[2], tensor.strides[3]) == 1
                          ? tensor.sizes[tensor.strides[3] == 1 ? 3 : 2]
                          : 0;
    if (columns % 8 != 0 || columns > 128 || columns == 0)
      obstacle = "heads of that many columns";
    for (size_t i = 0; i < 4; ++i)
      if (tensor.strides[i] != 1 && tensor.strides[i] % 8 != 0)
        obstacle = "strides that are no multiple of 16 bytes";
    if (tensor.alignment % 16 != 0)
      obstacle = "operands that begin at no multiple of 16 bytes";
  });
  return obstacle;
}

/// As the engines of Hopper say: a gradient keeps dS, and dk and dv of all
/// heads if these share keys.
int64_t countWorkspace(const Graph &graph) {
  auto roundUp = [](int64_t value, int64_t to) {
    return (value + to - 1) / to * to;
  };
  int64_t bytes = 256 + getNumber("POPLAR_EMULATED_CUDNN_WORKSPACE", 0);
  bool isGradient = false;
  for (const GraphOperation &op : graph) {
    isGradient |= op.kind == GraphOperation::Reshape;
    if (op.kind == GraphOperation::Reduce && op.x.sizes[1] != op.y.sizes[1])
      bytes +=
          2 * op.x.sizes[0] * op.x.sizes[1] * op.x.sizes[2] * op.x.sizes[3];
  }
  if (isGradient) {
    const GraphTensor &scores = graph.back().x;
    bytes += 2 * scores.sizes[0] * scores.sizes[1] *
             roundUp(scores.sizes[2], 64) * roundUp(scores.sizes[3], 128);
  }
  return bytes;
}

Descriptor &at(Object object) { return *static_cast<Descriptor *>(object); }

/// The graph of what a configuration, or a plan of one, is for.
const Descriptor &getGraph(const Descriptor &own) {
  return own.kind == PlanKind ? *own.object(PlanConfig).graph : *own.graph;
}

Status finalisePlan(const Descriptor &own) {
  const Descriptor &config = own.object(PlanConfig);
  if (config.kind != ConfigKind || !config.graph)
    return refuse(badParameter, "a plan of no configuration");
  return isToFail("plan") ? refuse(notSupported, "the engine refuses")
                          : Status(0);
}

} // namespace

extern "C" {

size_t cudnnGetVersion() {
  return size_t(getNumber("POPLAR_EMULATED_CUDNN_VERSION", 91900));
}
const char *cudnnGetErrorString(Status) { return "EMULATED"; }
void cudnnGetLastErrorString(char *text, size_t bytes) {
  std::snprintf(text, bytes, "%s", lastError.c_str());
}

Status cudnnCreate(Handle *handle) {
  if (isToFail("create") || getCurrentDevice() < 0)
    return refuse(notInitialised, "no context");
  *handle = new Stream(nullptr);
  return 0;
}
Status cudnnDestroy(Handle handle) {
  delete static_cast<Stream *>(handle);
  return 0;
}
Status cudnnSetStream(Handle handle, Stream stream) {
  *static_cast<Stream *>(handle) = stream;
  return 0;
}

Status cudnnBackendCreateDescriptor(int kind, Object *descriptor) {
  *descriptor = new Descriptor{kind};
  return 0;
}
Status cudnnBackendDestroyDescriptor(Object descriptor) {
  delete static_cast<Descriptor *>(descriptor);
  return 0;
}

Status cudnnBackendSetAttribute(Object object, int name, int type,
                                int64_t count, const void *values) {
  Descriptor &own = at(object);
  if (own.isFinal)
    return refuse(badParameter, "the descriptor is finalised");
  const Rule *rule = findRule(own.kind, name);
  if (!rule || rule->type != type || (rule->count && rule->count != count) ||
      count < 1 || !values)
    return refuse(badParameter, "attribute " + std::to_string(name) +
                                    " is not one of descriptor " +
                                    std::to_string(own.kind) +
                                    ", or of another type");
  auto *from = static_cast<const char *>(values);
  size_t bytes = size_t(count) * getBytes(type);
  if (type == ObjectValue)
    for (int64_t i = 0; i < count; ++i)
      if (const Descriptor &other = at(static_cast<const Object *>(values)[i]);
          !other.isFinal)
        return refuse(badParameter, "what an attribute names is not finalised");
  own.attributes[name] = {type, count, std::vector<char>(from, from + bytes)};
  return 0;
}

Status cudnnBackendFinalize(Object object) {
  Descriptor &own = at(object);
  for (const Rule &rule : rules)
    if (rule.kind == own.kind && rule.isNeeded && !own.has(rule.name))
      return refuse(badParameter, "descriptor " + std::to_string(own.kind) +
                                      " lacks attribute " +
                                      std::to_string(rule.name));
  if (own.kind == GraphKind && isToFail("graph"))
    return refuse(notSupported, "no such graph");
  if (own.kind == PlanKind)
    if (Status status = finalisePlan(own))
      return status;
  own.isFinal = true;
  return 0;
}

/// Two engines, the first of which adds up in any order.
static Status listConfigs(const Descriptor &own, int64_t most, int64_t *found,
                          Object *configs) {
  const Descriptor &graph = own.object(HeuristicGraph);
  if (std::string obstacle = findObstacle(readGraph(graph)); !obstacle.empty())
    return refuse(notSupported, obstacle);
  *found = 0;
  for (int64_t engine = 0; engine < 2 && engine < most; ++engine) {
    Descriptor &config = at(configs[engine]);
    if (config.kind != ConfigKind)
      return refuse(badParameter, "a result that is no configuration");
    config.isFinal = true;
    config.engine = engine;
    config.graph = &graph;
    ++*found;
  }
  return 0;
}

Status cudnnBackendGetAttribute(Object object, int name, int type,
                                int64_t count, int64_t *found, void *values) {
  Descriptor &own = at(object);
  if (!own.isFinal && own.kind != EngineKind)
    return refuse(notInitialised, "the descriptor is not finalised");
  auto give = [&](int wanted, auto value) {
    if (type != wanted || count < 1)
      return refuse(badParameter, "an attribute of another type");
    std::memcpy(values, &value, sizeof(value));
    if (found)
      *found = 1;
    return Status(0);
  };
  if (own.kind == HeuristicKind && name == HeuristicResults)
    return listConfigs(own, count, found, static_cast<Object *>(values));
  if (own.kind == ConfigKind && name == ConfigEngine) {
    at(*static_cast<Object *>(values)).engine = own.engine;
    return Status(0);
  }
  if (own.kind == EngineKind && name == EngineIndex)
    return give(Int64Value, own.engine);
  if (own.kind == EngineKind && name == EngineNotes && own.engine != 0) {
    *found = 0;
    return 0;
  }
  if (own.kind == EngineKind && name == EngineNotes)
    return give(NoteValue, Nondeterministic);
  if ((own.kind == ConfigKind && name == ConfigWorkspace) ||
      (own.kind == PlanKind && name == PlanWorkspace))
    return give(Int64Value, countWorkspace(readGraph(getGraph(own))));
  return refuse(badParameter, "no such attribute");
}

Status cudnnBackendExecute(Handle handle, Object planObject,
                           Object packObject) {
  Descriptor &plan = at(planObject), &pack = at(packObject);
  if (plan.kind != PlanKind || !plan.isFinal || pack.kind != PackKind ||
      !pack.isFinal)
    return refuse(badParameter, "what is run is not finalised");
  if (isToFail("run") || (isToFail("capture") && plan.runs > 0))
    return refuse(executionFailed, "the kernel does not start");
  ++plan.runs;
  auto graph = std::make_shared<Graph>(readGraph(getGraph(plan)));
  std::map<int64_t, const void *> given;
  for (size_t i = 0; i < size_t(pack.attributes.at(PackIds).count); ++i)
    given[pack.get<int64_t>(PackIds, i)] =
        pack.get<const void *>(PackPointers, i);
  Addresses addresses;
  Numbers numbers;
  std::string obstacle;
  forEachTensor(*graph, [&](const GraphTensor &tensor) {
    if (tensor.isVirtual)
      return;
    auto own = given.find(tensor.id);
    if (own == given.end() || !own->second)
      obstacle = "tensor " + std::to_string(tensor.id) + " has no address";
    else if (tensor.isByValue)
      numbers[tensor.id] = *static_cast<const float *>(own->second);
    else if (reinterpret_cast<uint64_t>(own->second) %
             uint64_t(tensor.alignment))
      obstacle = "tensor " + std::to_string(tensor.id) + " is not aligned";
    else
      addresses[tensor.id] = reinterpret_cast<uint64_t>(own->second);
  });
  auto workspace = reinterpret_cast<uint64_t>(pack.get<void *>(PackWorkspace));
  if (workspace % 256 != 0)
    obstacle = "the workspace is not aligned";
  if (!obstacle.empty())
    return refuse(badParameter, obstacle);
  int64_t bytes = countWorkspace(*graph);
  getQueue(*static_cast<Stream *>(handle)).add([=] {
    std::memset(Memory::get().at(workspace, bytes), 0xFF, size_t(bytes));
    computeGraph(*graph, addresses, numbers);
  });
  return 0;
}

} // extern "C"
