#include "io/model_config.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/test_input_error.h"

namespace dp {
namespace {

using nlohmann::json;

constexpr const char* kModels[] = {"model_a_gated_n2", "model_b_deltaproduct_n3_tied",
                                   "model_c_noconv_n1", "model_d_bf16_n2",
                                   "model_legacy_deltaproduct_n3"};

std::string golden_text(const std::string& model) {
  std::ifstream stream(std::string(DP_TEST_DATA) + "/golden/" + model + "/config.json");
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

std::string error_message(const std::string& text) {
  return input_error([&] { parse_model_config(text, "f.json"); });
}

std::string with(const char* field, const json& value) {
  json object = {{"model_type", "gated_deltaproduct"}};
  object[field] = value;
  return object.dump();
}

TEST(ModelConfig, ReadsFlasFields) {
  const ModelConfig config = parse_model_config(golden_text("model_a_gated_n2"), "a");
  EXPECT_EQ(config.hidden_size, 64);
  EXPECT_EQ(config.num_heads, 2);
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_EQ(config.value_head_dim(), 32);
  EXPECT_EQ(config.num_householder, 2);
  EXPECT_EQ(config.mlp_width(), 256);
  EXPECT_TRUE(config.use_forget_gate && config.use_output_gate && config.allow_neg_eigval);
  EXPECT_FALSE(config.legacy_layout);
}

TEST(ModelConfig, ReadsThePapersOlderFields) {
  const ModelConfig config = parse_model_config(golden_text("model_legacy_deltaproduct_n3"), "l");
  EXPECT_FALSE(config.use_output_gate);
  EXPECT_TRUE(config.legacy_layout);
  EXPECT_EQ(config.initializer_range, 0.006);
  const ModelConfig decay = parse_model_config(R"({"model_type": "gated_delta_product"})", "d");
  EXPECT_EQ(decay.architecture, Architecture::kDeltaProduct);
  EXPECT_NE(to_json(decay).find("\"gated_delta_product\""), std::string::npos);
}

TEST(ModelConfig, EveryFieldSurvivesARoundTrip) {
  for (const char* model : kModels) {
    const ModelConfig config = parse_model_config(golden_text(model), model);
    const json before = json::parse(golden_text(model)), after = json::parse(to_json(config));
    for (const auto& [name, value] : before.items()) EXPECT_EQ(after.at(name), value) << name;
    EXPECT_EQ(parse_model_config(to_json(config), model), config) << model;
  }
}

TEST(ModelConfig, UnknownFieldsSurviveARoundTrip) {
  const json odd = {{"nested", {1, {{"deep", nullptr}}}}, {"text", "\u00e9\n"}};
  const ModelConfig config = parse_model_config(with("somebody_elses", odd), "f");
  EXPECT_EQ(json::parse(to_json(config)).at("somebody_elses"), odd);
}

TEST(ModelConfig, MissingFieldsTakeTheConfigurationClassesDefaults) {
  const ModelConfig config = parse_model_config(R"({"model_type": "gated_deltaproduct"})", "f");
  EXPECT_EQ(config, ModelConfig());
  EXPECT_FALSE(config.use_forget_gate);
  EXPECT_FALSE(config.allow_neg_eigval);
  EXPECT_TRUE(config.use_output_gate);
  EXPECT_EQ(config.num_householder, 1);
  EXPECT_EQ(config.head_dim, 256);
  EXPECT_EQ(config.num_heads, 6);
  EXPECT_EQ(config.value_head_dim(), 512);
  EXPECT_EQ(config.norm_eps, 1e-6);
}

TEST(ModelConfig, MlpWidthFollowsTheRule) {
  ModelConfig config;
  config.hidden_size = 1024;
  EXPECT_EQ(config.mlp_width(), 2816);  // int(1024 * 4 * 2 / 3) = 2730, up to a multiple of 256
  config.hidden_size = 768;
  EXPECT_EQ(config.mlp_width(), 2048);  // already one
  config.intermediate_size = 100;
  EXPECT_EQ(config.mlp_width(), 100);
}

TEST(ModelConfig, RefusesWrongFieldsByName) {
  EXPECT_EQ(error_message("{}"),
            "f.json: field 'model_type' is nothing, expected \"gated_deltaproduct\"");
  EXPECT_EQ(error_message(R"({"model_type": "llama"})"),
            "f.json: field 'model_type' is '\"llama\"', expected \"gated_deltaproduct\", "
            "\"delta_net\", \"gated_deltanet\", \"transformer\", \"gla\", "
            "\"mamba\", \"mlstm\", \"slstm\", \"rwkv7_product\" or \"gated_delta_product\"");
  EXPECT_EQ(error_message(with("num_heads", 0)),
            "f.json: field 'num_heads' is '0', expected an integer from 1 to 16777216");
  EXPECT_EQ(error_message(with("num_heads", 18446744073709551615u)),
            "f.json: field 'num_heads' is '18446744073709551615', expected an integer from 1 to "
            "16777216");
  EXPECT_EQ(error_message(with("head_dim", 2.5)),
            "f.json: field 'head_dim' is '2.5', expected an integer from 1 to 16777216");
  EXPECT_EQ(error_message(with("use_short_conv", 1)),
            "f.json: field 'use_short_conv' is '1', expected true or false");
  EXPECT_EQ(error_message(with("attn", {{"layers", {1}}})),
            "f.json: field 'attn' is '{\"layers\":[1]}', expected null: a hybrid with attention "
            "layers is not supported");
  EXPECT_EQ(error_message(with("hidden_act", "gelu")),
            "f.json: field 'hidden_act' is '\"gelu\"', expected \"swish\" or \"silu\"");
  EXPECT_EQ(error_message(with("torch_dtype", "int2")),
            "f.json: field 'torch_dtype' is '\"int2\"', expected \"float32\", \"bfloat16\", "
            "\"float16\", \"int8\" or \"int4\"");
  EXPECT_EQ(error_message(with("eos_token_id", "end")),
            "f.json: field 'eos_token_id' is '\"end\"', expected a token or a list of tokens");
}

TEST(ModelConfig, RefusesContradictions) {
  EXPECT_EQ(error_message(R"({"model_type": "gated_deltaproduct", "use_gate": true,
                         "use_output_gate": false})"),
            "f.json: field 'use_output_gate' is false, expected the value of 'use_gate', which is "
            "true");
  EXPECT_EQ(error_message(R"({"model_type": "gated_deltaproduct", "dtype": "bfloat16",
                         "torch_dtype": "float32"})"),
            "f.json: field 'torch_dtype' is \"float32\", expected the value of 'dtype', which is "
            "\"bfloat16\"");
  EXPECT_EQ(error_message(R"({"model_type": "gated_deltaproduct", "num_heads": 4, "num_v_heads": 6})"),
            "f.json: num_v_heads is 6, expected a multiple of num_heads, which is 4");
  EXPECT_EQ(error_message(R"({"model_type": "gated_deltaproduct", "head_dim": 5, "expand_v": 0.5})"),
            "f.json: head_dim * expand_v is 2.5, expected a whole number of at least 1");
  EXPECT_EQ(error_message(R"({"model_type": "gated_deltaproduct", "model_type": "llama"})"),
            "f.json: the configuration names 'model_type' twice");
}

TEST(ModelConfig, RefusesWhatIsNoObject) {
  EXPECT_EQ(error_message("[1]"), "f.json: expected a JSON object, found array");
  EXPECT_TRUE(error_message("{\"a\": ").starts_with("f.json: the configuration is not valid JSON: "));
  EXPECT_TRUE(
      error_message("{\"a\": 1e999}").starts_with("f.json: the configuration is not valid JSON"));
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  EXPECT_EQ(error_message("{\"a\": " + deep + "}"),
            "f.json: the configuration nests values more than 64 deep");
}

TEST(ModelConfig, RefusesSizesWhoseProductsOverflow) {
  EXPECT_NE(error_message(R"({"model_type": "gated_deltaproduct", "num_heads": 16777216,
                         "head_dim": 16777216, "num_householder": 1024})")
                .find("expected at most 16777216"),
            std::string::npos);
  EXPECT_EQ(error_message(R"({"model_type": "gated_deltaproduct", "num_householder": 8000000})"),
            "f.json: field 'num_householder' is '8000000', expected an integer from 1 to 1024");
}

// As fla's DeltaNetConfig and GatedDeltaNetConfig write them.
TEST(ModelConfig, ReadsFlasDeltaNets) {
  const ModelConfig delta = parse_model_config(
      R"({"model_type": "delta_net", "hidden_size": 64, "num_heads": 4, "expand_k": 2, "expand_v": 1,
          "use_gate": true, "qk_norm": "l2"})",
      "f");
  EXPECT_EQ(delta.head_dim, 32);
  EXPECT_EQ(delta.value_head_dim(), 16);
  EXPECT_TRUE(delta.use_output_gate);
  EXPECT_FALSE(delta.use_forget_gate);
  EXPECT_FALSE(delta.legacy_layout);
  EXPECT_EQ(delta.num_hidden_layers, 24);
  EXPECT_EQ(to_json(parse_model_config(to_json(delta), "f")), to_json(delta));

  const ModelConfig gated =
      parse_model_config(R"({"model_type": "gated_deltanet", "allow_neg_eigval": true})", "f");
  EXPECT_TRUE(gated.use_forget_gate && gated.use_output_gate && gated.allow_neg_eigval);
  EXPECT_EQ(gated.value_head_dim(), 512);
  EXPECT_EQ(to_json(parse_model_config(to_json(gated), "f")), to_json(gated));

  EXPECT_EQ(
      error_message(R"({"model_type": "delta_net", "hidden_size": 64, "num_heads": 5})"),
      "f.json: field 'num_heads' is 5, expected a divisor of hidden_size * expand_k, which is "
      "64.0");
  EXPECT_EQ(error_message(R"({"model_type": "gated_deltanet", "num_householder": 2})"),
            "f.json: num_householder is 2, expected 1: gated_deltanet has one factor per token");
  EXPECT_EQ(error_message(R"({"model_type": "delta_net", "use_forget_gate": true})"),
            "f.json: use_forget_gate is true, expected false: with a gate it is gated_deltanet");
  EXPECT_EQ(error_message(R"({"model_type": "delta_net", "qk_norm": "sum"})"),
            "f.json: field 'qk_norm' is '\"sum\"', expected \"l2\"");
}

TEST(ModelConfig, RivalsKeepTheirOwnFields) {
  ModelConfig mamba = parse_model_config(
      R"({"model_type": "mamba", "hidden_size": 10, "state_size": 7, "expand": 1.5})", "f");
  EXPECT_EQ(mamba.mamba.state_size, 7);
  EXPECT_EQ(parse_model_config(to_json(mamba), "f"), mamba);
  EXPECT_EQ(error_message(R"({"model_type": "mamba", "hidden_size": 10, "expand": 1.25})"),
            "f.json: hidden_size * expand is 12.5, expected a whole number from 1 to 16777216");
  EXPECT_EQ(error_message(R"({"model_type": "transformer", "head_dim": 5, "expand_v": 1})"),
            "f.json: head_dim is 5, expected an even number: rotary embeddings turn pairs");
}

}  // namespace
}  // namespace dp
