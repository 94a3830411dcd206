//===- FormKernels.cpp - Outline groups of linalg ops ---------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Walks every function once and puts each linalg.generic into the latest group
// it may join: same domain, nothing it needs computed after the group, and what
// it reads of the group it reads in its own row. Each group becomes a function;
// equal functions become one.
//
//===----------------------------------------------------------------------===//

#include "Poplar/Conversion/Kernels/Kernels.h"
#include "Poplar/Conversion/Kernels/Passes.h"
#include "Poplar/Dialect/NN/NN.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/SetVector.h"
#include <unordered_map>

namespace poplar {
#define GEN_PASS_DEF_FORMKERNELS
#include "Poplar/Conversion/Kernels/Passes.h.inc"
} // namespace poplar

using namespace mlir;
using namespace poplar;

namespace {

/// Ops that give a kernel its constants and initial values: cloned into it.
bool isInitializer(Operation *op) {
  return isa_and_nonnull<arith::ConstantOp, tensor::EmptyOp, tensor::DimOp,
                         linalg::FillOp>(op);
}

struct Group {
  KernelDomain domain;
  SmallVector<linalg::GenericOp> ops;

  bool contains(Operation *op) const {
    return op && llvm::any_of(ops, [&](linalg::GenericOp member) {
             return member.getOperation() == op;
           });
  }
};

/// Values outside a group that its kernel reads, makes, or is initialised with.
struct KernelValues {
  SetVector<Value> inputs, outputs, initializers;
};

/// Values `op` reads other than as operands (tensor.extract in its body).
SetVector<Value> getCaptures(linalg::GenericOp op) {
  SetVector<Value> captures;
  getUsedValuesDefinedAbove(op.getRegion(), captures);
  return captures;
}

/// True if `operand` is read at the element's own row (b, t).
bool isRowLocal(linalg::GenericOp op, OpOperand &operand) {
  AffineMap map = op.getMatchingIndexingMap(&operand);
  if (map.getNumResults() < 2)
    return false;
  return map.getResult(0) == getAffineDimExpr(0, map.getContext()) &&
         map.getResult(1) == getAffineDimExpr(1, map.getContext());
}

using Groups = SmallVector<Group>;

/// The group that has `op`; null if there is none.
const Group *findGroup(const Groups &groups, Operation *op) {
  const auto *found = llvm::find_if(
      groups, [&](const Group &group) { return group.contains(op); });
  return found == groups.end() ? nullptr : found;
}

/// The first op that uses one of the group's results without being a member (or
/// `candidate`): the group must have run by then. A user in another group runs
/// with that, which may be before its own place.
Operation *getFirstUser(const Groups &groups, const Group &group,
                        Operation *candidate) {
  Operation *firstUser = nullptr;
  llvm::SmallSetVector<const Group *, 8> reached;
  reached.insert(&group);
  for (size_t i = 0; i < reached.size(); ++i) {
    const Group &at = *reached[i];
    Block *block = at.ops.front()->getBlock();
    for (linalg::GenericOp member : at.ops)
      for (Operation *user : member->getUsers()) {
        while (user->getBlock() != block)
          user = user->getParentOp();
        if (user == candidate || at.contains(user) || isInitializer(user))
          continue;
        if (!firstUser || user->isBeforeInBlock(firstUser))
          firstUser = user;
        if (const Group *other = findGroup(groups, user))
          reached.insert(other);
      }
  }
  return firstUser;
}

/// Why `op` does not join a group that it shares no values with.
constexpr StringLiteral kUnrelated = "it shares no values with the kernel";

/// Whether `op` reads what the group makes or reads.
bool isRelated(const Group &group, linalg::GenericOp op) {
  auto isShared = [&](Value value) {
    Operation *def = value.getDefiningOp();
    if (group.contains(def))
      return true;
    return !isInitializer(def) &&
           llvm::any_of(group.ops, [&](linalg::GenericOp member) {
             return llvm::is_contained(member->getOperands(), value);
           });
  };
  return llvm::any_of(op->getOperands(), isShared) ||
         llvm::any_of(getCaptures(op), [&](Value capture) {
           return group.contains(capture.getDefiningOp());
         });
}

/// Why `op` may not join the group; empty if it may.
StringRef findObstacle(const Groups &groups, const Group &group,
                       const KernelDomain &domain, linalg::GenericOp op) {
  if (!isRelated(group, op))
    return kUnrelated;
  if (!(group.domain == domain))
    return "its iteration space differs";
  Operation *limit = getFirstUser(groups, group, op);
  auto isAvailable = [&](Value value) {
    Operation *def = value.getDefiningOp();
    if (!limit || !def || isInitializer(def))
      return true;
    if (const Group *other = findGroup(groups, def))
      return llvm::all_of(other->ops, [&](linalg::GenericOp member) {
        return member->isBeforeInBlock(limit);
      });
    return def->isBeforeInBlock(limit);
  };
  constexpr StringLiteral late = "it reads what is computed after the kernel";
  for (Value capture : getCaptures(op)) {
    if (group.contains(capture.getDefiningOp()))
      return "it reads other rows of a result of the kernel";
    if (!isAvailable(capture))
      return late;
  }
  for (OpOperand &operand : op->getOpOperands()) {
    if (group.contains(operand.get().getDefiningOp())) {
      // Only rows are finished one by one; a group of another kind cannot
      // read its own results.
      if (domain.kind != exec::KernelKind::Rows)
        return "only kernels by rows read their own results";
      if (!isRowLocal(op, operand))
        return "it reads other rows of a result of the kernel";
      continue;
    }
    if (!isAvailable(operand.get()))
      return late;
  }
  return "";
}

/// Index of the last op of `ops` that reads `value`, -1 if none.
int lastReader(ArrayRef<linalg::GenericOp> ops, Value value) {
  for (int i = ops.size() - 1; i >= 0; --i) {
    if (getCaptures(ops[i]).contains(value))
      return i;
    for (OpOperand &operand : ops[i]->getOpOperands())
      if (operand.get() == value)
        return i;
  }
  return -1;
}

/// The op that `op` was lowered from, without its dialect; empty if unknown.
StringRef getSource(linalg::GenericOp op) {
  auto loc = dyn_cast<NameLoc>(op.getLoc());
  if (!loc)
    return "";
  auto lowered = RegisteredOperationName::lookup(loc.getName().getValue(),
                                                 loc.getContext());
  return lowered ? lowered->stripDialect() : "";
}

/// The name of `op` in remarks.
StringRef describe(linalg::GenericOp op) {
  StringRef source = getSource(op);
  return source.empty() ? op->getName().getStringRef() : source;
}

/// A number, and the ops that the group was made of:
/// "kernel_3_add_rms_norm".
std::string nameKernel(size_t number, const Group &group) {
  constexpr size_t mostCharacters = 64;
  std::string name = "kernel_" + std::to_string(number);
  SmallVector<StringRef> known;
  for (linalg::GenericOp op : group.ops) {
    StringRef source = getSource(op);
    if (source.empty() || llvm::is_contained(known, source))
      continue;
    known.push_back(source);
    if (name.size() + 1 + source.size() > mostCharacters)
      return name + "_more";
    name += ("_" + source).str();
  }
  return name;
}

remark::RemarkOpts getRemarkOptions(StringRef name, Operation *op) {
  return remark::RemarkOpts::name(name)
      .category("form-kernels")
      .function(op->getParentOfType<func::FuncOp>().getName());
}

class FormKernelsPass : public poplar::impl::FormKernelsBase<FormKernelsPass> {
public:
  using Base::Base;

  void runOnOperation() override {
    known.clear();
    SmallVector<func::FuncOp> functions(getOperation().getOps<func::FuncOp>());
    for (func::FuncOp function : functions)
      if (!function.isExternal() && failed(formKernels(function)))
        return signalPassFailure();
  }

private:
  LogicalResult formKernels(func::FuncOp function);
  LogicalResult outline(const Groups &groups, const Group &group,
                        bool updateInPlace);
  FailureOr<exec::KernelOp> buildKernel(const Group &group,
                                        const KernelValues &values,
                                        bool updateInPlace);
  exec::KernelOp findAlike(exec::KernelOp kernel, size_t hash);
  void setPlaces(exec::KernelOp kernel, ArrayRef<linalg::GenericOp> members,
                 bool updateInPlace);

  /// Kernels of the module, by hashBody().
  std::unordered_multimap<size_t, exec::KernelOp> known;
};

} // namespace

/// Adds `op` to the latest group that it may join, or to one of its own.
static void addToGroup(Groups &groups, const KernelDomain &domain,
                       linalg::GenericOp op) {
  // Why the latest group that shares values with it was not joined.
  StringRef obstacle;
  StringRef first;
  for (Group &group : llvm::reverse(groups)) {
    StringRef found = findObstacle(groups, group, domain, op);
    if (found.empty()) {
      remark::passed(op.getLoc(), getRemarkOptions("JoinsKernel", op))
          << remark::metric("Op", describe(op))
          << remark::metric("Kernel", describe(group.ops.front()));
      group.ops.push_back(op);
      return;
    }
    if (obstacle.empty() && found != kUnrelated) {
      obstacle = found;
      first = describe(group.ops.front());
    }
  }
  if (!obstacle.empty())
    remark::missed(op.getLoc(), getRemarkOptions("BeginsKernel", op))
        << remark::metric("Op", describe(op)) << remark::metric("Kernel", first)
        << remark::reason("{0}", obstacle);
  groups.push_back({domain, {op}});
}

LogicalResult FormKernelsPass::formKernels(func::FuncOp function) {
  Groups groups;
  for (linalg::GenericOp op : function.getOps<linalg::GenericOp>()) {
    std::optional<KernelDomain> domain = getKernelDomain(op);
    if (!domain)
      return op.emitOpError("has an iteration space that fits no kernel kind: "
                            "expected (b,t), (b,t,d) by rows, by columns or by "
                            "positions, or one parallel dimension");
    if (domain->parts < 1)
      return op.emitOpError("has an empty iteration space");
    addToGroup(groups, *domain, op);
  }
  // Kernels of the optimizer update their arguments wherever they may.
  bool updateInPlace = llvm::any_of(
      getOperation().getOps<exec::OptimizerOp>(), [&](auto optimizer) {
        return optimizer.runs(function.getSymNameAttr());
      });
  for (Group &group : groups) {
    if (failed(outline(groups, group, updateInPlace)))
      return failure();
    // They are erased.
    group.ops.clear();
  }

  // What only initialised kernels is now inside them.
  for (Operation &op :
       llvm::make_early_inc_range(llvm::reverse(function.getBody().front())))
    if (isInitializer(&op) && op.use_empty())
      op.erase();
  return success();
}

/// Which buffers a kernel's results may share with its arguments.
void FormKernelsPass::setPlaces(exec::KernelOp kernel,
                                ArrayRef<linalg::GenericOp> members,
                                bool updateInPlace) {
  Builder builder(kernel);
  SmallVector<int64_t> inPlace;
  SmallVector<Attribute> reuse;
  bool reusesAny = false;
  for (Value value : kernel.getBody().front().getTerminator()->getOperands()) {
    auto result = cast<OpResult>(value);
    auto op = cast<linalg::GenericOp>(result.getOwner());
    int position = llvm::find(members, op) - members.begin();
    OpOperand *init = op.getDpsInitOperand(result.getResultNumber());
    auto accumulator = dyn_cast<BlockArgument>(init->get());
    if (accumulator && op.payloadUsesValueFromOperand(init)) {
      inPlace.push_back(accumulator.getArgNumber());
      reuse.push_back(builder.getDenseI64ArrayAttr({}));
      continue;
    }
    // A buffer may be taken over if its last reader is the op that writes the
    // result, and reads it element by element.
    SmallVector<int64_t> reusable;
    for (OpOperand *input : op.getDpsInputOperands()) {
      auto arg = dyn_cast<BlockArgument>(input->get());
      if (!arg || arg.getType() != result.getType() ||
          op.getMatchingIndexingMap(input) != op.getMatchingIndexingMap(init) ||
          !op.getMatchingIndexingMap(input).isIdentity() ||
          getCaptures(op).contains(arg) || lastReader(members, arg) != position)
        continue;
      reusable.push_back(arg.getArgNumber());
    }
    bool isUpdate = updateInPlace && !reusable.empty();
    inPlace.push_back(isUpdate ? reusable.front() : -1);
    if (isUpdate)
      reusable.clear();
    reusesAny |= !reusable.empty();
    reuse.push_back(builder.getDenseI64ArrayAttr(reusable));
  }
  if (llvm::any_of(inPlace, [](int64_t argument) { return argument >= 0; }))
    kernel.setInPlace(inPlace);
  if (reusesAny)
    kernel.setReuseAttr(builder.getArrayAttr(reuse));
}

/// The values that the kernel of a group is given, makes for others, and is
/// initialised with.
static KernelValues collectValues(const Group &group, bool updateInPlace) {
  KernelValues values;
  // The runtime calls the optimizer's kernel: its arguments are the function's.
  if (updateInPlace)
    for (Value argument : group.ops.front()->getBlock()->getArguments())
      values.inputs.insert(argument);
  std::function<void(Value)> addInput = [&](Value value) {
    Operation *def = value.getDefiningOp();
    if (group.contains(def))
      return;
    if (!isInitializer(def)) {
      values.inputs.insert(value);
      return;
    }
    // Sizes are taken from the kernel's own arguments, in cloneInitializers().
    if (auto fill = dyn_cast<linalg::FillOp>(def)) {
      addInput(fill.getInputs()[0]);
      addInput(fill.getOutputs()[0]);
    }
    values.initializers.insert(value);
  };
  for (linalg::GenericOp op : group.ops) {
    for (Value operand : op->getOperands())
      addInput(operand);
    for (Value capture : getCaptures(op))
      addInput(capture);
    for (Value result : op->getResults())
      if (llvm::any_of(result.getUsers(), [&](Operation *user) {
            // Uses in the bodies of members are captures, which never join.
            return !group.contains(user);
          }))
        values.outputs.insert(result);
  }
  return values;
}

/// Clones what initialises a kernel into its body, where the batch is the size
/// of an argument.
static LogicalResult cloneInitializers(OpBuilder &builder, Location loc,
                                       ArrayRef<Value> initializers,
                                       IRMapping &mapping) {
  Value batch;
  auto getBatch = [&]() -> Value {
    for (BlockArgument arg : builder.getBlock()->getArguments()) {
      auto tensor = dyn_cast<RankedTensorType>(arg.getType());
      if (!batch && tensor && tensor.getRank() && tensor.isDynamicDim(0))
        batch = tensor::DimOp::create(builder, loc, arg, 0);
    }
    return batch;
  };
  for (Value value : initializers) {
    Operation *def = value.getDefiningOp();
    auto empty = dyn_cast<tensor::EmptyOp>(def);
    if (!empty) {
      builder.clone(*def, mapping);
      continue;
    }
    SmallVector<Value> sizes;
    if (!empty.getDynamicSizes().empty()) {
      if (empty.getDynamicSizes().size() != 1 || !getBatch())
        return empty.emitOpError("has a dynamic size besides the batch");
      sizes.push_back(batch);
    }
    mapping.map(value,
                tensor::EmptyOp::create(builder, loc, empty.getType(), sizes)
                    .getResult());
  }
  return success();
}

/// The kernel of a group, in no module yet; fails if it cannot be initialised.
FailureOr<exec::KernelOp>
FormKernelsPass::buildKernel(const Group &group, const KernelValues &values,
                             bool updateInPlace) {
  Location loc = group.ops.front()->getLoc();
  auto type = FunctionType::get(
      &getContext(), TypeRange(ValueRange(values.inputs.getArrayRef())),
      TypeRange(ValueRange(values.outputs.getArrayRef())));
  OpBuilder builder(&getContext());
  auto kernel =
      exec::KernelOp::create(builder, loc, "kernel", type, group.domain.kind,
                             group.domain.parts, group.domain.perSample);
  Block *body = &kernel.getBody().front();
  builder.setInsertionPointToStart(body);

  IRMapping mapping;
  mapping.map(values.inputs.getArrayRef(), body->getArguments());
  if (failed(cloneInitializers(builder, loc, values.initializers.getArrayRef(),
                               mapping))) {
    kernel.erase();
    return failure();
  }
  SmallVector<linalg::GenericOp> members;
  for (linalg::GenericOp op : group.ops)
    members.push_back(cast<linalg::GenericOp>(builder.clone(*op, mapping)));
  SmallVector<Value> results;
  for (Value output : values.outputs)
    results.push_back(mapping.lookup(output));
  exec::YieldOp::create(builder, loc, results);
  setPlaces(kernel, members, updateInPlace);
  return kernel;
}

/// Puts a dispatch of the kernel in the place of the group's ops.
static void replaceByDispatch(const Groups &groups, const Group &group,
                              const KernelValues &values,
                              exec::KernelOp kernel) {
  Operation *firstUser = getFirstUser(groups, group, /*candidate=*/nullptr);
  OpBuilder builder(firstUser ? firstUser : group.ops.back()->getNextNode());
  auto call = exec::DispatchOp::create(
      builder, group.ops.front()->getLoc(),
      TypeRange(ValueRange(values.outputs.getArrayRef())), kernel.getSymName(),
      values.inputs.getArrayRef());
  for (unsigned i = 0; i < values.outputs.size(); ++i) {
    Value output = values.outputs[i];
    output.replaceUsesWithIf(call.getResult(i), [&](OpOperand &use) {
      return !group.contains(use.getOwner());
    });
  }
  for (linalg::GenericOp op : llvm::reverse(group.ops))
    op.erase();
}

/// The hash of a kernel's ops, whatever their operands.
static size_t hashBody(exec::KernelOp kernel) {
  llvm::hash_code hash(0);
  kernel.getBody().walk([&](Operation *op) {
    hash =
        llvm::hash_combine(hash, OperationEquivalence::computeHash(
                                     op, OperationEquivalence::ignoreHashValue,
                                     OperationEquivalence::ignoreHashValue,
                                     OperationEquivalence::IgnoreLocations));
  });
  return hash;
}

/// The kernel of the module from which this one differs in its name only; null
/// if there is none. This one takes names of others.
exec::KernelOp FormKernelsPass::findAlike(exec::KernelOp kernel, size_t hash) {
  auto [first, end] = known.equal_range(hash);
  for (auto it = first; it != end; ++it) {
    kernel.setSymNameAttr(it->second.getSymNameAttr());
    if (OperationEquivalence::isEquivalentTo(
            kernel, it->second, OperationEquivalence::IgnoreLocations))
      return it->second;
  }
  return nullptr;
}

LogicalResult FormKernelsPass::outline(const Groups &groups, const Group &group,
                                       bool updateInPlace) {
  KernelValues values = collectValues(group, updateInPlace);
  FailureOr<exec::KernelOp> kernel = buildKernel(group, values, updateInPlace);
  if (failed(kernel))
    return failure();
  size_t hash = hashBody(*kernel);
  exec::KernelOp called = findAlike(*kernel, hash);
  bool isNew = !called;
  if (isNew) {
    called = *kernel;
    called.setName(nameKernel(known.size(), group));
    known.emplace(hash, called);
    getOperation().push_back(called);
  } else {
    kernel->erase();
  }
  remark::analysis(group.ops.front()->getLoc(),
                   getRemarkOptions("Kernel", group.ops.front()))
      << remark::metric("Kernel", called.getSymName())
      << remark::metric("Ops", group.ops.size())
      << remark::metric("Arguments", values.inputs.size())
      << remark::metric("Results", values.outputs.size())
      << remark::metric("New", isNew);
  replaceByDispatch(groups, group, values, called);
  return success();
}
