//===- PTX.cpp - PTX as C++ -----------------------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PTX.h"
#include "PTXInstructions.h"

#include <sstream>
#include <stdexcept>

using namespace poplar::emulated;

namespace {

/// What does not change what a kernel computes.
bool isHint(const std::string &line) {
  std::string word = line.substr(0, line.find_first_of(" \t"));
  return word == ".minnctapersm" || word == ".pragma";
}

/// .reqntid 32, 8, 1
bool readBlock(const std::string &line, PTXKernel &kernel) {
  bool isExact = line.compare(0, 9, ".reqntid ") == 0;
  if (!isExact && line.compare(0, 9, ".maxntid ") != 0)
    return false;
  std::array<int64_t, 3> block = {1, 1, 1};
  Words sizes = cut(line.substr(9), ',');
  for (size_t i = 0; i < sizes.size(); ++i)
    block.at(i) = std::stoll(sizes[i]);
  kernel.mostThreads = block[0] * block[1] * block[2];
  if (isExact)
    kernel.block = block;
  return true;
}

class Translation {
public:
  Translation(const std::string &text, PTXProgram &program)
      : input(text), program(program) {}

  void run();

private:
  void readGlobal(const std::string &line);
  void readKernel(const std::string &line);
  void readBody(PTXKernel &kernel);
  bool readDeclaration(const std::string &line, PTXKernel &kernel);
  std::string instruction(const std::string &line, const PTXKernel &kernel);

  std::istringstream input;
  PTXProgram &program;
  std::ostringstream out;
  PTXInstructions instructions;
  bool readLine(std::string &line) {
    ++lineNumber;
    return static_cast<bool>(std::getline(input, line));
  }
  int lineNumber = 0;
  /// Bytes of variables outside of kernels, which all of them share.
  int64_t sharedBytes = 0;
  /// Sizes of each variable, with what is in front for its alignment.
  std::map<std::string, int64_t> sharedSizes;
  /// Tables in global memory by their names in PTX.
  struct Table {
    std::string definition, entry;
  };
  std::map<std::string, Table> tables;
};

} // namespace

/// Says where what is not known is.
std::string Translation::instruction(const std::string &line,
                                     const PTXKernel &kernel) {
  try {
    instructions.line = lineNumber;
    return instructions.translate(line);
  } catch (const std::exception &error) {
    throw std::runtime_error(std::string(error.what()) + " in `" + line +
                             "` of " + kernel.name);
  }
}

/// .reg, .shared and .local, inside a kernel and outside.
bool Translation::readDeclaration(const std::string &line, PTXKernel &kernel) {
  std::istringstream words(line);
  std::string word, type;
  words >> word;
  if (word == ".reg") {
    std::string rest;
    words >> type >> rest;
    rest.pop_back();
    std::string cpp = typeOf(type.substr(1));
    size_t count = rest.find('<');
    if (count == std::string::npos) {
      out << "  " << cpp << " " << mangle(rest) << ";\n";
      return true;
    }
    std::string stem = mangle(rest.substr(0, count));
    int most = std::stoi(rest.substr(count + 1));
    for (int i = 0; i < most; ++i)
      out << (i ? ", " : "  " + cpp + " ") << stem << i;
    out << (most ? ";\n" : "");
    return true;
  }
  if (word != ".shared" && word != ".local")
    return false;
  // .shared .align 16 .b8 name[4608];
  std::string align, bytes, name;
  words >> align >> bytes >> type >> name;
  size_t bracket = name.find('[');
  int64_t size = std::stoll(name.substr(bracket + 1)), to = std::stoll(bytes);
  if (align != ".align" || type != ".b8" || to > 16)
    throw std::runtime_error("variable " + line);
  name = name.substr(0, bracket);
  if (word == ".local") {
    out << "  alignas(16) char depot[" << size << "];\n";
    instructions.variables[name] = "reinterpret_cast<uint64_t>(depot)";
    return true;
  }
  int64_t place = (kernel.sharedBytes + to - 1) / to * to;
  sharedSizes[name] = place + size - kernel.sharedBytes;
  kernel.sharedBytes = place + size;
  instructions.variables[name] =
      "reinterpret_cast<uint64_t>(poplar_test_shared() + " +
      std::to_string(place) + ")";
  return true;
}

void Translation::readBody(PTXKernel &kernel) {
  out.str("");
  out << "extern \"C\" void poplarKernel(void *const *args, int64_t "
         "sharedBytes) {\n  (void)args;\n  (void)sharedBytes;\n";
  for (std::string line; readLine(line);) {
    if (size_t comment = line.find("//"); comment != std::string::npos)
      line.resize(comment);
    line = trim(line);
    if (line.empty() || line == "{")
      continue;
    if (line == "}") {
      out << "}\n\n";
      return;
    }
    if (line[0] == '{' && line.back() == '}') {
      // Some instructions with a register of their own.
      out << "  {\n";
      for (const std::string &part : cut(line.substr(1, line.size() - 2), ';'))
        if (!part.empty() && !readDeclaration(part + ";", kernel))
          out << "  " << instruction(part + ";", kernel) << "\n";
      out << "  }\n";
      continue;
    }
    if (line[0] == '.') {
      if (!readDeclaration(line, kernel) && !readBlock(line, kernel) &&
          !isHint(line))
        throw std::runtime_error(line);
      continue;
    }
    if (line.back() == ':') {
      out << " " << mangle(line.substr(0, line.size() - 1)) << ":;\n";
      continue;
    }
    if (line.back() != ';')
      throw std::runtime_error(line);
    out << "  " << instruction(line, kernel) << "\n";
  }
  throw std::runtime_error("kernel " + kernel.name + " does not end");
}

void Translation::readKernel(const std::string &line) {
  PTXKernel kernel;
  size_t begin = line.find(".entry") + 7;
  kernel.name = line.substr(begin, line.find('(') - begin);
  instructions.parameters.clear();
  for (std::string next = line; next.find(')') == std::string::npos;) {
    if (!readLine(next))
      throw std::runtime_error("kernel " + kernel.name + " does not end");
    next = trim(next);
    if (next.compare(0, 6, ".param") != 0)
      continue;
    size_t space = next.find_last_of(" \t");
    std::string name = next.substr(space + 1);
    if (name.back() == ',')
      name.pop_back();
    int64_t words = 1;
    // .param .align 8 .b8 name[88]
    if (size_t bracket = name.find('['); bracket != std::string::npos) {
      int64_t bytes = std::stoll(name.substr(bracket + 1));
      if (next.compare(0, 16, ".param .align 8 ") != 0 || bytes % 8 != 0)
        throw std::runtime_error("parameter " + next);
      words = bytes / 8;
      name.resize(bracket);
    }
    instructions.parameters[name] = int(kernel.parameterWords.size());
    kernel.parameterWords.push_back(words);
  }
  instructions.parameterBytes = 8 * kernel.countParameterWords();
  auto outer = instructions.variables;
  kernel.sharedBytes = sharedBytes;
  instructions.waits = false;
  instructions.sites.clear();
  instructions.used.clear();
  instructions.granuleBytes = 16;
  readBody(kernel);
  std::string definitions, entries;
  for (const std::string &name : instructions.used) {
    if (auto found = sharedSizes.find(name); found != sharedSizes.end())
      kernel.namedSharedBytes += found->second;
    if (auto found = tables.find(name); found != tables.end()) {
      definitions += found->second.definition;
      entries += found->second.entry;
    }
  }
  kernel.source = definitions +
                  "extern \"C\" const PoplarTable poplarTables[] = {\n" +
                  entries + "    {nullptr, 0}};\n\n" + out.str();
  kernel.waits = instructions.waits;
  kernel.sites = instructions.sites;
  kernel.granuleBytes = instructions.granuleBytes;
  instructions.variables = outer;
  program.kernels.push_back(kernel);
}

void Translation::readGlobal(const std::string &line) {
  // .global .align 64 .b8 name[768] = {0, 1, ...};
  // .global .align 64 .b32 name[192] = {0,1065353216, ...};
  size_t bracket = line.find('[');
  size_t space = line.substr(0, bracket).rfind(' ');
  std::string type = space < line.size() ? line.substr(0, space) : "";
  type = type.substr(type.rfind(' ') + 1);
  if (bracket == std::string::npos || (type != ".b8" && type != ".b32"))
    throw std::runtime_error(line.substr(0, 60));
  bool isBytes = type == ".b8";
  std::string name = line.substr(space + 1, bracket - space - 1);
  std::string count = line.substr(bracket + 1, line.find(']') - bracket - 1);
  size_t equals = line.find('=');
  // Each kernel is compiled by itself, with tables of its own.
  if (equals == std::string::npos)
    throw std::runtime_error("a variable that kernels share, " + name);
  std::string element = isBytes ? "unsigned char " : "unsigned ";
  tables[name] = {"alignas(64) static " + element + mangle(name) + "[" + count +
                      "] " + line.substr(equals) + "\n",
                  "    {" + mangle(name) + ", sizeof " + mangle(name) + "},\n"};
  instructions.variables[name] =
      "(reinterpret_cast<uint64_t>(" + mangle(name) + ") + kDeviceBit)";
}

void Translation::run() {
  PTXKernel outer;
  for (std::string line; readLine(line);) {
    if (size_t comment = line.find("//"); comment != std::string::npos)
      line.resize(comment);
    line = trim(line);
    if (line.empty() || line.compare(0, 13, ".address_size") == 0)
      continue;
    if (line.compare(0, 9, ".version ") == 0) {
      size_t dot = line.find('.', 1);
      program.version = 10 * std::stoi(line.substr(9, dot - 9)) +
                        std::stoi(line.substr(dot + 1));
    } else if (line.compare(0, 8, ".target ") == 0) {
      program.chip = trim(line.substr(8));
    } else if (line.find(".entry ") != std::string::npos) {
      readKernel(line);
    } else if (line.compare(0, 7, ".shared") == 0) {
      readDeclaration(line, outer);
      sharedBytes = outer.sharedBytes;
    } else if (line.find(".global ") != std::string::npos) {
      readGlobal(line.substr(line.find(".global ")));
    } else {
      throw std::runtime_error(line.substr(0, 60));
    }
  }
}

std::string poplar::emulated::translatePTX(const std::string &text,
                                           PTXProgram &program) {
  try {
    Translation(text, program).run();
    return "";
  } catch (const std::exception &error) {
    return std::string("the emulation does not know ") + error.what();
  }
}
