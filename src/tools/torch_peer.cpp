#include "tools/torch_peer.h"

#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "base/error.h"
#include "base/text.h"

namespace dp::cli {
namespace {

constexpr const char* kPython = DP_PYTHON;  // one that has torch (cmake/Python.cmake)
constexpr const char* kScript = DP_SOURCE_DIR "/bench/torch_peer.py";
constexpr const char* kTrainingScript = DP_SOURCE_DIR "/bench/torch_training_peer.py";

std::string shell_quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

std::string output_of(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  if (!pipe) throw std::runtime_error("cannot run " + command);
  std::string output;
  char buffer[4096];
  while (const size_t size = std::fread(buffer, 1, sizeof buffer, pipe))
    output.append(buffer, size);
  if (const int status = pclose(pipe); status != 0)
    throw std::runtime_error("the PyTorch peer failed; its messages are above");
  return output;
}

}  // namespace

void require_torch_peer() {
  for (const char* path : {kPython, kScript, kTrainingScript})
    if (!std::filesystem::exists(path))
      throw InputError(std::string("--peer torch needs ") + quote(path) + ", which does not exist");
}

std::vector<nlohmann::ordered_json> run_torch_peer(const std::vector<OpShape>& shapes,
                                                   int threads) {
  std::string command =
      std::string(kPython) + " " + shell_quoted(kScript) + " --threads " + std::to_string(threads);
  for (const OpShape& shape : shapes) command += " --shape " + to_text(shape);
  std::fflush(stdout);
  const auto result =
      nlohmann::ordered_json::parse(output_of(command), nullptr, /*allow_exceptions=*/false);
  if (!result.is_object() || !result.contains("rows") || result["rows"].size() != shapes.size())
    throw std::runtime_error(
        "bench/torch_peer.py printed something other than one row for each shape");
  return result["rows"];
}

nlohmann::ordered_json run_torch_training(const std::string& config_json, int64_t batch,
                                          int64_t length, int threads) {
  const std::string command = std::string(kPython) + " " + shell_quoted(kTrainingScript) +
                              " --config " + shell_quoted(config_json) + " --batch " +
                              std::to_string(batch) + " --length " + std::to_string(length) +
                              " --threads " + std::to_string(threads);
  std::fflush(stdout);
  const auto result =
      nlohmann::ordered_json::parse(output_of(command), nullptr, /*allow_exceptions=*/false);
  if (!result.is_object() || !result.contains("loop_ms") || !result.contains("chunked_ms"))
    throw std::runtime_error("bench/torch_training_peer.py printed no times");
  return result;
}

}  // namespace dp::cli
