// dp info: what a model is made of and what it costs.
#include <CLI/App.hpp>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/command.h"
#include "tools/model_path.h"
#include "io/model_name.h"
#include "tools/lab.h"

namespace dp::cli {
namespace {

std::string describe_heads(const ModelConfig& c) {
  if (c.architecture == Architecture::kMamba)
    return std::to_string(std::llround(static_cast<double>(c.hidden_size) * c.mamba.expand)) +
           " channels of " + std::to_string(c.mamba.state_size) + " states";
  std::string text = std::to_string(c.num_heads) + " heads of " + std::to_string(c.head_dim);
  if (c.architecture == Architecture::kSlstm) return text;
  if (c.value_heads() != c.num_heads)
    text += " (" + std::to_string(c.value_heads()) + " of values)";
  if (c.value_head_dim() != c.head_dim) text += " x " + std::to_string(c.value_head_dim());
  return text;
}

std::string describe(const ModelConfig& c) {
  std::string text = model_name(c) + ", " + std::to_string(c.num_hidden_layers) +
                     (c.num_hidden_layers == 1 ? " layer of width " : " layers of width ") +
                     std::to_string(c.hidden_size) + ", " + describe_heads(c) + ", MLP " + std::to_string(c.mlp_width());
  if (c.architecture != Architecture::kTransformer)
    text += c.use_short_conv ? ", convolution " + std::to_string(c.conv_size) : ", no convolution";
  if (c.architecture != Architecture::kTransformer && c.architecture != Architecture::kMamba && c.architecture != Architecture::kSlstm)
    text += c.use_output_gate ? ", output gate" : ", no output gate";
  return text + ", vocabulary " + std::to_string(c.vocab_size) +
         (c.tie_word_embeddings ? ", tied" : "");
}

int info(const std::string& model, const JsonOption& json) {
  const ModelConfig config = find_model_config(model);
  json.check();
  const ModelSize size = any_model_size(config);
  std::printf("%s\n\n", describe(config).c_str());
  const auto row = [&](const char* name, int64_t count) {
    std::printf("  %-22s %14ld  %5.1f %%\n", name, count,
                100.0 * static_cast<double>(count) / static_cast<double>(size.parameters()));
  };
  row("embeddings", size.embeddings);
  row((architecture_name(config) + " layers").c_str(), size.mixers);
  row("MLPs", size.mlps);
  row("norms", size.norms);
  row(config.tie_word_embeddings ? "head (the embeddings)" : "head", size.head);
  std::printf("  %-22s %14ld  %s\n\n", "parameters", size.parameters(),
              format_count(static_cast<double>(size.parameters())).c_str());
  if (size.state_bytes_per_token > 0)
    std::printf("  %-22s %14ld  per sequence and token: it grows\n", "cache bytes",
                size.state_bytes_per_token);
  else
    std::printf("  %-22s %14ld  per sequence, at any length\n", "state bytes", size.state_bytes);
  std::printf("  %-22s %14ld  forward; training takes about three times that\n", "flops per token",
              size.flops_per_token);
  if (size.state_bytes_per_token > 0)
    std::printf("  %-22s %14ld  more for each token before it\n", "",
                size.flops_per_token_and_length);
  json.write({{"embeddings", size.embeddings},
              {"mixers", size.mixers},
              {"mlps", size.mlps},
              {"norms", size.norms},
              {"head", size.head},
              {"parameters", size.parameters()},
              {"model", model_name(config)},
              {"state_bytes", size.state_bytes},
              {"state_bytes_per_token", size.state_bytes_per_token},
              {"flops_per_token", size.flops_per_token}});
  return 0;
}

}  // namespace

Run add_info(CLI::App& app) {
  struct Options {
    std::string model;
    JsonOption json;
  };
  auto options = std::make_shared<Options>();
  app.add_option("model", options->model,
                 "a model directory, a config.json, or a preset such as 340m_n1")
      ->type_name("DIR_OR_CONFIG")
      ->required();
  options->json.add_to(app);
  return [options] { return info(options->model, options->json); };
}

}  // namespace dp::cli
