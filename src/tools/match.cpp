// dp match: a configuration with a wanted number of parameters.
#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "tools/command.h"
#include "tools/model_path.h"
#include "tools/lab.h"

namespace dp::cli {
namespace {

struct MatchOptions {
  std::string target, base, by = "heads", out;
  int64_t num_householder = 1, hidden_size = 0, layers = 0, head_dim = 0, vocab_size = 0;
  JsonOption json;
};

// The paper's scaling study: hidden sizes from one factor per token, the same for all n.
ModelConfig paper_base(double parameters) {
  const std::map<double, const char*> sizes = {
      {213e6, "213m_n1"}, {340e6, "340m_n1"}, {392e6, "392m_n1"}, {805e6, "805m_n1"}};
  for (const auto& [count, name] : sizes)
    if (std::abs(parameters / count - 1) < 0.02) return find_model_config(name);
  ModelConfig config = find_model_config("392m_n1");
  // The widest that is not too large, in steps of 64, with as many heads as fill it.
  const auto with_width = [&](int64_t hidden) {
    config.hidden_size = hidden;
    config.num_heads = std::max<int64_t>(1, hidden / config.head_dim);
    return config;
  };
  int64_t hidden = 64;
  while (static_cast<double>(any_model_size(with_width(hidden + 64)).parameters()) < parameters)
    hidden += 64;
  return with_width(hidden);
}

int match(const MatchOptions& options) {
  const int64_t target = parse_count(options.target);
  const MatchBy by = parse_match_by(options.by);
  options.json.check();
  if (!options.out.empty()) require_writable(options.out);
  ModelConfig base = options.base.empty() ? paper_base(static_cast<double>(target))
                                          : find_model_config(options.base);
  base.num_householder = options.num_householder;
  if (options.hidden_size) base.hidden_size = options.hidden_size;
  if (options.layers) base.num_hidden_layers = options.layers;
  if (options.head_dim) base.head_dim = options.head_dim;
  if (options.vocab_size) base.vocab_size = options.vocab_size;
  const ModelConfig config = match_size(base, target, by, any_model_size);
  const int64_t parameters = any_model_size(config).parameters();
  const double deviation = static_cast<double>(parameters) / static_cast<double>(target) - 1;
  std::printf(
      "%ld householder, hidden %ld, %ld layer%s, %ld heads of %ld, MLP %ld: %ld parameters, "
      "%+.2f %% of %s\n",
      config.num_householder, config.hidden_size, config.num_hidden_layers,
      config.num_hidden_layers == 1 ? "" : "s", config.num_heads, config.head_dim,
      config.mlp_width(), parameters, 100 * deviation, options.target.c_str());
  if (!options.out.empty()) {
    write_file_atomically(options.out, to_json(config));
    std::printf("wrote %s\n", options.out.c_str());
  }
  options.json.write({{"parameters", parameters},
                      {"target", target},
                      {"deviation", deviation},
                      {"config", nlohmann::ordered_json::parse(to_json(config))}});
  return 0;
}

}  // namespace

Run add_match(CLI::App& app) {
  auto options = std::make_shared<MatchOptions>();
  app.add_option("--target", options->target, "number of parameters, such as 392M")->required();
  app.add_option("--num-householder", options->num_householder, "factors per token")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  app.add_option("--by", options->by, "what to change: heads, head-dim or mlp")
      ->check(CLI::IsMember({"heads", "head-dim", "mlp"}))
      ->capture_default_str();
  app.add_option("--base", options->base,
                 "a config.json or preset to start from (default: the paper's of that size)");
  const auto size = [&](const char* name, int64_t& value, const char* help) {
    app.add_option(name, value, help)->check(CLI::Range(1, 1 << 24));
  };
  size("--hidden-size", options->hidden_size, "instead of the base's");
  size("--layers", options->layers, "instead of the base's");
  size("--head-dim", options->head_dim, "instead of the base's");
  size("--vocab-size", options->vocab_size, "instead of the base's");
  app.add_option("--out", options->out, "write the configuration to this file")->type_name("FILE");
  options->json.add_to(app);
  return [options] { return match(*options); };
}

}  // namespace dp::cli
