// The parameters of a model where they lie in its files, checked against the shapes that its configuration asks for.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "io/checkpoint.h"
#include "kernels/linear.h"
#include "kernels/sparse_linear.h"
#include "runtime/fingerprint.h"

namespace dp::runtime {

/// [rows,columns], below one another in one or several tensors (older checkpoints have one per factor).
struct Matrix {
  size_t rows = 0, columns = 0;
  std::vector<WeightMatrix> parts;
  std::vector<std::shared_ptr<const void>> memory;  // what the parts point into
  std::shared_ptr<const SparseMatrix> sparse;       // instead of parts, where most weights are 0

  /// The products with this matrix: y [M,rows], parts side by side.
  void list_products(float* y, bool add, std::vector<LinearOutput>& products) const;
  /// One row as float32.
  void widen_row(size_t row, float* out) const;
  float at(size_t row, size_t column) const;
  size_t bytes() const;
};

/// Whether products with weights of 0 are computed, or left out of models in which these are most of all.
enum class Zeros { kMultiply, kLeaveOut };

/// All tensors there are, by name, and where they come from, for error messages.
struct NamedTensors {
  std::string origin;
  std::map<std::string, StoredTensor, std::less<>> tensors;
};

NamedTensors checkpoint_tensors(const Checkpoint& checkpoint);

/// The name of the scales of an int8 or int4 matrix.
inline std::string scale_name(const std::string& name) { return name + "_scale"; }

/// Hands out each parameter once, in the order of nn's LanguageModel::parameters(). Throws InputError in one sentence
/// that names the tensor that is missing, of another shape, or not of numbers.
class WeightReader {
 public:
  WeightReader(NamedTensors tensors, int64_t num_householder, Zeros zeros = Zeros::kMultiply);

  /// float32, bfloat16, int8 and int4 stay where they are; float16 and float64 become float32.
  Matrix matrix(const std::string& name, int64_t rows, int64_t columns);
  /// The same, without its zeros if they are to be left out and most of its weights are.
  Matrix factor(const std::string& name, int64_t rows, int64_t columns);
  /// As float32, whatever it was.
  std::vector<float> floats(const std::string& name, const std::vector<int64_t>& shape);
  /// A tensor that may be there, and is not needed.
  void ignore(const std::string& name) { used_.insert(name); }

  /// Throws InputError if there are tensors that nobody asked for.
  void finish() const;
  /// 16 hexadecimal digits that tell models apart: of names, shapes and a sample of the weights. The same as that of
  /// states which were saved by the older implementation.
  std::string fingerprint() const { return fingerprint_.text(); }

 private:
  std::vector<std::string> part_names(const std::string& name) const;
  const StoredTensor& find(const std::string& name);
  WeightMatrix mapped(const std::string& name, int64_t rows, int64_t columns, Matrix& matrix);
  void attach_scales(const std::string& name, WeightMatrix& part, Matrix& matrix);
  void check_shape(const StoredTensor& tensor, const std::vector<int64_t>& expected) const;

  NamedTensors tensors_;
  int64_t num_householder_;
  Zeros zeros_;
  std::set<std::string, std::less<>> used_;
  Fingerprint fingerprint_;
};

}  // namespace dp::runtime
