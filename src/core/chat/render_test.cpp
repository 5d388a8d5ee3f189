#include "chat/render.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

namespace dp::chat {
namespace {

using nlohmann::ordered_json;

Value from_json(const ordered_json& json) {
  if (json.is_null()) return nullptr;
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_integer()) return json.get<int64_t>();
  if (json.is_number()) return json.get<double>();
  if (json.is_string()) return json.get<std::string>();
  if (json.is_array()) {
    Value::List list;
    for (const ordered_json& item : json) list.push_back(from_json(item));
    return list;
  }
  Value::Dict dict;
  for (const auto& [name, item] : json.items()) dict.emplace_back(name, from_json(item));
  return dict;
}

std::string render(const std::string& source, const Value& variables = Value::Dict()) {
  return render_template(parse_template(source), variables);
}

std::string refusal(const std::string& source) {
  try {
    return "was taken: " + render(source);
  } catch (const TemplateError& error) {
    return error.what();
  }
}

// What Jinja itself makes of them: tests/data/chat/make_cases.py.
TEST(Render, SaysWhatJinjaSays) {
  std::ifstream file(DP_TEST_DATA "/chat/cases.json");
  const ordered_json cases = ordered_json::parse(file);
  ASSERT_GT(cases.size(), 60u);
  for (const ordered_json& one : cases) {
    const auto source = one["template"].get<std::string>();
    SCOPED_TRACE(source);
    try {
      const std::string text = render(source, from_json(one["variables"]));
      EXPECT_EQ(one["expected"], ordered_json(text));
    } catch (const TemplateError& error) {
      EXPECT_TRUE(one["expected"].is_null()) << error.what();
      EXPECT_TRUE(std::string_view(error.what()).starts_with("line ")) << error.what();
    }
  }
}

TEST(Render, RefusesByNameWhatItDoesNotKnow) {
  EXPECT_EQ(refusal("a\n{{ x|wordcount }}"), "line 2: the filter 'wordcount' is not known here");
  EXPECT_EQ(refusal("{{ x is divisibleby 3 }}"),
            "line 1: the test 'divisibleby' is not known here");
  EXPECT_EQ(refusal("{{ x.append(1) }}"), "line 1: the method 'append' is not known here");
  EXPECT_EQ(refusal("{{ lipsum() }}"), "line 1: the function 'lipsum' is not known here");
  EXPECT_EQ(refusal("{% include 'x' %}"), "line 1: the statement 'include' is not known here");
  EXPECT_EQ(refusal("{{ 2 ** 3 }}"), "line 1: the operator '**' is not known here");
  EXPECT_EQ(refusal("{% for x in y recursive %}{% endfor %}"),
            "line 1: recursive loops are not known here");
}

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

// A template is a file from outside: it may neither take all memory nor run for ever nor overflow the stack.
TEST(Render, IsBounded) {
  const char* loop = "{% for a in range(100000) %}";
  EXPECT_NE(refusal(std::string(loop) + loop + "x{% endfor %}{% endfor %}").find("too long"),
            std::string::npos);
  EXPECT_NE(refusal("{% for a in range(9999999) %}{% endfor %}").find("'range'"),
            std::string::npos);
  EXPECT_NE(refusal("{{ 'x' * 99999999999 }}").find("too often"), std::string::npos);
  EXPECT_NE(refusal("{% set ns = namespace(a='x') %}{% for i in range(60) %}{% set ns.a = ns.a + "
                    "ns.a %}{% endfor %}")
                .find("too long"),
            std::string::npos);
  EXPECT_NE(refusal("{% set ns = namespace(a=[]) %}{% for i in range(9999) %}{% set ns.a = [ns.a] "
                    "%}{% endfor %}")
                .find("64 deep"),
            std::string::npos);
  EXPECT_NE(refusal("{% set ns = namespace() %}{% set ns.a = ns %}").find("namespace"),
            std::string::npos);
  EXPECT_NE(refusal("{% set ns = namespace() %}{% set x = [ns] %}").find("namespace"),
            std::string::npos);
  EXPECT_NE(refusal("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}").find("10 deep"),
            std::string::npos);
  EXPECT_NE(
      refusal("{{ " + repeated("(", 9999) + "1" + repeated(")", 9999) + " }}").find("too deep"),
      std::string::npos);
  EXPECT_NE(refusal("{{ " + repeated("not ", 9999) + "1 }}").find("too deep"), std::string::npos);
  EXPECT_NE(refusal("{{ " + repeated("-", 9999) + "1 }}").find("too deep"), std::string::npos);
  EXPECT_NE(refusal("{{ 1" + repeated("+1", 9999) + " }}").find("200 operators"),
            std::string::npos);
  EXPECT_NE(refusal("{{ a" + repeated(".b", 9999) + " }}").find("200 operators"),
            std::string::npos);
  EXPECT_NE(refusal("{{ a" + repeated("|trim", 9999) + " }}").find("200 operators"),
            std::string::npos);
  EXPECT_NE(refusal(repeated("{% if true %}", 9999)).find("too deep"), std::string::npos);
  EXPECT_NE(refusal("{{ 9223372036854775807 }}").find("too long"), std::string::npos);
  EXPECT_NE(refusal("{{ 999999999999999999 * 99 }}").find("too large"), std::string::npos);
  EXPECT_EQ(render("{{ [1, 2, 3][::999999999999999999] }}{{ [1, 2][-999999999999999999:] }}"),
            "[1][1, 2]");
  EXPECT_NE(refusal(std::string(2 << 20, 'x')).find("bytes"), std::string::npos);
}

}  // namespace
}  // namespace dp::chat
