//===- JinjaTest.cpp - The language of chat templates ---------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "template/Jinja.h"
#include "support/Error.h"

#include <gtest/gtest.h>

using namespace poplar::runtime;

namespace {

/// What a template writes of a few variables, or '!' and the error.
std::string render(const std::string &Source) {
  try {
    json::Value Variables = json::parse(R"({"messages": [
      {"role": "user", "content": "q"}, {"role": "assistant", "content": "b"}],
      "d": {"b": 1, "a": [true, null, 2.5], "c": "\u00e9\"'<"},
      "n": null, "l": [3, 1, 2], "s": " a b \n"})",
                                        "text");
    return jinja::Template(Source)
        .render(jinja::JinjaValue::fromJSON(Variables).members(), 0)
        .Text;
  } catch (const Error &E) {
    return std::string("!") + E.what();
  }
}

struct Case {
  const char *Source, *Expected;
};

// Texts without '!' are those of Jinja with the settings of transformers.
const Case Expressions[] = {
    {"{{ 1 + 2 * 3 - 7 // 2 % 2 }} {{ 7 / 2 }} {{ 2 ** 3 }} {{ -7 // 2 }}",
     "6 3.5 8 -4"},
    {"{{ 'a' ~ 1 ~ none ~ true }}{{ 'ab' * 2 }}{{ [1] + [2] }}",
     "a1NoneTrueabab[1, 2]"},
    {"{{ 1 < 2 < 3 }} {{ 1 in l }} {{ 'b' not in d }} {{ not l }}",
     "True True False False"},
    {"{{ l[0] }}{{ l[-1] }}{{ l[1:] }}{{ s[::-1] }}{{ l[9] }}{{ d.c[0] }}",
     "32[1, 2]\n b a \xC3\xA9"},
    {"{{ d }}", "{'b': 1, 'a': [True, None, 2.5], 'c': 'é\"\\'<'}"},
    {"{{ (1, 'a') }}{{ () }}{{ (1,) }}{{ {1: 2}[1] }}", "(1, 'a')()(1,)2"},
    {"{{ 'x' if n }}{{ 'y' if l else 'z' }}{{ x.y if x is defined }}", "y"},
    {"{{ x }}{{ x | default('a') }}{{ n | default('b', true) }}", "ab"},
    {"{{ 'a' 'b' }}{{ \"\\u00e9\\n\" }}", "abé\n"},
    {"{{ x.y }}", "!line 1: 'x' is undefined"},
    {"\n{{ 1 / 0 }}", "!line 2: a division by zero"},
    {"{{ l + 1 }}", "!line 1: '+' of a list and a integer is not supported"},
    {"{{ 9223372036854775807 + 1 }}",
     "!line 1: '+' of 9223372036854775807 and 1 has more than 64 bits"},
};

const Case Statements[] = {
    // trim_blocks and lstrip_blocks.
    {"  {% if l %}\n  a\n  {% endif %}\nb\n", "  a\nb"},
    {"a  {%- if l -%}  b  {%- endif +%}\n c", "ab\n c"},
    {"{# a\n#}\n{% raw %}{{ x }}{% endraw %}", "{{ x }}"},
    {"{% for x in l if x > 1 %}{{ loop.index }}{{ x }}{{ loop.last }} "
     "{% else %}none{% endfor %}",
     "13False 22True "},
    {"{% for k, v in d.items() %}{{ k }}{% break %}{% endfor %}", "b"},
    {"{% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}"
     "{{ loop.previtem }}{{ loop.nextitem }};{% endfor %}",
     "31;21;"},
    {"{% set y = 1 %}{% for x in l %}{% set y = x %}{% endfor %}{{ y }}", "1"},
    {"{% set n = namespace(y=1) %}{% for x in l %}{% set n.y = x %}"
     "{% endfor %}{{ n.y }}",
     "2"},
    {"{% set x | upper %}a{% endset %}{{ x }}{% set a, b = 1, 2 %}{{ b }}",
     "A2"},
    {"{% macro f(a, b='x') %}{{ a }}{{ b }}{{ caller and caller(1) }}"
     "{% endmacro %}{{ f(1) }}{{ f(b=2, a=3) }}"
     "{% call(z) f(4) %}<{{ z }}>{% endcall %}",
     "1x324x<1>"},
    {"{% filter upper | trim %} a {% endfilter %}", "A"},
    {"{% with a = 1 %}{{ a }}{% endwith %}{{ a }}", "1"},
    {"{% set args = [1, 2] %}{{ range(*args) | list }}"
     "{{ dict(**{'a': 1}) }}",
     "[1]{'a': 1}"},
    {"{{ raise_exception('no ' ~ 1) }}", "!line 1: the template says: no 1"},
    {"{% include 'x' %}", "!line 1: {% include %} is not supported here"},
    {"{% if l %}", "!line 1: the block has no {% endif %}"},
    {"{% for x in n %}{% endfor %}", "!line 1: a none has no elements"},
    {"a\n{{ 'x }}", "!line 2: a string does not end"},
};

const Case Calls[] = {
    {"{{ d | tojson }}",
     "{\"b\": 1, \"a\": [true, null, 2.5], \"c\": \"é\\\"'<\"}"},
    {"{{ d.a | tojson(indent=1) }}", "[\n true,\n null,\n 2.5\n]"},
    {"{{ d.c | tojson(ensure_ascii=true) }}"
     "{{ {'b': 1, 'a': 2} | tojson(separators=(',', ':'), sort_keys=true) }}",
     "\"\\u00e9\\\"'<\"{\"a\":2,\"b\":1}"},
    {"{{ s | trim }}{{ s.split() }}{{ 'a,b,c'.rsplit(',', 1) }}",
     "a b['a', 'b']['a,b', 'c']"},
    {"{{ 'xaxa'.replace('a', 'b', 1) }}{{ 'é'.upper() }}{{ 'ab cd'.title() }}",
     "xbxaÉAb Cd"},
    {"{{ 'abc'.startswith(('x', 'ab')) }}{{ 'abc'.find('c') }}"
     "{{ 'a-b'.partition('-') }}",
     "True2('a', '-', 'b')"},
    {"{{ l | sort }}{{ l | sort(reverse=true) | first }}{{ l | max }}"
     "{{ l | sum }}{{ l | join('-') }}",
     "[1, 2, 3]3363-1-2"},
    {"{{ messages | map(attribute='role') | list }}"
     "{{ messages | selectattr('role', 'equalto', 'user') | list | length }}"
     "{{ messages | rejectattr('role', 'in', ['user']) | first }}",
     "['user', 'assistant']1{'role': 'assistant', 'content': 'b'}"},
    {"{{ ['b', 'A', 'b'] | unique | list }}{{ d | dictsort | first }}"
     "{{ d | items | list | length }}",
     "['b', 'A']('a', [True, None, 2.5])3"},
    {"{{ 'a\nb' | indent(2) }}{{ '3.7' | int }}{{ '4' | float }}",
     "a\n  b34.0"},
    // A generator is read once, and is true.
    {"{% set g = l | select('gt', 9) %}{{ 'yes' if g }}{{ g | list }}",
     "yes[]"},
    {"{% set g = l | map('string') %}{{ g | list }}{{ g | list }}",
     "['3', '1', '2'][]"},
    {"{{ l | map('string') | tojson }}",
     "!line 1: a iterator cannot be written as JSON"},
    // Markup.
    {"{{ '<' | safe + '<' }}{{ '<' | safe ~ '<' }}{{ '<' | e }}",
     "<&lt;<<&lt;"},
    {"{{ d is mapping }}{{ l is sequence }}{{ n is none }}{{ 1 is number }}"
     "{{ x is undefined }}{{ true is boolean }}{{ 'a' is string }}",
     "TrueTrueTrueTrueTrueTrueTrue"},
    {"{{ 4 is even }}{{ 3 is divisibleby 3 }}{{ d is iterable }}",
     "TrueTrueTrue"},
    {"{{ l.append(1) }}", "!line 1: 'list.append' is undefined"},
    {"{{ 1 | nothing }}", "!line 1: the filter 'nothing' is not supported"},
    {"{{ 1 is nothing }}", "!line 1: the test 'nothing' is not supported"},
};

TEST(Jinja, WritesWhatJinjaDoes) {
  for (const auto &[Source, Expected] : Expressions)
    EXPECT_EQ(render(Source), Expected) << Source;
  for (const auto &[Source, Expected] : Statements)
    EXPECT_EQ(render(Source), Expected) << Source;
  for (const auto &[Source, Expected] : Calls)
    EXPECT_EQ(render(Source), Expected) << Source;
}

/// A template is not trusted.
TEST(Jinja, StepsMemoryAndDepthAreBounded) {
  const Case Cases[] = {
      {"{% for i in range(1000000000) %}{% endfor %}", "too many steps"},
      {"{{ 'aaaaaaaa' * 1000000000 }}", "too much memory"},
      {"{% set n = namespace(a=[1]) %}{% for i in range(60) %}"
       "{% set n.a = [n.a, n.a] %}{% endfor %}{{ n.a | tojson }}",
       "too many steps"},
      {"{% set n = namespace(a=[1]) %}{% for i in range(60) %}"
       "{% set n.a = [n.a, n.a] %}{% endfor %}{{ n.a == n.a | list }}",
       "too many steps"},
      {"{% set n = namespace(a=[]) %}{% for i in range(9999) %}"
       "{% set n.a = [n.a] %}{% endfor %}",
       "nested too deeply"},
      {"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "nested too deeply"},
      {"{% set n = namespace() %}{% set n.n = n %}{{ n.n.n.n is mapping }}",
       "False"},
  };
  for (const auto &[Source, Part] : Cases)
    EXPECT_NE(render(Source).find(Part), std::string::npos)
        << Source << "\n"
        << render(Source).substr(0, 200);
  EXPECT_NE(render("{{ " + std::string(5000, '(') + "1" +
                   std::string(5000, ')') + " }}")
                .find("too deeply"),
            std::string::npos);
  EXPECT_NE(render("{{ '\xFF' }}").find("not UTF-8"), std::string::npos);
}

TEST(Jinja, MarksAndTurns) {
  jinja::Template Source(
      "x{% for m in messages %}{{ m.role }}{% generation %}{{ m.content }}"
      "{% endgeneration %};{% endfor %}{% for i in range(messages | length) %}"
      "{% set m = messages[i] %}{{ m.content }}{% endfor %}");
  json::Value Row = json::parse(
      R"({"messages": [{"role": "u", "content": "aa"}, {"role": "v"}]})",
      "text");
  jinja::Template::Result Result =
      Source.render(jinja::JinjaValue::fromJSON(Row).members(), 0);
  EXPECT_EQ(Result.Text, "xuaa;v;aa");
  using Range = std::pair<size_t, size_t>;
  EXPECT_EQ(Result.Generated, (std::vector<Range>{{2, 4}, {6, 6}}));
  ASSERT_EQ(Result.Turns.size(), 3u);
  EXPECT_EQ(Result.Turns[0].Begin, 1u);
  EXPECT_EQ(Result.Turns[1].Message, 1u);
  EXPECT_EQ(Result.Turns[1].End, 7u);
  EXPECT_EQ(Result.Turns[2].Message, 0u);
  EXPECT_FALSE(Result.IsDated);
}

} // namespace
