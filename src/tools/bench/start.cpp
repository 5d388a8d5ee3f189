// dp bench start: how soon this program answers, generates and predicts.
#include "tools/bench/start.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/child_process.h"
#include "base/timer.h"
#include "theory/compile.h"
#include "tools/bench/model.h"
#include "tools/command.h"
#include "tools/bench/machine.h"
#include "tools/model_path.h"

namespace dp::cli {
namespace {
namespace fs = std::filesystem;

constexpr double kMostVersionSeconds = 0.030, kMostSymbolSeconds = 20e-6;
constexpr int kStartRounds = 3;

double cpu_seconds(const rusage& usage) {
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double time_reading(const fs::path& file) {
  std::vector<char> buffer(size_t{1} << 20);
  std::ifstream stream(file, std::ios::binary);
  const Timer timer;
  while (stream.read(buffer.data(), static_cast<std::streamsize>(buffer.size()))) {
  }
  return timer.seconds();
}

struct PredictSpeed {
  int64_t parameters = 0, symbols = 0;
  double cpu_per_symbol = 0;
};

// A compiled model of about the size that the goal is meant for, and words of 1000 letters.
PredictSpeed time_predict() {
  const TemporaryDirectory directory;
  const theory::Compiled compiled = theory::compile_group("A5", {}, {});
  const theory::Weights weights = compiled.weights();
  theory::save_weights(weights, directory.path());
  theory::save_problem(compiled.problem, compiled.construction.theorem, "", directory.path());
  constexpr int64_t kWords = 200, kLength = 1000;
  const std::vector<std::string>& letters = compiled.problem.automaton.alphabet;
  std::string text;
  for (int64_t i = 0; i < kWords; ++i) {
    for (int64_t j = 0; j < kLength; ++j)
      text += letters[static_cast<size_t>((i * 7 + j * j) % static_cast<int64_t>(letters.size()))] + " ";
    text.back() = '\n';
  }
  const std::string model = directory.path().string();
  PredictSpeed speed{weights.parameters(), kWords * kLength, std::numeric_limits<double>::infinity()};
  for (int round = 0; round < kStartRounds; ++round) {
    const ProcessTimes all = run_this_program({"predict", model, "--threads", "1"}, text);
    speed.cpu_per_symbol = std::min(speed.cpu_per_symbol, all.cpu / static_cast<double>(speed.symbols));
  }
  return speed;
}

struct BenchStartOptions {
  std::string model = "392m_n2";
  JsonOption json;
  ThreadsOption threads;
};

int bench_start(const BenchStartOptions& options) {
  const ModelConfig config = find_model_config(options.model);
  options.json.check();
  const int threads = options.threads.count();
  std::printf("%s, %d threads.\n", cpu_name().c_str(), threads);
  double version = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 5 * kStartRounds; ++i)
    version = std::min(version, run_this_program({"--version"}).end);
  std::printf("dp --version: %.1f ms (<=%.0f %s)\n", 1e3 * version, 1e3 * kMostVersionSeconds,
              verdict(version <= kMostVersionSeconds));
  const PredictSpeed predict = time_predict();
  std::printf("dp predict, a compiled model of %ld parameters: %.1f us of one core per symbol, start included (<=%.0f %s)\n",
              predict.parameters, 1e6 * predict.cpu_per_symbol, 1e6 * kMostSymbolSeconds,
              verdict(predict.cpu_per_symbol <= kMostSymbolSeconds));
  std::fflush(stdout);
  const FirstToken first = time_first_token(config, threads);
  std::printf("%s in float32, %.2f GB in the page cache: first token of a new process after %.3f s, reading the file %.3f s, ratio %.2f (<=%.2f %s)\n",
              options.model.c_str(), first.file_bytes * 1e-9, first.first_token_seconds,
              first.read_seconds, first.ratio(), kMostFirstToken,
              verdict(first.ratio() <= kMostFirstToken));
  options.json.write({{"cpu", cpu_name()},
                      {"threads", threads},
                      {"version_s", version},
                      {"predict", {{"parameters", predict.parameters}, {"symbols", predict.symbols}, {"cpu_per_symbol_s", predict.cpu_per_symbol}}},
                      {"model", options.model},
                      {"first_token_s", first.first_token_seconds},
                      {"read_s", first.read_seconds},
                      {"first_token_ratio", first.ratio()}});
  return 0;
}

}  // namespace

ProcessTimes run_this_program(const std::vector<std::string>& arguments, const std::string& input) {
  const std::string program = fs::read_symlink("/proc/self/exe").string();
  std::vector<std::string> command{program};
  command.insert(command.end(), arguments.begin(), arguments.end());
  const TemporaryDirectory directory;
  std::ofstream(directory.path() / "input") << input;
  int output[2];
  if (pipe2(output, O_CLOEXEC) != 0) throw std::runtime_error("cannot make a pipe");
  const int in = open((directory.path() / "input").c_str(), O_RDONLY | O_CLOEXEC);
  const Timer timer;
  const pid_t child = start_child({.command = command, .input = in, .output = output[1]});
  close(in);
  close(output[1]);
  ProcessTimes times;
  char buffer[1 << 16];
  ssize_t count = read(output[0], buffer, sizeof buffer);
  times.first_byte = timer.seconds();
  const bool any = count > 0;
  while (count > 0) count = read(output[0], buffer, sizeof buffer);
  close(output[0]);
  int status = 0;
  rusage usage{};
  wait4(child, &status, 0, &usage);
  times.end = timer.seconds();
  times.cpu = cpu_seconds(usage);
  if (!any || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
    throw std::runtime_error("dp " + arguments[0] + " failed; its messages are above");
  return times;
}

FirstToken time_first_token(const ModelConfig& config, int threads) {
  const TemporaryDirectory directory;
  write_random_model(config, directory.path());
  const fs::path file = directory.path() / "model.safetensors";
  FirstToken times;
  times.file_bytes = static_cast<double>(fs::file_size(file));
  times.read_seconds = times.first_token_seconds = std::numeric_limits<double>::infinity();
  for (int round = 0; round < kStartRounds; ++round) {  // the first one may find the page cache cold
    times.read_seconds = std::min(times.read_seconds, time_reading(file));
    const ProcessTimes all =
        run_this_program({"generate", directory.path().string(), "--ids", "1", "--max-tokens", "1",
                          "--ignore-eos", "--threads", std::to_string(threads)});
    times.first_token_seconds = std::min(times.first_token_seconds, all.first_byte);
  }
  return times;
}

Run add_bench_start(CLI::App& app) {
  auto options = std::make_shared<BenchStartOptions>();
  app.add_option("--model", options->model, "config.json or preset to save and start from")
      ->capture_default_str();
  options->json.add_to(app);
  options->threads.add_to(app);
  return [options] { return bench_start(*options); };
}

}  // namespace dp::cli
