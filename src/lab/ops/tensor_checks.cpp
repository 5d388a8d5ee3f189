#include "ops/tensor_checks.h"

#include <sstream>
#include <vector>

#include "base/check_input.h"

namespace dp {
namespace {

void check_dense(const char* op, const char* name, const at::Tensor& x) {
  DP_CHECK_INPUT(x.defined(), op, ": ", name, " is an undefined tensor.");
  DP_CHECK_INPUT(x.layout() == at::kStrided, op, ": ", name, " must be a dense tensor, got layout ",
                 x.layout(), ".");
}

std::vector<std::string> split_letters(const std::string& letters) {
  std::vector<std::string> out;
  std::istringstream stream(letters);
  for (std::string letter; std::getline(stream, letter, ',');) out.push_back(letter);
  return out;
}

// "[B,T,E] = [2, 7, E] to match x"; without letters "[2, 7, 3] like x"
std::string describe(const ExpectedShape& expected) {
  std::ostringstream text;
  if (*expected.letters == 0) {
    text << at::IntArrayRef(expected.sizes) << " like " << expected.like;
    return text.str();
  }
  text << "[" << expected.letters << "]";
  if (*expected.like == 0) return text.str();
  const std::vector<std::string> letters = split_letters(expected.letters);
  text << " = [";
  for (size_t i = 0; i < letters.size(); ++i) {
    text << (i == 0 ? "" : ", ");
    if (expected.sizes[i] >= 0)
      text << expected.sizes[i];
    else
      text << letters[i];
  }
  text << "] to match " << expected.like;
  return text.str();
}

}  // namespace

std::string dtype_name(at::ScalarType type) {
  switch (type) {
    case at::kHalf:
      return "float16";
    case at::kBFloat16:
      return "bfloat16";
    case at::kFloat:
      return "float32";
    case at::kDouble:
      return "float64";
    case at::kInt:
      return "int32";
    case at::kLong:
      return "int64";
    default:
      return at::toString(type);
  }
}

bool matches(const at::Tensor& x, const ExpectedShape& expected) {
  if (x.dim() != static_cast<int64_t>(expected.sizes.size())) return false;
  for (int64_t i = 0; i < x.dim(); ++i)
    if (expected.sizes[i] >= 0 && x.size(i) != expected.sizes[i]) return false;
  return true;
}

ArgumentChecks::ArgumentChecks(const char* op, const char* leading_name, const at::Tensor& leading)
    : op_(op), leading_name_(leading_name), leading_(leading) {
  check_dense(op, leading_name, leading);
  const at::ScalarType type = leading.scalar_type();
  DP_CHECK_INPUT(at::isFloatingType(type), op, ": ", leading_name,
                 " must be float32, float64, bfloat16 or float16, got ", dtype_name(type), ".");
}

void ArgumentChecks::leading_has_rows() const {
  DP_CHECK_INPUT(leading_.dim() >= 1 && leading_.size(-1) >= 1, op_, ": ", leading_name_,
                 " must have shape [...,D] with D >= 1, got ", leading_.sizes(), ".");
}

void ArgumentChecks::type(const char* name, const at::Tensor& x, DtypeRule rule) const {
  check_dense(op_, name, x);
  DP_CHECK_INPUT(x.device() == leading_.device(), op_, ": ", name, " must be on ",
                 leading_.device(), " like ", leading_name_, ", got ", x.device(), ".");
  const at::ScalarType got = x.scalar_type(), want = leading_.scalar_type();
  const bool or_float32 = rule == DtypeRule::kSameOrFloat32 && is_16_bit_float(want);
  DP_CHECK_INPUT(got == want || (or_float32 && got == at::kFloat), op_, ": ", name, " must be ",
                 dtype_name(want), " like ", leading_name_, or_float32 ? " or float32" : "",
                 ", got ", dtype_name(got), ".");
}

void ArgumentChecks::shape(const char* name, const at::Tensor& x, const ExpectedShape& expected,
                           const std::string& repair) const {
  DP_CHECK_INPUT(matches(x, expected), op_, ": ", name, " must have shape ", describe(expected),
                 ", got ", x.sizes(), ".", repair);
  for (size_t i = 0; i < expected.sizes.size(); ++i) {
    if (expected.sizes[i] >= 0 || x.size(static_cast<int64_t>(i)) >= 1) continue;
    const std::string letter = split_letters(expected.letters)[i];
    DP_CHECK_INPUT(letter == "B" || letter == "T", op_, ": ", letter, " must be at least 1, got ",
                   name, " of shape ", x.sizes(), ".");
  }
}

void ArgumentChecks::required(const char* name, const at::Tensor& x, const ExpectedShape& expected,
                              DtypeRule rule) const {
  type(name, x, rule);
  shape(name, x, expected);
}

void ArgumentChecks::optional(const char* name, const at::Tensor& x, const ExpectedShape& expected,
                              DtypeRule rule) const {
  if (x.defined()) required(name, x, expected, rule);
}

}  // namespace dp
