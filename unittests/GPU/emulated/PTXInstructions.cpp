//===- PTXInstructions.cpp - An instruction of PTX as C++ -----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PTXInstructions.h"

#include <stdexcept>

using namespace poplar::emulated;

std::string poplar::emulated::trim(const std::string &text) {
  size_t first = text.find_first_not_of(" \t");
  if (first == std::string::npos)
    return "";
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

Words poplar::emulated::cut(const std::string &text, char at) {
  Words parts(1);
  int depth = 0;
  for (char c : text) {
    depth += (c == '{' || c == '[') - (c == '}' || c == ']');
    if (c == at && depth == 0)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  for (std::string &part : parts)
    part = trim(part);
  if (parts.size() == 1 && parts[0].empty())
    parts.clear();
  return parts;
}

std::string poplar::emulated::mangle(const std::string &name) {
  std::string result = "x_";
  for (char c : name)
    result += std::isalnum(static_cast<unsigned char>(c)) ? std::string(1, c)
              : c == '_'                                  ? "_"
              : c == '%'                                  ? ""
                                                          : "_S";
  return result;
}

std::string poplar::emulated::typeOf(const std::string &type) {
  static const std::map<std::string, std::string> types = {
      {"b8", "uint8_t"},   {"u8", "uint8_t"},   {"s8", "int8_t"},
      {"b16", "uint16_t"}, {"u16", "uint16_t"}, {"s16", "int16_t"},
      {"b32", "uint32_t"}, {"u32", "uint32_t"}, {"s32", "int32_t"},
      {"b64", "uint64_t"}, {"u64", "uint64_t"}, {"s64", "int64_t"},
      {"f16", "f16"},      {"bf16", "bf16"},    {"f32", "float"},
      {"f64", "double"},   {"pred", "bool"}};
  auto found = types.find(type);
  if (found == types.end())
    throw std::runtime_error("type ." + type);
  return found->second;
}

static bool isFloat(const std::string &type) {
  return type == "f32" || type == "f64" || type == "f16" || type == "bf16";
}
static bool isHalf(const std::string &type) {
  return type == "f16" || type == "bf16";
}
static bool isOne(const std::string &word,
                  std::initializer_list<const char *> list) {
  for (const char *other : list)
    if (word == other)
      return true;
  return false;
}

std::string PTXInstructions::value(const std::string &operand,
                                   const std::string &type) {
  std::string cpp = typeOf(type);
  if (operand.empty())
    throw std::runtime_error("a missing operand");
  if (operand.compare(0, 2, "0f") == 0)
    return "as<" + cpp + ">(uint32_t(0x" + operand.substr(2) + "u))";
  if (operand.compare(0, 2, "0d") == 0)
    return "as<" + cpp + ">(uint64_t(0x" + operand.substr(2) + "ull))";
  if (std::isdigit(static_cast<unsigned char>(operand[0])) || operand[0] == '-')
    // The least integer has no literal of its own.
    return "as<" + cpp + ">(int64_t(" +
           (operand == "-9223372036854775808" ? "INT64_MIN" : operand + "ll") +
           "))";
  static const std::map<std::string, std::string> specials = {
      {"%tid.x", "poplar_test_thread_id(0)"},
      {"%tid.y", "poplar_test_thread_id(1)"},
      {"%tid.z", "poplar_test_thread_id(2)"},
      {"%ctaid.x", "poplar_test_block_id(0)"},
      {"%ctaid.y", "poplar_test_block_id(1)"},
      {"%ctaid.z", "poplar_test_block_id(2)"},
      {"%laneid", "poplar_test_lane()"}};
  if (auto special = specials.find(operand); special != specials.end())
    return "as<" + cpp + ">(" + special->second + ")";
  if (operand[0] == '%')
    return "as<" + cpp + ">(" + mangle(operand) + ")";
  if (auto variable = variables.find(operand); variable != variables.end()) {
    used.insert(operand);
    return variable->second;
  }
  if (auto parameter = parameters.find(operand); parameter != parameters.end())
    return "reinterpret_cast<uint64_t>(args[" +
           std::to_string(parameter->second) + "])";
  throw std::runtime_error("operand " + operand);
}

std::string PTXInstructions::addSite(uint64_t granule) {
  granuleBytes = std::min(granuleBytes, granule);
  sites.push_back({line, text});
  // What remembers accesses has 16 bits for it.
  if (sites.size() > 0xFFFF)
    throw std::runtime_error("so many accesses to memory");
  return std::to_string(sites.size() - 1);
}

/// `kind` is that of the access, for the check for races.
std::string PTXInstructions::address(const std::string &space,
                                     const std::string &operand,
                                     const std::string &bytes,
                                     const std::string &kind) {
  std::string inner = operand.substr(1, operand.size() - 2), offset = "0";
  if (size_t plus = inner.find('+'); plus != std::string::npos) {
    offset = inner.substr(plus + 1);
    inner = inner.substr(0, plus);
  }
  std::string at = value(inner, "u64") + " + uint64_t(int64_t(" + offset + "))";
  std::string watched = bytes + ", AccessKind::" + kind + ", " +
                        std::to_string(sites.size() - 1) + ")";
  // One after the other.
  if (space == "param")
    return "inside(" + at + ", " + bytes +
           ", static_cast<const char *>(args[0]), " +
           std::to_string(parameterBytes) + ", \"param\")";
  if (space == "global")
    return "global(" + at + ", " + watched;
  if (space == "shared")
    return "shared(" + at + ", sharedBytes, " + watched;
  if (space == "local")
    return "inside(" + at + ", " + bytes + ", depot, sizeof(depot), \"local\")";
  throw std::runtime_error("address space " + space);
}

static uint64_t widthOf(const std::string &type) {
  return std::stoul(type.substr(type.find_first_of("123456789"))) / 8;
}

/// ld and st.
std::string PTXInstructions::access(const Words &opcode,
                                    const Words &operands) {
  bool loads = opcode[0] == "ld";
  std::string space = "generic", type = opcode.back();
  int count = 1;
  for (size_t i = 1; i + 1 < opcode.size(); ++i) {
    const std::string &word = opcode[i];
    if (isOne(word, {"global", "shared", "local", "param"}))
      space = word;
    else if (isOne(word, {"v2", "v4", "v8"}))
      count = word[1] - '0';
    else if (!isOne(word, {"nc", "relaxed", "weak", "volatile"}))
      throw std::runtime_error("modifier ." + word);
  }
  std::string cpp = typeOf(type), memory = operands[loads ? 1 : 0];
  std::string vector = operands[loads ? 0 : 1];
  Words elements = count == 1 ? Words{vector}
                              : cut(vector.substr(1, vector.size() - 2), ',');
  if (int(elements.size()) != count)
    throw std::runtime_error("a vector of another size");
  if (space == "global" || space == "shared")
    addSite(widthOf(type));
  std::string text =
      "{ char *at = const_cast<char *>(" +
      address(space, memory, std::to_string(count) + " * sizeof(" + cpp + ")",
              loads ? "Read" : "Write") +
      ");";
  for (int i = 0; i < count; ++i) {
    std::string place = "at + " + std::to_string(i) + " * sizeof(" + cpp + ")";
    // "_" takes what is not wanted.
    if (elements[i] == "_")
      continue;
    text += loads
                ? " " + assign(elements[i], "read<" + cpp + ">(" + place + ")")
                : " write<" + cpp + ">(" + place + ", " +
                      value(elements[i], type) + ");";
  }
  return text + " }";
}

std::string PTXInstructions::move(const Words &opcode, const Words &operands) {
  const std::string &type = opcode.back();
  const std::string &to = operands[0], &from = operands[1];
  if (to[0] == '{') { // apart
    Words parts = cut(to.substr(1, to.size() - 2), ',');
    std::string text;
    int width = std::stoi(type.substr(1)) / int(parts.size());
    for (size_t i = 0; i < parts.size(); ++i)
      if (parts[i] != "_")
        text += assign(parts[i], typeOf("b" + std::to_string(width)) + "(" +
                                     value(from, type) + " >> " +
                                     std::to_string(int(i) * width) + ")");
    return text;
  }
  if (from[0] == '{') { // together
    Words parts = cut(from.substr(1, from.size() - 2), ',');
    int width = std::stoi(type.substr(1)) / int(parts.size());
    std::string sum;
    for (size_t i = 0; i < parts.size(); ++i)
      sum += (i ? " | " : "") + typeOf(type) + "(" +
             value(parts[i], "b" + std::to_string(width)) + ") << " +
             std::to_string(int(i) * width);
    return assign(to, typeOf(type) + "(" + sum + ")");
  }
  return assign(to, value(from, type));
}

std::string PTXInstructions::convert(const Words &opcode,
                                     const Words &operands) {
  size_t n = opcode.size();
  std::string from = opcode[n - 1], to = opcode[n - 2], mode;
  for (size_t i = 1; i + 2 < n; ++i)
    if (isOne(opcode[i], {"rn", "rz", "rni", "rzi", "rmi", "rpi"}))
      mode = opcode[i];
    else
      throw std::runtime_error("modifier ." + opcode[i]);
  if (to == "bf16x2" || to == "f16x2") {
    std::string half = to.substr(0, to.size() - 2);
    auto part = [&](size_t i) {
      return "uint32_t(fromFloat<" + half + ">(" + value(operands[i], from) +
             ").data)";
    };
    return assign(operands[0], part(1) + " << 16 | " + part(2));
  }
  std::string x = value(operands[1], from), cpp = typeOf(to);
  if (!isFloat(from) && !isFloat(to))
    return assign(operands[0], cpp + "(" + x + ")");
  if (!isFloat(from))
    return assign(operands[0], isHalf(to)
                                   ? "fromFloat<" + cpp + ">(float(" + x + "))"
                                   : cpp + "(" + x + ")");
  if (isHalf(from))
    x = "toFloat(" + x + ")";
  static const std::map<std::string, std::string> roundings = {
      {"rni", "std::nearbyint"},
      {"rzi", "std::trunc"},
      {"rmi", "std::floor"},
      {"rpi", "std::ceil"}};
  if (auto rounding = roundings.find(mode); rounding != roundings.end())
    x = rounding->second + "(" + x + ")";
  if (!isFloat(to)) {
    if (!roundings.count(mode))
      throw std::runtime_error("a rounding to an integer");
    return assign(operands[0], "truncate<" + cpp + ">(" + x + ")");
  }
  if (mode == "rz")
    throw std::runtime_error("modifier .rz");
  return assign(operands[0], isHalf(to)
                                 ? "fromFloat<" + cpp + ">(float(" + x + "))"
                                 : cpp + "(" + x + ")");
}

std::string PTXInstructions::compare(const Words &opcode,
                                     const Words &operands) {
  if (opcode.size() != 3)
    throw std::runtime_error("a combined comparison");
  std::string type = opcode[2], how = opcode[1];
  std::string a = value(operands[1], type), b = value(operands[2], type);
  if (isHalf(type)) {
    a = "toFloat(" + a + ")";
    b = "toFloat(" + b + ")";
  }
  static const std::map<std::string, std::string> ordered = {
      {"eq", "=="}, {"ne", "!="}, {"lt", "<"},  {"le", "<="}, {"gt", ">"},
      {"ge", ">="}, {"lo", "<"},  {"ls", "<="}, {"hi", ">"},  {"hs", ">="}};
  // Comparisons of floats that end in u hold for NaN, too; others do not.
  std::string isNaN = "(" + a + " != " + a + " || " + b + " != " + b + ")";
  if (how == "nan")
    return assign(operands[0], isNaN);
  if (how == "num")
    return assign(operands[0], "!" + isNaN);
  if (isFloat(type) && how.size() == 3 && how[2] == 'u')
    return assign(operands[0], isNaN + " || " + a + " " +
                                   ordered.at(how.substr(0, 2)) + " " + b);
  std::string plain = a + " " + ordered.at(how) + " " + b;
  return assign(operands[0], isFloat(type) && how == "ne"
                                 ? "!" + isNaN + " && " + plain
                                 : plain);
}

std::string PTXInstructions::arithmetic(const Words &opcode,
                                        const Words &operands) {
  const std::string &name = opcode[0], &type = opcode.back();
  std::string cpp = typeOf(type);
  bool half = isHalf(type), nan = false, high = false, wide = false,
       flushed = false;
  for (size_t i = 1; i + 1 < opcode.size(); ++i) {
    nan |= opcode[i] == "NaN";
    high |= opcode[i] == "hi";
    wide |= opcode[i] == "wide";
    bool flushes = opcode[i] == "ftz" && name == "ex2";
    flushed |= flushes;
    if (!flushes &&
        !isOne(opcode[i], {"rn", "lo", "hi", "wide", "NaN", "approx", "full"}))
      throw std::runtime_error("modifier ." + opcode[i]);
  }
  auto x = [&](size_t i) {
    // The amount of a shift is a word of its own.
    if ((name == "shl" || name == "shr") && i == 2)
      return value(operands[i], "u32");
    std::string text = value(operands[i], type);
    return half ? "toFloat(" + text + ")" : text;
  };
  auto is = [&](const std::string &text) {
    return assign(operands[0], half ? "fromFloat<" + cpp + ">(" + text + ")"
                                    : cpp + "(" + text + ")");
  };
  auto binary = [&](const std::string &sign) {
    return is(x(1) + " " + sign + " " + x(2));
  };
  bool isInteger = !isFloat(type) && type != "pred";
  if (wide) {
    std::string twice = type[0] + std::to_string(2 * std::stoi(type.substr(1)));
    std::string product =
        typeOf(twice) + "(" + x(1) + ") * " + typeOf(twice) + "(" + x(2) + ")";
    if (name == "mad")
      product += " + " + value(operands[3], twice);
    return assign(operands[0], product);
  }
  // Integers wrap around.
  auto wrap = [&](const std::string &sign) {
    std::string plain = typeOf("u" + type.substr(1));
    return is(plain + "(" + plain + "(" + x(1) + ") " + sign + " " + plain +
              "(" + x(2) + "))");
  };
  if (name == "add" || name == "sub" || name == "mul") {
    if (high)
      return is("multiplyHigh<" + cpp + ">(" + x(1) + ", " + x(2) + ")");
    std::string sign = name == "add" ? "+" : name == "sub" ? "-" : "*";
    return isInteger ? wrap(sign) : binary(sign);
  }
  if (name == "mad" && isInteger) {
    std::string plain = typeOf("u" + type.substr(1));
    return is(plain + "(" + x(1) + ") * " + plain + "(" + x(2) + ") + " +
              plain + "(" + x(3) + ")");
  }
  if (name == "fma" || name == "mad")
    return half ? assign(operands[0], "fma(" + value(operands[1], type) + ", " +
                                          value(operands[2], type) + ", " +
                                          value(operands[3], type) + ")")
                : is("fma(" + x(1) + ", " + x(2) + ", " + x(3) + ")");
  if (name == "div")
    return binary("/");
  if (name == "rem")
    return binary("%");
  if (name == "and" || name == "or" || name == "xor")
    return binary(name == "and" ? "&" : name == "or" ? "|" : "^");
  if (name == "not")
    return is((type == "pred" ? "!" : "~") + x(1));
  if (name == "shl" || name == "shr")
    return is((name == "shl" ? "shiftLeft<" : "shiftRight<") + cpp + ">(" +
              x(1) + ", " + x(2) + ")");
  if (name == "min" || name == "max") {
    if (isInteger)
      return is(x(1) + (name == "min" ? " < " : " > ") + x(2) + " ? " + x(1) +
                " : " + x(2));
    return is((name == "min" ? "smaller(" : "larger(") + x(1) + ", " + x(2) +
              ", " + (nan ? "true" : "false") + ")");
  }
  if (name == "neg")
    return isInteger ? is("0 - " + x(1)) : is("-" + x(1));
  if (name == "abs")
    return is("std::abs(" + x(1) + ")");
  if (name == "sqrt")
    return is("std::sqrt(" + x(1) + ")");
  if (name == "rcp")
    return is("1 / " + x(1));
  if (name == "rsqrt")
    return is("1 / std::sqrt(" + x(1) + ")");
  if (name == "ex2")
    return is(flushed ? "flush(std::exp2(flush(" + x(1) + ")))"
                      : "std::exp2(" + x(1) + ")");
  if (name == "lg2")
    return is("std::log2(" + x(1) + ")");
  if (name == "bfe" && isOne(type, {"u32", "u64", "s32", "s64"}))
    return is("bitField<" + cpp + ">(" + x(1) + ", " +
              value(operands[2], "u32") + ", " + value(operands[3], "u32") +
              ")");
  if (name == "popc")
    return is("__builtin_popcountll(" + x(1) + ")");
  if (name == "prmt")
    return is("permute(" + x(1) + ", " + x(2) + ", " + x(3) + ")");
  if (name == "copysign")
    return is("std::copysign(" + x(2) + ", " + x(1) + ")");
  throw std::runtime_error("instruction " + name);
}

std::string PTXInstructions::together(const std::string &statement) const {
  return "{ poplar_test_come_to(" + std::to_string(line) + "); " + statement +
         " }";
}

/// Barriers, shuffles and votes.
std::string PTXInstructions::exchange(const Words &opcode,
                                      const Words &operands) {
  const std::string &name = opcode[0];
  waits = true;
  if (name == "bar" || name == "barrier") {
    if (opcode.size() > 2 && isOne("red", {opcode[1].c_str()}) &&
        opcode[2] == "or")
      return together(
          assign(operands[0],
                 "poplar_test_barrier_or(" + value(operands[2], "pred") + ")"));
    if (opcode[1] == "sync" && operands == Words{"0"})
      return together("poplar_test_barrier();");
    // A whole warp waits.
    if (opcode == Words{"bar", "warp", "sync"} &&
        (operands == Words{"-1"} || operands == Words{"0xFFFFFFFF"}))
      return "poplar_test_warp_barrier();";
  }
  // A whole warp votes.
  if (opcode == Words{"vote", "sync", "ballot", "b32"} &&
      (operands[2] == "-1" || operands[2] == "0xFFFFFFFF"))
    return assign(operands[0], "ballot(" + value(operands[1], "pred") + ")");
  if (name == "shfl" && opcode.back() == "b32") {
    Words targets = cut(operands[0], '|');
    std::string text =
        "{ bool valid; " +
        assign(targets[0], "shuffle('" + opcode[2].substr(0, 1) + "', " +
                               value(operands[1], "b32") + ", " +
                               value(operands[2], "b32") + ", " +
                               value(operands[3], "b32") + ", " +
                               value(operands[4], "b32") + ", valid)");
    if (targets.size() > 1)
      text += " " + assign(targets[1], "valid");
    return text + " }";
  }
  throw std::runtime_error("instruction " + name);
}

/// What is between braces.
static Words list(const std::string &operand, size_t count) {
  Words parts = cut(operand.substr(1, operand.size() - 2), ',');
  if (parts.size() != count)
    throw std::runtime_error("a list of another size");
  return parts;
}

std::string PTXInstructions::matrix(const Words &opcode,
                                    const Words &operands) {
  waits = true;
  if (opcode[0] == "ldmatrix") {
    bool transposed = opcode.size() == 8 && opcode[5] == "trans";
    if (opcode[1] != "sync" || opcode[2] != "aligned" || opcode[3] != "m8n8" ||
        opcode[4] != "x4" || (opcode.size() != 7 && !transposed) ||
        opcode[opcode.size() - 2] != "shared" || opcode.back() != "b16")
      throw std::runtime_error("a form of ldmatrix");
    std::string site = addSite(2);
    // Who reads is told when the lanes have met.
    std::string text = "{ uint32_t parts[4]; loadMatrices(" +
                       address("shared", operands[1], "16", "Address") + ", " +
                       (transposed ? "true" : "false") + ", parts, " + site +
                       ");";
    Words targets = list(operands[0], 4);
    for (size_t i = 0; i < 4; ++i)
      text += " " + assign(targets[i], "parts[" + std::to_string(i) + "]");
    return together(text + " }");
  }
  // mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
  if (opcode.size() != 10 || opcode[1] != "sync" || opcode[2] != "aligned" ||
      opcode[3] != "m16n8k16" || opcode[4] != "row" || opcode[5] != "col" ||
      opcode[6] != "f32" || !isHalf(opcode[7]) || opcode[8] != opcode[7] ||
      opcode[9] != "f32")
    throw std::runtime_error("a form of mma");
  std::string own, sums, text;
  for (const std::string &part : list(operands[1], 4))
    own += value(part, "b32") + ", ";
  for (const std::string &part : list(operands[2], 2))
    own += value(part, "b32") + ", ";
  for (const std::string &part : list(operands[3], 4))
    sums += value(part, "f32") + ", ";
  text = "{ const uint64_t own[6] = {" + own + "}; const float c[4] = {" +
         sums + "}; float d[4]; multiplyMatrices<" + typeOf(opcode[7]) +
         ">(own, c, d);";
  Words targets = list(operands[0], 4);
  for (size_t i = 0; i < 4; ++i)
    text += " " + assign(targets[i], "d[" + std::to_string(i) + "]");
  return together(text + " }");
}

/// cp.async and what goes with it.
std::string PTXInstructions::copyLater(const Words &opcode,
                                       const Words &operands) {
  // Who waits for copies shares memory, and so needs the threads as such.
  waits = true;
  if (opcode == Words{"cp", "async", "commit_group"})
    return "poplar_test_end_copies();";
  if (opcode == Words{"cp", "async", "wait_group"})
    return "poplar_test_wait_for_copies(" + operands.at(0) + ");";
  if (opcode != Words{"cp", "async", "cg", "shared", "global"} ||
      operands.size() != 4 || operands[2] != "16")
    throw std::runtime_error("a form of cp.async");
  // 0 of 16 bytes, or all; where it is none, nothing is read.
  std::string size = value(operands[3], "u32");
  std::string site = addSite(16);
  return "{ char *to = " + address("shared", operands[0], "16", "StartCopy") +
         "; poplar_test_copy_later(to, " + size +
         " == 0 ? nullptr : " + address("global", operands[1], "16", "Read") +
         ", 16, " + site + "); }";
}

std::string PTXInstructions::atomic(const Words &opcode,
                                    const Words &operands) {
  // Threads take turns, so that any change is atomic.
  bool returns = opcode[0] == "atom";
  size_t first = returns;
  std::string space = "generic", how, type = opcode.back();
  for (size_t i = 1; i + 1 < opcode.size(); ++i)
    if (isOne(opcode[i], {"global", "shared"}))
      space = opcode[i];
    else if (isOne(opcode[i], {"or", "and", "exch"}))
      how = opcode[i];
    else if (!isOne(opcode[i], {"relaxed", "gpu", "sys", "cta"}))
      throw std::runtime_error("modifier ." + opcode[i]);
  if (isFloat(type) || how.empty())
    throw std::runtime_error("a form of " + opcode[0]);
  addSite(widthOf(type));
  std::string cpp = typeOf(type), given = value(operands.at(first + 1), type);
  std::string text =
      "{ char *at = " +
      address(space, operands.at(first), "sizeof(" + cpp + ")", "Atomic") +
      "; " + cpp + " old = read<" + cpp + ">(at); write<" + cpp + ">(at, " +
      (how == "exch"
           ? given
           : "old " + std::string(how == "or" ? "|" : "&") + " " + given) +
      ");";
  if (returns && operands[0] != "_")
    text += " " + assign(operands[0], "old");
  return text + " }";
}

std::string PTXInstructions::operation(const Words &opcode,
                                       const Words &operands) {
  const std::string name = opcode[0];
  if (name == "ret" || name == "exit")
    return "return;";
  if (name == "bra")
    return "goto " + mangle(operands.at(0)) + ";";
  if (name == "mov")
    return move(opcode, operands);
  if (name == "cvta")
    return assign(operands[0], value(operands[1], "u64"));
  if (name == "cvt")
    return convert(opcode, operands);
  if (name == "setp")
    return compare(opcode, operands);
  if (name == "selp")
    return assign(operands[0], value(operands[3], "pred") + " ? " +
                                   value(operands[1], opcode[1]) + " : " +
                                   value(operands[2], opcode[1]));
  if (name == "ld" || name == "st")
    return access(opcode, operands);
  if (isOne(name, {"bar", "barrier", "shfl", "vote"}))
    return exchange(opcode, operands);
  if (name == "mma" || name == "ldmatrix")
    return matrix(opcode, operands);
  if (name == "atom" || name == "red")
    return atomic(opcode, operands);
  if (name == "cp")
    return copyLater(opcode, operands);
  return arithmetic(opcode, operands);
}

std::string PTXInstructions::translate(const std::string &line) {
  text = line;
  std::string rest = line.substr(0, line.size() - 1), guard;
  if (rest[0] == '@') {
    size_t space = rest.find_first_of(" \t");
    bool negated = rest[1] == '!';
    guard = std::string("if (") + (negated ? "!" : "") +
            mangle(rest.substr(negated ? 2 : 1, space - (negated ? 2 : 1))) +
            ") ";
    rest = trim(rest.substr(space));
  }
  size_t space = rest.find_first_of(" \t");
  Words opcode = cut(rest.substr(0, space), '.');
  Words operands =
      space == std::string::npos ? Words() : cut(rest.substr(space), ',');
  return guard + operation(opcode, operands);
}
