//===- EmbeddingRows.cpp - Rows for new tokens ----------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "EmbeddingRows.h"
#include "ModelDirectory.h"
#include "NewRows.h"
#include "Poplar/Support/JSON.h"
#include "Poplar/Support/JSONEdit.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include <algorithm>
#include <deque>
#include <memory>

using namespace poplar;
namespace fs = llvm::sys::fs;
using json::Edit;

static constexpr const char *kWeights = "model.safetensors";
static constexpr const char *kIndex = "model.safetensors.index.json";
static constexpr size_t kLengthBytes = 8, kLargestHeader = 100 << 20;

namespace {
/// A tensor of a file.
struct StoredTensor {
  std::string name, type;
  std::vector<int64_t> shape;
  llvm::StringRef bytes;
};

/// A file of weights, and what it is to be.
class WeightFile {
public:
  WeightFile(const std::string &directory, const std::string &name)
      : name(name), path(joinPath(directory, name)) {}

  /// False with the error set if the file is none of safetensors.
  bool read(std::string &error);
  /// Whether the file changes; nothing with an error set if it cannot.
  std::optional<bool> change(const RowRequest &request, std::string &error);
  bool write(const std::string &output, std::string &error) const;

  const std::string name;
  /// Bytes that the tensors have more than before.
  int64_t growth = 0;
  /// The name of the head that the file has got; empty if it has got none.
  std::string newHead;

private:
  /// A tensor as it is to be written: old bytes, then new ones.
  struct Written {
    StoredTensor tensor;
    std::string more;
  };
  bool addRows(StoredTensor &tensor, const TokenTensor &what, uint64_t key,
               const RowRequest &request, std::string &more,
               std::string &error) const;
  std::string makeHeader() const;

  std::string path, fingerprint;
  std::unique_ptr<llvm::MemoryBuffer> buffer;
  std::vector<StoredTensor> tensors;
  std::vector<Written> written;
};
} // namespace

bool WeightFile::read(std::string &error) {
  fs::file_status status;
  if (std::error_code code = fs::status(path, status)) {
    error = path + ": " + code.message();
    return false;
  }
  fingerprint =
      std::to_string(status.getSize()) + " " +
      std::to_string(
          status.getLastModificationTime().time_since_epoch().count());
  auto file = llvm::MemoryBuffer::getFile(path, /*IsText=*/false,
                                          /*RequiresNullTerminator=*/false);
  if (!file) {
    error = path + ": " + file.getError().message();
    return false;
  }
  buffer = std::move(*file);
  llvm::StringRef data = buffer->getBuffer();
  uint64_t length = data.size() < kLengthBytes
                        ? 0
                        : llvm::support::endian::read64le(data.data());
  if (length == 0 || length > kLargestHeader ||
      length > data.size() - kLengthBytes) {
    error = path + ": is no file of safetensors";
    return false;
  }
  llvm::StringRef values = data.drop_front(kLengthBytes + length);
  auto document =
      json::Document::parse(data.substr(kLengthBytes, length).str(), path);
  json::Value root = document->getRoot();
  for (const std::string &key :
       root.isObject() ? root.keys() : std::vector<std::string>()) {
    if (key == "__metadata__")
      continue;
    json::Value entry = root[key], shape = entry["shape"],
                offsets = entry["data_offsets"];
    StoredTensor tensor = {key, entry["dtype"].getString(), {}, {}};
    for (size_t i = 0; i < shape.size(); ++i)
      tensor.shape.push_back(shape[i].getInteger(0));
    auto size = static_cast<int64_t>(values.size());
    int64_t begin = offsets[0].getInteger(0, size),
            end = offsets[1].getInteger(begin, size);
    tensor.bytes = values.slice(begin, end);
    tensors.push_back(std::move(tensor));
  }
  // As in the file, so that it is read once from its beginning to its end.
  std::sort(tensors.begin(), tensors.end(), [](const auto &a, const auto &b) {
    return std::pair(a.bytes.data(), a.name) <
           std::pair(b.bytes.data(), b.name);
  });
  error = document->getError();
  return !document->hasError();
}

/// Whether a tensor of a file is what the model of text calls `name`. A model
/// without a head has no first component, and one that reads pictures has its
/// model of text under language_model.
static bool isCalled(llvm::StringRef stored, llvm::StringRef name) {
  static constexpr llvm::StringRef kText = "language_model.";
  std::string plain = stored.str();
  if (size_t at = plain.find(kText.data());
      at == 0 || stored.starts_with("model.language_model."))
    plain.erase(at, kText.size());
  return plain == name || name.split('.').second == plain;
}

bool WeightFile::addRows(StoredTensor &tensor, const TokenTensor &what,
                         uint64_t key, const RowRequest &request,
                         std::string &more, std::string &error) const {
  RowFormat format;
  if (!findRowFormat(tensor.type, format)) {
    error = path + ": tensor '" + tensor.name + "' is of type " + tensor.type +
            "; F32, BF16 and F16 can get rows";
    return false;
  }
  int64_t columns = 1;
  for (size_t i = 1; i < tensor.shape.size(); ++i)
    columns *= tensor.shape[i];
  if (tensor.shape.empty() || tensor.shape[0] != request.oldRows ||
      static_cast<int64_t>(tensor.bytes.size()) !=
          request.oldRows * columns * getBytes(format)) {
    error = path + ": tensor '" + tensor.name + "' has no " +
            std::to_string(request.oldRows) +
            " rows, which is the vocab_size of config.json";
    return false;
  }
  NewRows rows = {format, request.oldRows, columns,
                  request.newRows - request.oldRows, key};
  more = request.rows == TokenChanges::NearMean
             ? drawNearMean(rows, tensor.bytes)
             : drawRandom(rows, what.stdDev);
  tensor.shape[0] = request.newRows;
  return true;
}

std::optional<bool> WeightFile::change(const RowRequest &request,
                                       std::string &error) {
  const WeightChanges &weights = request.weights;
  const TokenTensor &head = weights.tiedHead;
  bool hasChanged = false;
  for (const StoredTensor &tensor : tensors) {
    Written next = {tensor, ""};
    // A tied head may be stored, too, and is a copy of the embedding.
    bool isCopy = !head.name.empty() && isCalled(tensor.name, head.name);
    size_t number = 0;
    while (number < weights.tensors.size() &&
           !isCalled(tensor.name, weights.tensors[number].name))
      ++number;
    if (isCopy)
      number = 0;
    if (number == weights.tensors.size()) {
      written.push_back(std::move(next));
      continue;
    }
    if (isCopy && weights.unties)
      continue;
    if (request.newRows > request.oldRows) {
      hasChanged = true;
      if (!addRows(next.tensor, weights.tensors[number],
                   request.seed + (number << 32), request, next.more, error))
        return std::nullopt;
    }
    written.push_back(next);
    if (number == 0 && !isCopy && weights.unties) {
      hasChanged = true;
      newHead = llvm::StringRef(tensor.name).starts_with("language_model.")
                    ? "language_model." + head.name
                    : head.name;
      next.tensor.name = newHead;
      written.push_back(std::move(next));
    }
  }
  for (const Written &each : written)
    growth += static_cast<int64_t>(each.tensor.bytes.size() + each.more.size());
  for (const StoredTensor &tensor : tensors)
    growth -= static_cast<int64_t>(tensor.bytes.size());
  // Weights are drawn of the same numbers, whatever else the request has.
  fingerprint += " " + std::to_string(request.seed) +
                 (request.rows == TokenChanges::NearMean ? " mean" : " random");
  return hasChanged;
}

std::string WeightFile::makeHeader() const {
  std::string text = R"({"__metadata__":{"format":"pt","made_from":)" +
                     json::quote(path + " " + fingerprint) + "}";
  size_t offset = 0;
  for (const Written &each : written) {
    size_t end = offset + each.tensor.bytes.size() + each.more.size();
    text += "," + json::quote(each.tensor.name) + R"(:{"dtype":)" +
            json::quote(each.tensor.type) + R"(,"shape":[)" +
            llvm::join(llvm::map_range(
                           each.tensor.shape,
                           [](int64_t size) { return std::to_string(size); }),
                       ",") +
            R"(],"data_offsets":[)" + std::to_string(offset) + "," +
            std::to_string(end) + "]}";
    offset = end;
  }
  text += "}";
  // Data begin at a multiple of 8 bytes.
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

/// Whether a file has a beginning and a size.
static bool isAlreadyThere(const std::string &path, llvm::StringRef beginning,
                           uint64_t size) {
  uint64_t found = 0;
  if (fs::file_size(path, found) || found != size)
    return false;
  auto file =
      llvm::MemoryBuffer::getFileSlice(path, beginning.size(), /*Offset=*/0);
  return file && (*file)->getBuffer() == beginning;
}

bool WeightFile::write(const std::string &output, std::string &error) const {
  std::string target = joinPath(output, name), part = target + ".part",
              header = makeHeader(), length(kLengthBytes, '\0');
  llvm::support::endian::write64le(length.data(), header.size());
  uint64_t size = length.size() + header.size();
  for (const Written &each : written)
    size += each.tensor.bytes.size() + each.more.size();
  if (isAlreadyThere(target, length + header, size))
    return true;
  std::error_code code;
  {
    llvm::raw_fd_ostream file(part, code);
    if (!code) {
      file << length << header;
      for (const Written &each : written)
        file << each.tensor.bytes << each.more;
      file.close();
      code = file.error();
      file.clear_error();
    }
  }
  if (!code) {
    fs::remove(target);
    code = fs::rename(part, target);
  }
  if (code) {
    fs::remove(part);
    error = target + ": " + code.message();
  }
  return !code;
}

/// The files that the index of a model lists, or the only one. Empty with the
/// error set if there is none.
static std::set<std::string> listFiles(const std::string &directory,
                                       std::string &error) {
  if (fs::exists(joinPath(directory, kWeights)))
    return {kWeights};
  std::string path = joinPath(directory, kIndex);
  if (!fs::exists(path)) {
    error = directory +
            ": has no model.safetensors whose embedding could get rows; "
            "save_pretrained of transformers 4.35 or later writes it";
    return {};
  }
  auto document = json::Document::open(path, path);
  json::Value map = document->getRoot()["weight_map"];
  std::set<std::string> names;
  for (const std::string &tensor : map.keys()) {
    std::string name = map[tensor].getString();
    if (name.empty() || name.find('/') != std::string::npos)
      map[tensor].error("expected the name of a file beside the index");
    names.insert(name);
  }
  if (names.empty())
    map.error("names no file");
  error = document->getError();
  return document->hasError() ? std::set<std::string>() : names;
}

/// The index of a model whose tensors have `growth` more bytes, with a head in
/// `file` if that is not empty.
static bool writeIndex(const std::string &directory, int64_t growth,
                       const std::string &head, const std::string &file,
                       const std::string &output, std::string &error) {
  std::string path = joinPath(directory, kIndex);
  auto document = json::Document::open(path, path);
  std::vector<Edit> edits;
  if (json::Value size = document->getRoot()["metadata"]["total_size"];
      size.isNumber())
    edits.push_back({Edit::Set, "/metadata/total_size",
                     std::to_string(size.getInteger() + growth)});
  if (!head.empty())
    edits.push_back({Edit::Set, "/weight_map/" + head, json::quote(file)});
  std::string text = json::edit(document->getText(), path, edits, error);
  if (text.empty())
    return false;
  std::error_code code;
  std::string target = joinPath(output, kIndex);
  fs::remove(target);
  llvm::raw_fd_ostream stream(target, code);
  stream << text;
  stream.close();
  if (!code)
    code = stream.error();
  stream.clear_error();
  if (code)
    error = target + ": " + code.message();
  return !code;
}

bool poplar::writeWeights(const std::string &directory,
                          const RowRequest &request, const std::string &output,
                          std::set<std::string> &written, std::string &error) {
  std::set<std::string> names = listFiles(directory, error);
  if (names.empty())
    return false;
  // Nothing is written before all is known to be sound.
  std::deque<WeightFile> files;
  for (const std::string &name : names) {
    WeightFile &file = files.emplace_back(directory, name);
    if (!file.read(error))
      return false;
    std::optional<bool> changes = file.change(request, error);
    if (!changes)
      return false;
    if (!*changes)
      files.pop_back();
  }
  if (files.empty()) {
    error = directory + ": no file of weights has a tensor '" +
            request.weights.tensors.front().name + "'";
    return false;
  }
  if (std::error_code code = fs::create_directories(output)) {
    error = output + ": " + code.message();
    return false;
  }
  int64_t growth = 0;
  std::string head, headFile;
  for (const WeightFile &file : files) {
    if (!file.write(output, error))
      return false;
    written.insert(file.name);
    growth += file.growth;
    if (!file.newHead.empty()) {
      head = file.newHead;
      headFile = file.name;
    }
  }
  if (names.count(kWeights))
    return true;
  written.insert(kIndex);
  return writeIndex(directory, growth, head, headFile, output, error);
}
