// The commands, and options that several of them have.
#pragma once
#include <CLI/App.hpp>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

namespace dp::cli {

/// Does the work once the options are parsed. Returns the exit code.
using Run = std::function<int()>;

/// add_NAME(app) gives `app` its options and returns what to run.
#define DP_COMMAND(name, help) Run add_##name(CLI::App& app);
#define DP_LAB_COMMAND(name, help) Run add_##name(CLI::App& app);
#define DP_SCRIPT_COMMAND(name, help)
#include "tools/commands.def"
#undef DP_COMMAND
#undef DP_LAB_COMMAND
#undef DP_SCRIPT_COMMAND
Run add_data_fetch(CLI::App& app);
Run add_data_prepare(CLI::App& app);
Run add_tokenizer_train(CLI::App& app);
Run add_bench_op(CLI::App& app);
Run add_bench_train(CLI::App& app);
Run add_bench_rivals(CLI::App& app);
Run add_bench_decode(CLI::App& app);
Run add_bench_serve(CLI::App& app);
Run add_bench_start(CLI::App& app);
Run add_bench_quality(CLI::App& app);
Run add_bench_distributed(CLI::App& app);

/// The command that this process runs, as a shell reads it: "./dp train word-problem --group S3 ...". main() sets it
/// once, before any command runs; train and compile store it beside what they make.
void set_command_line(int argc, const char* const* argv);
const std::string& command_line();

/// A number in this range: neither nan, which CLI::Range takes, nor infinite.
CLI::Validator finite_range(double least, double most);

/// --json FILE
class JsonOption {
 public:
  void add_to(CLI::App& app);
  /// Before long work: throws InputError if the file could not be written.
  void check() const;
  /// Writes the file if one was asked for, and says so.
  void write(const nlohmann::ordered_json& value) const;
  void write_quietly(const nlohmann::ordered_json& value) const;
  /// What the file holds; none if there is no file. Throws InputError if it is not JSON.
  std::optional<nlohmann::ordered_json> read() const;

 private:
  std::string path_;
};

/// --threads N; by default OMP_NUM_THREADS, or else as many as there are cores.
class ThreadsOption {
 public:
  void add_to(CLI::App& app);
  int count() const;
  /// Gives torch and OpenBLAS this many threads each. Returns the number.
  int apply() const;

 private:
  int threads_ = 0;
};

}  // namespace dp::cli
