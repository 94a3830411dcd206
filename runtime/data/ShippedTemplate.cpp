//===- ShippedTemplate.cpp - Chat templates of a model --------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/ShippedTemplate.h"
#include "support/Error.h"
#include "support/MappedFile.h"

#include <algorithm>
#include <filesystem>

using namespace poplar::runtime;
namespace fs = std::filesystem;

/// A token is a string, or an object with the string as its content.
static void addTokens(const json::Value &Config, jinja::Entries &Tokens) {
  for (const auto &[Key, Content] : Config.members()) {
    bool IsToken =
        Key.size() > 6 && Key.compare(Key.size() - 6, 6, "_token") == 0;
    const json::Value *Text = Content.kind() == json::Value::Object
                                  ? Content.find("content")
                                  : &Content;
    if (IsToken && Text && Text->kind() == json::Value::String)
      addMember(Tokens, Key, std::string(Text->asString()));
  }
}

/// Reads the member `chat_template`: a string, or a list of them with names.
static void readTemplates(const json::Value &Config, const std::string &Path,
                          ShippedTemplate &Result) {
  const json::Value *Member = Config.find("chat_template");
  if (!Member || Member->kind() == json::Value::Null)
    return;
  if (Member->kind() == json::Value::String) {
    Result.Source = std::string(Member->asString());
    return;
  }
  std::string Names;
  for (const json::Value &Each : Member->elements()) {
    std::string Name = Each.string("name", "");
    if (Name == "default")
      Result.Source = Each.string("template", "");
    if (Name == "tool_use")
      Result.ToolSource = Each.string("template", "");
    Names += (Names.empty() ? "" : ", ") + Name;
  }
  if (Result.Source.empty())
    fail("'", Path,
         "': chat_template is neither a string nor a list with the "
         "template 'default'",
         Names.empty() ? "" : "; it has " + Names,
         "; --chat-template names another");
}

ShippedTemplate ShippedTemplate::read(const std::string &TokenizerPath) {
  ShippedTemplate Result;
  std::error_code Code;
  fs::path Directory = fs::path(TokenizerPath).parent_path(),
           File = Directory / "chat_template.jinja",
           Tools = Directory / "additional_chat_templates" / "tool_use.jinja";
  if (fs::exists(File, Code)) {
    Result.Path = File;
    Result.Source = MappedFile(File).text();
    if (fs::exists(Tools, Code))
      Result.ToolSource = MappedFile(Tools).text();
  }
  for (const char *Name : {"special_tokens_map.json", "tokenizer_config.json",
                           "chat_template.json"}) {
    File = Directory / Name;
    if (!fs::exists(File, Code))
      continue;
    json::Value Config =
        json::parse(MappedFile(File).text(), "'" + File.string() + "'");
    addTokens(Config, Result.Tokens);
    if (!Result.Source.empty())
      continue;
    readTemplates(Config, File, Result);
    Result.Path = Result.Source.empty() ? "" : File.string();
  }
  return Result;
}

std::string ShippedTemplate::describe() const {
  jinja::Budget Limits;
  return fs::path(Path).filename().string() + "\n" + Source + "\n" +
         ToolSource + "\n" + jinja::JinjaValue(Tokens).toJSON({}, Limits);
}
