#include "nn/model_size.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "nn/language_model.h"
#include "runtime/parameters.h"

namespace dp {
namespace {

ModelConfig preset(const std::string& name) {
  return read_model_config(std::string(DP_SOURCE_DIR) + "/configs/" + name + ".json");
}

struct Row {
  const char* name;
  double parameters;
  int64_t num_householder, hidden_size, num_heads;
};
// The paper's models, by the number of parameters they are named after.
constexpr Row kRows[] = {{"213m_n1", 213e6, 1, 768, 8},   {"213m_n2", 213e6, 2, 736, 6},
                         {"213m_n3", 213e6, 3, 768, 4},   {"392m_n1", 392e6, 1, 1024, 12},
                         {"392m_n2", 392e6, 2, 1024, 8},  {"392m_n3", 392e6, 3, 1024, 6},
                         {"805m_n1", 805e6, 1, 1536, 16}, {"805m_n2", 805e6, 2, 1468, 12},
                         {"805m_n3", 805e6, 3, 1536, 8},  {"340m_n1", 340e6, 1, 1024, 8},
                         {"443m_n3", 443e6, 3, 1024, 8}};

double deviation(const ModelConfig& config, double parameters) {
  return std::abs(static_cast<double>(model_size(config).parameters()) / parameters - 1);
}

TEST(ModelSize, PresetsHaveTheSizeTheyAreNamedAfter) {
  for (const Row& row : kRows) {
    const ModelConfig config = preset(row.name);
    EXPECT_EQ(config.num_householder, row.num_householder) << row.name;
    EXPECT_EQ(config.hidden_size, row.hidden_size) << row.name;
    EXPECT_EQ(config.num_heads, row.num_heads) << row.name;
    EXPECT_LT(deviation(config, row.parameters), 0.01) << row.name;
  }
}

TEST(ModelSize, MatchingByHeadsFindsThePapersConfigurations) {
  for (const char* size : {"213m", "392m", "805m"}) {
    for (const int n : {1, 2, 3}) {
      const std::string name = size + ("_n" + std::to_string(n));
      const ModelConfig want = preset(name);
      ModelConfig base = preset(std::string(size) + "_n1");
      base.num_householder = n;
      base.num_heads = 1;  // whatever the base has
      const ModelConfig got =
          match_size(base, parse_count(std::string(size).substr(0, 3) + "M"), MatchBy::kHeads);
      EXPECT_EQ(got.num_heads, want.num_heads) << name;
      EXPECT_NEAR(static_cast<double>(got.hidden_size) / static_cast<double>(want.hidden_size), 1,
                  0.01)
          << name;
      EXPECT_LT(
          deviation(got, static_cast<double>(parse_count(std::string(size).substr(0, 3) + "M"))),
          0.01)
          << name;
    }
  }
}

TEST(ModelSize, MatchingByWidthComesWithinAPercent) {
  for (const MatchBy by : {MatchBy::kHeadDim, MatchBy::kMlp}) {
    for (const int n : {1, 2, 3, 4}) {
      ModelConfig base = preset("392m_n1");
      base.num_householder = n;
      if (by == MatchBy::kMlp) base.num_heads = 4;
      const ModelConfig got = match_size(base, 392'000'000, by);
      EXPECT_LT(deviation(got, 392e6), 0.01) << n;
      EXPECT_EQ(got.hidden_size, 1024);
      EXPECT_EQ(got.num_householder, n);
    }
  }
}

// The runtime's list of parameters is that of nn, and so are the sizes that follow from it.
TEST(ModelSize, IsTheSameInTheRuntime) {
  for (int options = 0; options < 64; ++options) {
    ModelConfig config;
    config.vocab_size = 50, config.hidden_size = 24, config.num_hidden_layers = 2;
    config.num_heads = 2, config.head_dim = 6, config.num_householder = 1 + options % 2;
    config.architecture = options == 0 ? Architecture::kDeltaNet : Architecture::kDeltaProduct;
    config.use_forget_gate = options & 2, config.use_output_gate = options & 4;
    config.use_short_conv = options & 8, config.conv_bias = options & 16;
    config.tie_word_embeddings = options & 32;
    if (options & 4) config.num_v_heads = 4;
    LanguageModel model(config);
    const std::vector<runtime::ParameterShape> shapes = runtime::parameter_shapes(config);
    const NamedParameters parameters = model.parameters();
    ASSERT_EQ(parameters.size(), shapes.size()) << options;
    for (size_t i = 0; i < shapes.size(); ++i) {
      EXPECT_EQ(parameters[i].name, shapes[i].name);
      EXPECT_EQ(parameters[i].parameter->shape, shapes[i].shape) << shapes[i].name;
    }
    const ModelSize here = model_size(config), there = runtime::model_size(config);
    EXPECT_EQ(here.parameters(), there.parameters());
    EXPECT_EQ(here.state_bytes, there.state_bytes);
    EXPECT_EQ(here.flops_per_token, there.flops_per_token);
  }
}

TEST(ModelSize, SaysWhenNothingIsSmallEnough) {
  try {
    match_size(preset("392m_n1"), 1'000'000, MatchBy::kMlp);
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("the smallest has"), std::string::npos);
  }
}

TEST(ModelSize, CountsByHand) {
  ModelConfig c;
  c.vocab_size = 10, c.hidden_size = 4, c.num_hidden_layers = 1, c.num_heads = 2, c.head_dim = 3;
  c.expand_v = 2, c.num_householder = 2, c.use_output_gate = false, c.intermediate_size = 5;
  const ModelSize size = model_size(c);
  EXPECT_EQ(size.embeddings, 40);
  EXPECT_EQ(size.head, 40);
  EXPECT_EQ(size.mlps, 60);
  EXPECT_EQ(size.norms, 12);
  // q 6x4, k 12x4, v 24x4, b 4x4, o 4x12, convolutions (6 + 12 + 24) x 4, norm 6
  EXPECT_EQ(size.mixers, 24 + 48 + 96 + 16 + 48 + 168 + 6);
  EXPECT_EQ(size.state_bytes, 4 * (2 * 3 * 6 + 4 * (6 + 12 + 24)));
  EXPECT_EQ(size.flops_per_token, 2 * (40 + 60 + 24 + 48 + 96 + 16 + 48 + 168) + 10 * 3 * 12);
}

TEST(ModelSize, ReadsAndWritesCounts) {
  EXPECT_EQ(parse_count("392M"), 392'000'000);
  EXPECT_EQ(parse_count("1.3B"), 1'300'000'000);
  EXPECT_EQ(parse_count("20000"), 20000);
  for (const char* text : {"", "M", "12X", "-3M", "nan", "1e30"})
    EXPECT_THROW(parse_count(text), InputError) << text;
  EXPECT_EQ(format_count(392318976), "392.3M");
  EXPECT_EQ(format_count(12), "12");
}

TEST(ModelSize, RivalsHaveAStateOfTheirOwn) {
  ModelConfig c;
  c.vocab_size = 10, c.hidden_size = 8, c.num_hidden_layers = 3, c.num_heads = 2, c.head_dim = 4;
  c.expand_v = 1, c.conv_size = 4;
  const auto size = [&](Architecture architecture) {
    c.architecture = architecture;
    return model_size(c);
  };
  EXPECT_EQ(size(Architecture::kTransformer).state_bytes, 0);
  EXPECT_EQ(size(Architecture::kTransformer).state_bytes_per_token, 3 * 4 * (8 + 8));  // keys and values
  EXPECT_EQ(size(Architecture::kGla).state_bytes, 3 * 4 * (2 * 4 * 4 + 3 * 4 * 8));    // and three convolutions
  EXPECT_EQ(size(Architecture::kMlstm).state_bytes, 3 * 4 * (2 * 4 * 5 + 2 + 2 * 4 * 8));
  EXPECT_EQ(size(Architecture::kSlstm).state_bytes, 3 * 4 * (4 * 2 * 4 + 4 * 8));
  EXPECT_EQ(size(Architecture::kMamba).state_bytes, 3 * 4 * (16 * 16 + 4 * 16));
  EXPECT_EQ(size(Architecture::kDeltaNet).state_bytes, size(Architecture::kGla).state_bytes);
  EXPECT_EQ(size(Architecture::kGla).state_bytes_per_token, 0);
}

TEST(ModelSize, MambaCannotBeMatchedByHeads) {
  ModelConfig c;
  c.architecture = Architecture::kMamba, c.vocab_size = 100, c.hidden_size = 32, c.num_hidden_layers = 2;
  EXPECT_THROW(match_size(c, 200000, MatchBy::kHeads), InputError);
  const ModelConfig matched = match_size(c, 200000, MatchBy::kMlp);
  EXPECT_NEAR(static_cast<double>(model_size(matched).parameters()), 200000, 4000);
}

}  // namespace
}  // namespace dp
