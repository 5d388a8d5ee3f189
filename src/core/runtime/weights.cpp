#include "runtime/weights.h"

#include <algorithm>
#include <array>

#include "base/closest.h"
#include "base/error.h"
#include "base/quote.h"
#include "io/legacy_names.h"
#include "runtime/stored_floats.h"

namespace dp::runtime {
namespace {

constexpr size_t kDenseSpeed = 8;  // weights that a dense product takes in the time of one of a sparse product

bool is_aligned(const StoredTensor& tensor) {
  return reinterpret_cast<uintptr_t>(tensor.data.data()) % dtype_size(tensor.dtype) == 0;
}

// Where the tensor lies, or a copy where it is not aligned.
const void* place(const StoredTensor& tensor, Matrix& matrix) {
  if (is_aligned(tensor)) {
    matrix.memory.push_back(tensor.mapping);
    return tensor.data.data();
  }
  auto copy = std::make_shared<std::vector<std::max_align_t>>(
      tensor.data.size() / sizeof(std::max_align_t) + 1);
  std::memcpy(copy->data(), tensor.data.data(), tensor.data.size());
  matrix.memory.push_back(copy);
  return copy->data();
}

}  // namespace

NamedTensors checkpoint_tensors(const Checkpoint& checkpoint) {
  NamedTensors all{checkpoint.path().string(), {}};
  for (const std::string& name : checkpoint.names()) all.tensors[name] = checkpoint.tensor(name);
  return all;
}

void Matrix::list_products(float* y, bool add, std::vector<LinearOutput>& products) const {
  for (const WeightMatrix& part : parts) {
    products.push_back({part, y, rows, add});
    y += part.rows;
  }
}

void Matrix::widen_row(size_t row, float* out) const {
  const WeightMatrix* part = parts.data();
  for (; row >= part->rows; ++part) row -= part->rows;
  dp::widen_row(*part, row, out);
}

float Matrix::at(size_t row, size_t column) const {
  const WeightMatrix* part = parts.data();
  for (; row >= part->rows; ++part) row -= part->rows;
  return weight_at(*part, row, column);
}

size_t Matrix::bytes() const {
  size_t bytes = sparse ? sparse->bytes() : 0;
  for (const WeightMatrix& part : parts) bytes += part.bytes();
  return bytes;
}

WeightReader::WeightReader(NamedTensors tensors, int64_t num_householder, Zeros zeros)
    : tensors_(std::move(tensors)), num_householder_(num_householder), zeros_(zeros) {}

const StoredTensor& WeightReader::find(const std::string& name) {
  const auto found = tensors_.tensors.find(name);
  if (found == tensors_.tensors.end()) {
    std::vector<std::string> names;
    for (const auto& [other, tensor] : tensors_.tensors) names.push_back(other);
    const std::string like = closest(name, names);
    throw InputError(tensors_.origin + ": has no tensor " + quote(name) +
                     (like.empty() ? "" : "; the most like it is " + quote(like)));
  }
  used_.insert(name);
  return found->second;
}

// The tensors that together are a parameter: itself, or one per factor in the older layout.
std::vector<std::string> WeightReader::part_names(const std::string& name) const {
  const std::vector<std::string> first = legacy_names(name, 1);
  if (tensors_.tensors.contains(name) || first.empty() || !tensors_.tensors.contains(first[0]))
    return {name};
  // A config.json is not to be believed about a number that would take gigabytes of names to disprove.
  if (num_householder_ > static_cast<int64_t>(tensors_.tensors.size()))
    throw InputError(tensors_.origin + ": has " + std::to_string(tensors_.tensors.size()) +
                     " tensors, expected at least one for each of the " +
                     std::to_string(num_householder_) + " factors (num_householder of config.json)");
  return legacy_names(name, num_householder_);
}

void WeightReader::check_shape(const StoredTensor& tensor,
                               const std::vector<int64_t>& expected) const {
  if (tensor.shape != expected)
    throw InputError(tensors_.origin + ": tensor " + quote(tensor.name) + " has shape " +
                     shape_text(tensor.shape) + ", expected " + shape_text(expected) +
                     " from config.json");
}

void WeightReader::attach_scales(const std::string& name, WeightMatrix& part, Matrix& matrix) {
  const StoredTensor& scales = find(scale_name(name));
  check_shape(scales, {static_cast<int64_t>(part.rows), static_cast<int64_t>(part.groups())});
  if (scales.dtype != DType::kBF16 || !is_row_major(scales))
    throw InputError(tensors_.origin + ": tensor " + quote(scales.name) + " holds " +
                     std::string(dtype_name(scales.dtype)) + ", expected scales in BF16, row by row");
  part.scales = static_cast<const uint16_t*>(place(scales, matrix));
}

// One tensor of a matrix, where it lies if its dtype is one that products read.
WeightMatrix WeightReader::mapped(const std::string& name, int64_t rows, int64_t columns,
                                  Matrix& matrix) {
  const StoredTensor& tensor = find(name);
  WeightMatrix part{WeightFormat::kFloat32, static_cast<size_t>(rows), static_cast<size_t>(columns),
                    nullptr, nullptr};
  const bool is_int4 = tensor.dtype == DType::kU8, is_int8 = tensor.dtype == DType::kI8;
  if (is_int4) part.format = WeightFormat::kInt4;
  if (is_int8) part.format = WeightFormat::kInt8;
  if (tensor.dtype == DType::kBF16) part.format = WeightFormat::kBFloat16;
  check_shape(tensor, {rows, is_int4 ? static_cast<int64_t>(part.row_bytes()) : columns});
  if (is_row_major(tensor) &&
      (is_int4 || is_int8 || tensor.dtype == DType::kBF16 || tensor.dtype == DType::kF32)) {
    part.data = place(tensor, matrix);
    if (is_int4 || is_int8) attach_scales(name, part, matrix);
    return part;
  }
  auto values = std::make_shared<const std::vector<float>>(to_floats(tensor));
  part.format = WeightFormat::kFloat32;
  part.data = values->data();
  matrix.memory.push_back(std::move(values));
  return part;
}

Matrix WeightReader::matrix(const std::string& name, int64_t rows, int64_t columns) {
  Matrix matrix{static_cast<size_t>(rows), static_cast<size_t>(columns), {}, {}, nullptr};
  const std::vector<std::string> parts = part_names(name);
  const auto count = static_cast<int64_t>(parts.size());
  for (const std::string& part : parts)
    matrix.parts.push_back(mapped(part, rows / count, columns, matrix));
  std::vector<float> sample;
  for (size_t i = 0; i < std::min(Fingerprint::kSampled, matrix.rows * matrix.columns); ++i)
    sample.push_back(matrix.at(i / matrix.columns, i % matrix.columns));
  fingerprint_.add(name, std::array{rows, columns}, sample);
  return matrix;
}

Matrix WeightReader::factor(const std::string& name, int64_t rows, int64_t columns) {
  Matrix dense = matrix(name, rows, columns);
  const bool is_floating = std::ranges::all_of(dense.parts, [](const WeightMatrix& part) {
    return part.format == WeightFormat::kFloat32 || part.format == WeightFormat::kBFloat16;
  });
  if (zeros_ == Zeros::kMultiply || !is_floating) return dense;
  auto sparse = std::make_shared<const SparseMatrix>(dense.parts);
  if (sparse->values.size() * kDenseSpeed > dense.rows * dense.columns) return dense;
  return {dense.rows, dense.columns, {}, {}, std::move(sparse)};
}

std::vector<float> WeightReader::floats(const std::string& name,
                                        const std::vector<int64_t>& shape) {
  std::vector<float> values;
  const std::vector<std::string> parts = part_names(name);
  std::vector<int64_t> part_shape = shape;
  if (!is_query_conv(name)) part_shape[0] /= static_cast<int64_t>(parts.size());
  for (const std::string& part : parts) {
    const StoredTensor& tensor = find(part);
    if (part != parts[0] && is_query_conv(name)) continue;
    check_shape(tensor, part_shape);
    const std::vector<float> some = to_floats(tensor);
    values.insert(values.end(), some.begin(), some.end());
  }
  fingerprint_.add(name, shape, values);
  return values;
}

void WeightReader::finish() const {
  for (const auto& [name, tensor] : tensors_.tensors)
    if (!used_.contains(name))
      throw InputError(tensors_.origin + ": tensor " + quote(name) +
                       " has no place in the model that config.json describes");
}

}  // namespace dp::runtime
