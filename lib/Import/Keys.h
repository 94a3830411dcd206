//===- Keys.h - Which keys of a config.json are known -----------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A configuration is read whole or refused. Every family has a closed table of
// keys; a key that is not in it may change what the model computes, and is an
// error.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_IMPORT_KEYS_H
#define POPLAR_LIB_IMPORT_KEYS_H

#include "Poplar/Support/JSON.h"
#include "llvm/ADT/ArrayRef.h"
#include <string>
#include <vector>

namespace poplar::import {

/// What is known of one key.
struct Key {
  enum Role {
    /// Read; decides what the model computes.
    Function,
    /// Read; decides how the model starts or is trained: dropout, deviations.
    Training,
    /// Not read: the model is what the importer builds only with one of the
    /// `allowed` values.
    Fixed,
    /// Not read; changes nothing, whatever its value.
    Harmless,
  };
  std::string name;
  Role role;
  /// JSON spellings, of a Fixed key.
  std::vector<std::string> allowed;
  /// Another name of the same key; empty if there is none.
  std::string alias;
  /// Whether a key that is read may be null.
  bool nullable = false;
  /// Keys of the object that this key holds; empty if it holds none.
  llvm::ArrayRef<Key> members;

  Key orNull() const {
    Key key = *this;
    key.nullable = true;
    return key;
  }
  Key orCalled(const char *other) const {
    Key key = *this;
    key.alias = other;
    return key;
  }
};

inline Key function(const char *name) { return {name, Key::Function, {}, ""}; }
inline Key training(const char *name) { return {name, Key::Training, {}, ""}; }
inline Key fixed(const char *name, std::vector<std::string> allowed) {
  return {name, Key::Fixed, std::move(allowed), ""};
}
inline Key harmless(const char *name) { return {name, Key::Harmless, {}, ""}; }

/// Keys that change nothing in any family: names, types of elements,
/// generation, heads for classification.
llvm::ArrayRef<Key> getCommonKeys();

/// The entry for a key, or for its alias; null if there is none.
const Key *findKey(llvm::ArrayRef<Key> table, const std::string &name);

/// Records an error in the document unless every member of `object` is in one
/// of the tables and its value is allowed there.
void checkKeys(json::Value object, llvm::ArrayRef<llvm::ArrayRef<Key>> tables,
               const std::string &family);

/// Names of all keys of the tables, with aliases and members (`rope.factor`).
std::vector<std::string> listKeys(llvm::ArrayRef<llvm::ArrayRef<Key>> tables);

} // namespace poplar::import

#endif // POPLAR_LIB_IMPORT_KEYS_H
