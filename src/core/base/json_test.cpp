#include "base/json.h"

#include <gtest/gtest.h>

#include "base/test_input_error.h"

namespace dp {
namespace {

using nlohmann::json;

std::string refusal(const std::string& text) {
  return input_error([&] { parse_json(text, "a.json", "the file"); });
}

TEST(Json, IsWhatTheLibraryReads) {
  for (const char* text :
       {"null", "true", "-3", "18446744073709551615", "-9223372036854775808", "0.1", "1e300",
        "\"a\\u00e4\\n\"", "[]", "{}", "[[], {}, [1, [2]], {\"b\": {\"a\": null}, \"a\": [false]}]",
        " {\"x\": \"y\", \"list\": [1, 2.5, \"three\"]} "}) {
    EXPECT_EQ(parse_json(text, "a.json", "the file"), json::parse(text)) << text;
    EXPECT_EQ(parse_json(text, "a.json", "the file").dump(), json::parse(text).dump());
  }
}

TEST(Json, RefusesWithAReason) {
  EXPECT_NE(refusal("{\"a\": 1,}").find("a.json: the file is not valid JSON: "), std::string::npos);
  EXPECT_EQ(refusal("{\"a\": {\"b\": 1, \"b\": 2}}"), "a.json: the file names 'b' twice");
  EXPECT_EQ(refusal("{\"a\": 1, \"b\": {\"a\": 1}}"), "no error");
  const auto nested = [](int depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_EQ(refusal(nested(64)), "no error");
  EXPECT_EQ(refusal(nested(65)), "a.json: the file nests values more than 64 deep");
  EXPECT_NE(refusal(std::string(1000000, '[')), "no error");
  for (const char* text : {"", "[", "1 2", "nul", "1e999", "\"\xff\"", "{\"a\"}"})
    EXPECT_NE(refusal(text), "no error") << text;
}

// A parser that looks at elder siblings would take 10^11 steps here.
TEST(Json, TakesTimeLinearInTheNumberOfObjects) {
  for (const size_t count : {600'000, 1'200'000}) {
    std::string text = "{\"x\":[{}";
    for (size_t i = 1; i < count; ++i) text += ",{}";
    EXPECT_EQ(parse_json(text + "]}", "a.json", "the file")["x"].size(), count);
  }
}

}  // namespace
}  // namespace dp
