//===- ClusterFile.cpp - Cluster files into modules -----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ClusterReader.h"
#include "Poplar/Import/Cluster.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace poplar;
using namespace poplar::cluster;
using namespace poplar::import;

/// "<place>: ", or nothing if the place is unknown.
static std::string describe(Location loc) {
  if (auto name = dyn_cast<NameLoc>(loc))
    return name.getName().str() + ": ";
  std::string place;
  if (auto file = dyn_cast<FileLineColLoc>(loc))
    llvm::raw_string_ostream(place)
        << file.getFilename().getValue() << ":" << file.getLine() << ":"
        << file.getColumn() << ": ";
  return place;
}

namespace {
/// Keeps the first error in one line, "<place>: <message>", and says nothing on
/// its own.
class FirstError {
public:
  explicit FirstError(MLIRContext &context)
      : handler(&context, [this](Diagnostic &diagnostic) {
          if (text.empty() &&
              diagnostic.getSeverity() == DiagnosticSeverity::Error)
            text = describe(diagnostic.getLocation()) + diagnostic.str();
          return success();
        }) {}

  std::string text;

private:
  ScopedDiagnosticHandler handler;
};
} // namespace

static bool isClusterOp(Operation &op) {
  return isa_and_present<ClusterDialect>(op.getDialect());
}

/// Objects open JSON; `{-#` and all else are MLIR's.
static bool isJSON(StringRef path, StringRef text) {
  StringRef start = text.ltrim();
  if (start.starts_with("{"))
    return !start.starts_with("{-#");
  return llvm::sys::path::extension(path).equals_insensitive(".json");
}

/// The ops of a file, not verified as a whole yet. Null on failure.
static OwningOpRef<ModuleOp> readFile(StringRef path, MLIRContext &context,
                                      std::string &error) {
  context.loadDialect<ClusterDialect>();
  std::string file = path.str();
  // The reader of JSON also knows what is no file and what is too long.
  std::unique_ptr<json::Document> document = json::Document::open(file, file);
  const std::string &text = document->getText();
  if (text.empty() || isJSON(path, text)) {
    OwningOpRef<ModuleOp> module =
        ModuleOp::create(NameLoc::get(StringAttr::get(&context, file)));
    if (!document->hasError())
      ClusterReader(*document, file, *module).read();
    error = document->getError();
    return document->hasError() ? nullptr : std::move(module);
  }
  FirstError first(context);
  // Profiles alone refer to types of another module: no verification here.
  ParserConfig config(&context, /*verifyAfterParse=*/false);
  OwningOpRef<ModuleOp> module =
      parseSourceString<ModuleOp>(text, config, file);
  if (!module)
    error = first.text;
  return module;
}

/// What a cluster says in MLIR that types recompute is a wish, as in JSON; what
/// a plan says was chosen.
static void fixRecompute(ModuleOp module) {
  bool isOfPlan = llvm::any_of(*module.getBody(), [](Operation &op) {
    return op.getName().getStringRef() == "zero.plan";
  });
  for (DeviceTypeOp type : module.getOps<DeviceTypeOp>())
    if (!isOfPlan && type.getRecompute() != RecomputePolicy::Keep)
      type.setFixedRecompute(true);
}

OwningOpRef<ModuleOp> poplar::importCluster(StringRef path,
                                            MLIRContext &context,
                                            std::string &error) {
  OwningOpRef<ModuleOp> module = readFile(path, context, error);
  if (!module)
    return {};
  fixRecompute(*module);
  for (Operation &op : llvm::make_early_inc_range(*module->getBody()))
    if (!isClusterOp(op))
      op.erase();
  if (module->getOps<NodeOp>().empty()) {
    error = path.str() + ": nodes: a cluster needs at least one node";
    return {};
  }
  FirstError first(context);
  if (failed(verify(*module))) {
    error = first.text;
    return {};
  }
  return module;
}

/// Moves the ops of `source` into `module`, at `place`, and back out if the
/// result does not verify.
static LogicalResult insertOps(ModuleOp source, ModuleOp module,
                               Block::iterator place, std::string &error) {
  // One set of names with the model's.
  for (auto symbol : source.getOps<SymbolOpInterface>())
    if (SymbolTable::lookupSymbolIn(module, symbol.getNameAttr())) {
      error = describe(symbol.getLoc()) + "the name '" +
              symbol.getName().str() + "' is taken in the module";
      return failure();
    }
  SmallVector<Operation *> inserted;
  for (Operation &op : llvm::make_early_inc_range(*source.getBody())) {
    op.moveBefore(module.getBody(), place);
    inserted.push_back(&op);
  }
  FirstError first(*module.getContext());
  if (succeeded(verify(module)))
    return success();
  error = first.text;
  for (Operation *op : inserted)
    op->erase();
  return failure();
}

LogicalResult poplar::applyClusterFile(ModuleOp module, StringRef path,
                                       std::string &error) {
  if (!module.getOps<NodeOp>().empty()) {
    error = path.str() + ": the module describes a cluster already";
    return failure();
  }
  OwningOpRef<ModuleOp> file = importCluster(path, *module.getContext(), error);
  if (!file)
    return failure();
  return insertOps(*file, module, module.getBody()->begin(), error);
}

/// The files that `path` stands for, in the order of their names.
static LogicalResult listProfiles(StringRef path,
                                  std::vector<std::string> &files,
                                  std::string &error) {
  if (!llvm::sys::fs::is_directory(path)) {
    files.push_back(path.str());
    return success();
  }
  std::error_code code;
  for (llvm::sys::fs::directory_iterator it(path, code), end;
       it != end && !code; it.increment(code))
    if (llvm::sys::path::extension(it->path()) == ".json")
      files.push_back(it->path());
  if (code)
    error = path.str() + ": " + code.message();
  else if (files.empty())
    error = path.str() + ": holds no profile (*.json)";
  llvm::sort(files);
  return success(error.empty());
}

/// Whether two links are between the same two nodes or inside the same one.
static bool serveSame(LinkOp a, LinkOp b) {
  auto ends = [](LinkOp link) {
    StringRef first = *link.getFirst();
    StringRef second = link.getSecond().value_or(first);
    return first < second ? std::pair(first, second) : std::pair(second, first);
  };
  if (a.isDefault() || b.isDefault())
    return a.getKind() == b.getKind() && a.isDefault() && b.isDefault();
  return ends(a) == ends(b);
}

LogicalResult poplar::applyProfiles(ModuleOp module, StringRef path,
                                    std::string &error) {
  error.clear();
  std::vector<std::string> files;
  if (failed(listProfiles(path, files, error)))
    return failure();
  OwningOpRef<ModuleOp> all = ModuleOp::create(module.getLoc());
  for (const std::string &file : files) {
    OwningOpRef<ModuleOp> profiles =
        readFile(file, *module.getContext(), error);
    if (!profiles)
      return failure();
    bool isEmpty = true;
    for (Operation &op : llvm::make_early_inc_range(*profiles->getBody()))
      if (isa<ProfileOp, LinkOp>(op)) {
        op.moveBefore(all->getBody(), all->getBody()->end());
        isEmpty = false;
      }
    if (isEmpty) {
      error = file + ": profiles: expected at least one profile";
      return failure();
    }
  }
  // Replaced links, each with the op that followed it.
  SmallVector<std::pair<LinkOp, Operation *>> replaced;
  for (LinkOp link : llvm::make_early_inc_range(module.getOps<LinkOp>()))
    if (llvm::any_of(all->getOps<LinkOp>(), [&](LinkOp measured) {
          return serveSame(link, measured);
        })) {
      replaced.emplace_back(link, link->getNextNode());
      link->remove();
    }
  // After the cluster that they measure.
  Block::iterator place = module.getBody()->begin();
  for (Operation &op : *module.getBody())
    if (isClusterOp(op))
      place = std::next(op.getIterator());
  LogicalResult inserted = insertOps(*all, module, place, error);
  for (auto [link, next] : llvm::reverse(replaced)) {
    if (succeeded(inserted))
      link->destroy();
    else
      module.getBody()->getOperations().insert(
          next ? next->getIterator() : module.getBody()->end(), link);
  }
  return inserted;
}
