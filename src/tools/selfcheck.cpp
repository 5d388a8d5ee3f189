// dp selfcheck: the operator and whole models against files of inputs and expected results. dp has the kernels and the
// runtime; dp-lab, which it starts where there is one, checks those and what libtorch computes.
#include "tools/selfcheck.h"

#include <CLI/App.hpp>
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "base/quote.h"
#include "tools/command.h"
#include "tools/lab.h"

namespace dp::cli {
namespace {
namespace fs = std::filesystem;

struct CheckResult {
  std::string name;
  bool passed = true;
  Deviation worst;
  std::string problem;  // why it failed, when that is not the deviation
};

CheckResult check(const fs::path& path) {
  CheckResult result{.name = path.stem().string(), .passed = true, .worst = {}, .problem = {}};
  try {
    const bool is_model = path.filename().string().starts_with("model_");
    result.worst = is_model ? check_runtime(path) : check_kernels(path);
    if (const auto lab = is_model ? check_nn(path) : check_operator(path))
      result.worst = std::max(result.worst, *lab);
  } catch (const InputError& error) {
    result.problem = error.what();
  }
  result.passed = result.problem.empty() && !result.worst.failed();
  return result;
}

void print(const CheckResult& result) {
  std::printf("%s %s: ", result.passed ? "PASS" : "FAIL", result.name.c_str());
  if (!result.problem.empty()) {
    std::printf("%s\n", result.problem.c_str());
  } else {
    const Deviation& worst = result.worst;
    std::printf("largest %serror %.1e in %s of %s (tolerance %.0e)\n",
                worst.relative ? "relative " : "", worst.error, worst.tensor.c_str(),
                worst.method.c_str(), worst.tolerance);
  }
  std::fflush(stdout);
}

nlohmann::ordered_json to_json(const CheckResult& result) {
  nlohmann::ordered_json json = {{"name", result.name},
                                 {"status", result.passed ? "passed" : "failed"}};
  if (!result.problem.empty()) {
    json["problem"] = result.problem;
  } else {
    json["error"] = result.worst.error;  // null when infinite
    json["tolerance"] = result.worst.tolerance;
    json["tensor"] = result.worst.tensor;
    json["implementation"] = result.worst.method;
  }
  return json;
}

std::vector<fs::path> list_fixtures(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error))
    throw InputError("--fixtures: " + quote(folder.string()) + " is not a directory");
  std::vector<fs::path> paths;
  for (const fs::directory_entry& item : fs::directory_iterator(folder, error)) {
    const std::string name = item.path().filename().string();
    const bool is_op = name.starts_with("op_") && name.ends_with(".safetensors");
    if (is_op || (name.starts_with("model_") && item.is_directory())) paths.push_back(item.path());
  }
  if (error)
    throw InputError("--fixtures: cannot read " + quote(folder.string()) + ": " + error.message());
  if (paths.empty())
    throw InputError("--fixtures: " + quote(folder.string()) +
                     " holds no op_*.safetensors and no model_*/");
  std::ranges::sort(paths);
  return paths;
}

struct SelfcheckOptions {
  std::string folder;
  bool core = false;
  JsonOption json;
  ThreadsOption threads;
};

int selfcheck(const SelfcheckOptions& options) {
  if (!options.core && !is_lab() && is_lab_installed()) run_in_lab();
  const std::vector<fs::path> paths = list_fixtures(options.folder);
  options.json.check();
  if (is_lab()) set_lab_threads(options.threads.count());
  size_t passed = 0;
  auto files = nlohmann::ordered_json::array();
  for (const fs::path& path : paths) {
    const CheckResult result = check(path);
    print(result);
    passed += result.passed;
    files.push_back(to_json(result));
  }
  const size_t failed = paths.size() - passed;
  options.json.write({{"passed", passed}, {"failed", failed}, {"files", files}});
  std::printf("%zu passed, %zu failed\n", passed, failed);
  return failed ? 1 : 0;
}

}  // namespace

Run add_selfcheck(CLI::App& app) {
  auto options = std::make_shared<SelfcheckOptions>();
  app.add_option("--fixtures", options->folder,
                 "directory of op_*.safetensors and model_*/ to check")
      ->type_name("DIR")
      ->required();
  app.add_flag("--core", options->core, "the kernels and the runtime alone, without libtorch");
  options->json.add_to(app);
  options->threads.add_to(app);
  return [options] { return selfcheck(*options); };
}

}  // namespace dp::cli
