#include <CLI/App.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/json.h"
#include "base/quote.h"
#include "tools/command.h"

namespace dp::cli {
namespace {

constexpr int kMostThreads = 1024;

std::string& stored_command_line() {
  static std::string line;
  return line;
}

// torch's own default is one thread in a program that is not Python.
int default_threads() {
  const char* text = std::getenv("OMP_NUM_THREADS");
  const int asked = text ? std::atoi(text) : 0;
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  return std::clamp(asked > 0 ? asked : cores, 1, kMostThreads);
}

}  // namespace

void set_command_line(int argc, const char* const* argv) {
  stored_command_line() = "./dp";
  for (int i = 1; i < argc; ++i) stored_command_line() += " " + shell_quote(argv[i]);
}

const std::string& command_line() { return stored_command_line(); }

CLI::Validator finite_range(double least, double most) {
  char range[64];
  std::snprintf(range, sizeof range, "%g to %g", least, most);
  const std::string expected = range;
  return CLI::Validator(
      [=](const std::string& text) -> std::string {
        char* end = nullptr;
        const double value = std::strtod(text.c_str(), &end);
        const bool number = !text.empty() && *end == '\0';
        if (number && value >= least && value <= most) return "";
        return "expected a number from " + expected + ", got " + quote(text);
      },
      "");
}

void JsonOption::add_to(CLI::App& app) {
  app.add_option("--json", path_, "also write the results to this file as JSON")->type_name("FILE");
}

void JsonOption::check() const {
  if (!path_.empty()) require_writable(path_);
}

void JsonOption::write_quietly(const nlohmann::ordered_json& value) const {
  if (!path_.empty()) write_file_atomically(path_, dump_json(value, 2) + "\n");
}

std::optional<nlohmann::ordered_json> JsonOption::read() const {
  std::ifstream file(path_);
  if (path_.empty() || !file) return std::nullopt;
  auto value = nlohmann::ordered_json::parse(file, nullptr, false);
  if (value.is_discarded()) throw InputError(quote(path_) + ": expected JSON");
  return value;
}

void JsonOption::write(const nlohmann::ordered_json& value) const {
  if (path_.empty()) return;
  write_quietly(value);
  std::printf("wrote %s\n", path_.c_str());
}

void ThreadsOption::add_to(CLI::App& app) {
  app.add_option("--threads", threads_, "threads to use (default: OMP_NUM_THREADS, or all cores)")
      ->type_name("N")
      ->check(CLI::Range(1, kMostThreads));
}

int ThreadsOption::count() const { return threads_ > 0 ? threads_ : default_threads(); }

}  // namespace dp::cli
