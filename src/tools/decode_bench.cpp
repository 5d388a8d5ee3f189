#include "tools/decode_bench.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <vector>

#include "base/timer.h"
#include "tools/machine.h"
#include "infer/session.h"
#include "nn/model_size.h"
#include "nn/pretrained.h"
#include "ops/aten_executor.h"

namespace dp::cli {
namespace {
namespace fs = std::filesystem;

constexpr size_t kReadBytes = size_t{1} << 30;  // far beyond every cache
constexpr int kTokensPerRound = 4;

double bytes_per_token(const LanguageModel& model) {
  double bytes = 2.0 * static_cast<double>(model_size(model.config()).state_bytes);
  for (const auto& [name, value] : model.named_values()) {
    const bool only_a_row =
        name == "model.embeddings.weight" && !model.config().tie_word_embeddings;
    bytes +=
        static_cast<double>(value.nbytes()) / static_cast<double>(only_a_row ? value.size(0) : 1);
  }
  return bytes;
}

/// A directory that goes away with this object.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string pattern = (fs::temp_directory_path() / "dp-bench-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr)
      throw std::runtime_error("cannot make a temporary directory in " +
                               fs::temp_directory_path().string());
    path_ = pattern;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

double read_seconds(const fs::path& file) {
  std::vector<char> buffer(size_t{1} << 20);
  std::ifstream stream(file, std::ios::binary);
  const Timer timer;
  while (stream.read(buffer.data(), static_cast<std::streamsize>(buffer.size()))) {
  }
  return timer.seconds();
}

double first_token_seconds(const std::string& program, const fs::path& model, int threads) {
  const std::string command = "'" + program + "' generate '" + model.string() +
                              "' --ids 1 --max-tokens 1 --ignore-eos --threads " +
                              std::to_string(threads);
  const Timer timer;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("cannot run " + command);
  const int first = std::fgetc(pipe);
  const double seconds = timer.seconds();
  while (std::fgetc(pipe) != EOF) {
  }
  if (pclose(pipe) != 0 || first == EOF)
    throw std::runtime_error("generating from the saved model failed; its messages are above");
  return seconds;
}

}  // namespace

DecodeSpeed time_decoding(const std::shared_ptr<const LanguageModel>& model, double seconds) {
  const std::vector<uint64_t> memory(kReadBytes / sizeof(uint64_t), 1);
  AtenExecutor executor;
  Session session(model);
  session.feed(0);
  read_memory(memory.data(), memory.size(), executor);
  BestTime token, read;
  const Timer timer;
  int64_t next = 0;
  do {
    token.time([&] { session.feed(++next % model->config().vocab_size); }, kTokensPerRound);
    read.time([&] { read_memory(memory.data(), memory.size(), executor); });
  } while (timer.seconds() < seconds);
  return {1 / token.seconds(), bytes_per_token(*model),
          static_cast<double>(kReadBytes) / read.seconds()};
}

LoadTiming time_loading(const LanguageModel& model, const std::string& program, int threads) {
  const TemporaryDirectory directory;
  save_model(model, directory.path());
  LoadTiming timing;
  for (const fs::directory_entry& item : fs::directory_iterator(directory.path()))
    timing.file_bytes += static_cast<double>(item.file_size());
  timing.read_seconds = timing.first_token_seconds = std::numeric_limits<double>::infinity();
  for (int round = 0; round < 3; ++round) {  // the first one may find the page cache cold
    timing.read_seconds =
        std::min(timing.read_seconds, read_seconds(directory.path() / "model.safetensors"));
    timing.first_token_seconds = std::min(timing.first_token_seconds,
                                          first_token_seconds(program, directory.path(), threads));
  }
  return timing;
}

}  // namespace dp::cli
