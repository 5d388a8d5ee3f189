#include "nn/golden.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include "base/error.h"

namespace dp::golden {
namespace fs = std::filesystem;

CheckResult run_check(const fs::path& path, const std::function<Deviation()>& check) {
  CheckResult result{.name = path.stem().string(), .passed = true, .worst = {}, .problem = {}};
  try {
    result.worst = check();
  } catch (const InputError& error) {
    result.problem = error.what();
  } catch (const c10::Error& error) {
    result.problem = path.string() + ": " + error.what_without_backtrace();
  }
  result.passed = result.problem.empty() && !result.worst.failed();
  return result;
}

double absolute_error(const at::Tensor& got, const at::Tensor& want) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  if (got.sizes() != want.sizes()) return kInfinite;
  if (want.numel() == 0) return 0;
  const double error = (got.to(at::kDouble) - want.to(at::kDouble)).abs().max().item<double>();
  return std::isfinite(error) ? error : kInfinite;
}

}  // namespace dp::golden
