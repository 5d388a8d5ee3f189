// What the lab does for commands of dp (lab.h).
#include <ATen/Parallel.h>
#include <c10/util/Exception.h>

#include "base/error.h"
#include "nn/golden.h"
#include "nn/model_size.h"
#include "nn/pretrained.h"
#include "tools/blas_kernels.h"
#include "tools/command.h"
#include "tools/lab.h"
#include "tools/selfcheck.h"

namespace dp::cli {
namespace {

// What libtorch throws for a fixture, in the words of this program.
Deviation checked(const std::filesystem::path& path, Deviation (*check)(const std::filesystem::path&)) {
  try {
    return check(path);
  } catch (const c10::Error& error) {
    throw InputError(path.string() + ": " + error.what_without_backtrace());
  }
}

}  // namespace

std::optional<Deviation> check_operator(const std::filesystem::path& file) {
  return checked(file, golden::check_operator_file);
}

std::optional<Deviation> check_nn(const std::filesystem::path& directory) {
  return checked(directory, golden::check_model_directory);
}

bool is_lab() { return true; }

void set_lab_threads(int threads) {
  at::set_num_threads(threads);
  set_blas_threads(threads);
}

int ThreadsOption::apply() const {
  const int threads = count();
  set_lab_threads(threads);
  return threads;
}

ModelSize size_in_lab(const ModelConfig& config) { return model_size(config); }

void check_model_in_lab(const std::filesystem::path& directory) { load_model(directory); }

}  // namespace dp::cli
