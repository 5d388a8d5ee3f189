#include "base/setting.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/test_input_error.h"

namespace dp {
namespace {

struct Variables {
  bool flag = false;
  int64_t heads = 12;
  double rate = 0.001, share = 0.5;
  std::string data = "books", init = "normal";
  std::vector<int64_t> lengths = {128};
};

Settings settings(Variables& v) {
  return {flag_setting("gate", "a.gate", v.flag, ""),
          integer_setting("heads", "a.heads", v.heads, 1, 64, ""),
          positive_setting("lr", "a.rate", v.rate, ""),
          real_setting("share", "a.share", v.share, 0, 1, ""),
          text_setting("data", "a.data", v.data, ""),
          choice_setting("init", "a.init", {"normal", "paper"}, [&v] { return v.init; },
                         [&v](const std::string& x) { v.init = x; }, ""),
          integers_setting("lengths", "a.lengths", v.lengths, 1, 1000, "")};
}

TEST(Setting, TextAndJsonGiveTheSameValue) {
  const std::pair<const char*, const char*> values[] = {
      {"true", "true"},   {"8", "8"},         {"0.25", "0.25"},       {"1", "1"},
      {"x y", R"("x y")"}, {"paper", R"("paper")"}, {"3,1000", "[3,1000]"}};
  Variables from_text, from_json;
  const Settings a = settings(from_text), b = settings(from_json);
  for (size_t i = 0; i < a.size(); ++i) {
    SCOPED_TRACE(a[i].option);
    const std::string before = a[i].text();
    a[i].assign_text(values[i].first, "t");
    b[i].assign_json(nlohmann::json::parse(values[i].second), "t");
    EXPECT_NE(a[i].text(), before);
    EXPECT_EQ(a[i].to_json(), b[i].to_json());
    EXPECT_EQ(a[i].text(), values[i].first);
  }
  EXPECT_EQ(from_text.lengths, (std::vector<int64_t>{3, 1000}));
  EXPECT_EQ(from_json.init, "paper");
}

TEST(Setting, RefusesWhatIsOutOfRangeAndKeepsTheOldValue) {
  Variables v;
  const Settings all = settings(v);
  const auto text = [&](size_t i, const char* value) {
    return input_error([&] { all[i].assign_text(value, "--" + all[i].option); });
  };
  EXPECT_EQ(text(0, "yes"), "--gate is 'yes', expected true or false");
  EXPECT_EQ(text(1, "65"), "--heads is 65, expected an integer from 1 to 64");
  EXPECT_EQ(text(1, "-1"), "--heads is -1, expected an integer from 1 to 64");
  EXPECT_EQ(text(1, "3.5"), "--heads is '3.5', expected an integer from 1 to 64");
  EXPECT_EQ(text(2, "nan"), "--lr is nan, expected a number above 0");
  EXPECT_EQ(text(2, "0"), "--lr is 0, expected a number above 0");
  EXPECT_EQ(text(2, "inf"), "--lr is inf, expected a number above 0");
  EXPECT_EQ(text(3, "1.5"), "--share is 1.5, expected a number from 0 to 1");
  EXPECT_EQ(text(5, "zero"), "--init is 'zero', expected normal or paper");
  EXPECT_EQ(text(6, "1,"), "--lengths is '1,', expected a list of integers from 1 to 1000");
  EXPECT_EQ(text(6, "1,0"), "--lengths is [1,0], expected a list of integers from 1 to 1000");
  const auto json = [&](size_t i, const nlohmann::json& value) {
    return input_error([&] { all[i].assign_json(value, "f"); });
  };
  EXPECT_EQ(json(1, 1.0), "f is '1.0', expected an integer from 1 to 64");
  EXPECT_EQ(json(1, uint64_t{1} << 63),
            "f is '9223372036854775808', expected an integer from 1 to 64");
  EXPECT_EQ(json(2, nullptr), "f is 'null', expected a number above 0");
  EXPECT_EQ(json(0, 1), "f is '1', expected true or false");
  EXPECT_EQ(v.heads, 12);
  EXPECT_EQ(v.rate, 0.001);
  EXPECT_EQ(v.init, "normal");
  EXPECT_EQ(v.lengths, std::vector<int64_t>{128});
}

}  // namespace
}  // namespace dp
