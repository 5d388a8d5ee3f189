// What the lab does for commands of dp (lab.h).
#include <ATen/Parallel.h>

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

Deviation worst_of(const golden::CheckResult& result) {
  if (!result.problem.empty()) throw InputError(result.problem);
  const golden::Deviation& worst = result.worst;
  return {worst.error, worst.tolerance, worst.method, worst.tensor, worst.relative};
}

}  // namespace

std::optional<Deviation> check_operator(const std::filesystem::path& file) {
  return worst_of(golden::check_operator_file(file));
}

std::optional<Deviation> check_nn(const std::filesystem::path& directory) {
  return worst_of(golden::check_model_directory(directory));
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
