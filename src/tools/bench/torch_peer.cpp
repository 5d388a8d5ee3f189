#include "tools/bench/torch_peer.h"

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/child_process.h"
#include "base/error.h"
#include "base/quote.h"

namespace dp::cli {
namespace {

constexpr const char* kPython = DP_PYTHON;  // one that has torch (cmake/Python.cmake)
constexpr const char* kScript = DP_SOURCE_DIR "/bench/torch_peer.py";
constexpr const char* kTrainingScript = DP_SOURCE_DIR "/bench/torch_training_peer.py";

nlohmann::ordered_json run_script(const char* script, std::vector<std::string> options) {
  options.insert(options.begin(), {kPython, script});
  std::fflush(stdout);
  const ChildOutput output = run_child({.command = std::move(options)}, /*errors_too=*/false);
  if (output.exit_code != 0)
    throw std::runtime_error("the PyTorch peer failed; its messages are above");
  return nlohmann::ordered_json::parse(output.text, nullptr, /*allow_exceptions=*/false);
}

}  // namespace

void require_torch_peer() {
  for (const char* path : {kPython, kScript, kTrainingScript})
    if (!std::filesystem::exists(path))
      throw InputError(std::string("--peer torch needs ") + quote(path) + ", which does not exist");
}

std::vector<nlohmann::ordered_json> run_torch_peer(const std::vector<std::string>& shapes,
                                                   int threads) {
  std::vector<std::string> options = {"--threads", std::to_string(threads)};
  for (const std::string& shape : shapes) options.insert(options.end(), {"--shape", shape});
  const nlohmann::ordered_json result = run_script(kScript, std::move(options));
  if (!result.is_object() || !result.contains("rows") || result["rows"].size() != shapes.size())
    throw std::runtime_error(
        "bench/torch_peer.py printed something other than one row for each shape");
  return result["rows"];
}

nlohmann::ordered_json run_torch_training(const std::string& config_json, int64_t batch,
                                          int64_t length, int threads) {
  const nlohmann::ordered_json result =
      run_script(kTrainingScript, {"--config", config_json, "--batch", std::to_string(batch), "--length",
                                   std::to_string(length), "--threads", std::to_string(threads)});
  if (!result.is_object() || !result.contains("loop_ms") || !result.contains("chunked_ms"))
    throw std::runtime_error("bench/torch_training_peer.py printed no times");
  return result;
}

}  // namespace dp::cli
