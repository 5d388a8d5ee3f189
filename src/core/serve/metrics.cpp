#include "serve/metrics.h"

namespace dp::serve {
namespace {

std::string metric(const std::string& name, const char* type, const char* help, int64_t value) {
  return "# HELP " + name + " " + help + "\n# TYPE " + name + " " + type + "\n" + name + " " +
         std::to_string(value) + "\n";
}

}  // namespace

void Metrics::count_request(const std::string& path, int status) {
  const std::scoped_lock lock(mutex_);
  ++requests_[{path, status}];
}

std::string Metrics::text(const EngineCounts& engine) const {
  std::string text =
      "# HELP dp_requests_total Answers by path and status\n# TYPE dp_requests_total counter\n";
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& [key, count] : requests_)
      text += "dp_requests_total{path=\"" + key.first + "\",status=\"" +
              std::to_string(key.second) + "\"} " + std::to_string(count) + "\n";
  }
  text +=
      metric("dp_prompt_tokens_total", "counter",
             "Tokens of prompts taken in, without those found in the cache", engine.prompt_tokens);
  text +=
      metric("dp_generated_tokens_total", "counter", "Tokens generated", engine.generated_tokens);
  text += metric("dp_steps_total", "counter",
                 "Decoding steps, each a token for all active sequences", engine.steps);
  text += metric("dp_active_sequences", "gauge", "Sequences being decoded", engine.active);
  text += metric("dp_waiting_sequences", "gauge",
                 "Sequences whose prompt waits or is being taken in", engine.waiting());
  text += metric("dp_prefix_cache_hits_total", "counter", "Prompts that began with a known prefix",
                 engine.cache_hits);
  text += metric("dp_prefix_cache_misses_total", "counter", "Prompts that did not",
                 engine.cache_misses);
  text += metric("dp_prefix_cache_tokens_total", "counter", "Tokens of prompts found in the cache",
                 engine.cached_tokens);
  text += metric("dp_prefix_cache_bytes", "gauge", "Memory of the cache", engine.cache_bytes);
  text += request_seconds.text("dp_request_seconds",
                               "From a completion's request to the end of its answer");
  text += first_token_seconds.text("dp_first_token_seconds",
                                   "From a completion's request to its first text");
  text += engine.step_seconds.text("dp_step_seconds", "Of one decoding step");
  return text;
}

}  // namespace dp::serve
