// Checks of arguments that the operators share. Every mistake is one sentence in an InputError: which operator, which
// tensor, what was expected, what was given.
#pragma once
#include <ATen/ATen.h>
#include <ATen/core/DimVector.h>

#include <string>

#include "ops/optional.h"

namespace dp {

inline bool is_16_bit_float(at::ScalarType type) {
  return type == at::kBFloat16 || type == at::kHalf;
}

/// The dtype of the arithmetic: float32 for the 16-bit types.
inline at::ScalarType compute_type(const at::Tensor& x) {
  return is_16_bit_float(x.scalar_type()) ? at::kFloat : x.scalar_type();
}

/// The names Python users know; at::toString says Float and Double.
std::string dtype_name(at::ScalarType type);

/// Undefined for none.
inline at::Tensor value(const Optional<at::Tensor>& x) { return x ? *x : at::Tensor(); }

/// A shape to match.
struct ExpectedShape {
  const char* letters;    // "B,T,N,H", or "" for the shape of another tensor
  at::DimVector sizes;    // for each letter its size, or -1 for any of at least 1; B and T may be 0
  const char* like = "";  // "k": the argument that the sizes come from
};
bool matches(const at::Tensor& x, const ExpectedShape& expected);

/// Required dtype of a tensor, relative to that of the leading argument.
enum class DtypeRule { kSame, kSameOrFloat32 };  // float32 only beside a 16-bit leading argument

class ArgumentChecks {
 public:
  /// The leading argument, which decides dtype and device: dense and of floating point.
  ArgumentChecks(const char* op, const char* leading_name, const at::Tensor& leading);

  /// The leading argument is of shape [...,D] with D at least 1.
  void leading_has_rows() const;
  /// x is dense, on the leading argument's device and of its dtype.
  void type(const char* name, const at::Tensor& x, DtypeRule rule = DtypeRule::kSame) const;
  /// `repair` is a sentence that says how to mend a common mistake.
  void shape(const char* name, const at::Tensor& x, const ExpectedShape& expected,
             const std::string& repair = "") const;
  /// Type and shape of an argument; an optional one that is not given passes.
  void required(const char* name, const at::Tensor& x, const ExpectedShape& expected,
                DtypeRule rule = DtypeRule::kSame) const;
  void optional(const char* name, const at::Tensor& x, const ExpectedShape& expected,
                DtypeRule rule = DtypeRule::kSameOrFloat32) const;

 private:
  const char* const op_;
  const char* const leading_name_;
  const at::Tensor& leading_;
};

}  // namespace dp
