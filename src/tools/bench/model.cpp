#include "tools/bench/model.h"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <vector>

#include "base/atomic_file.h"
#include "runtime/parameters.h"
#include "runtime/stored_floats.h"

namespace dp::cli {
namespace {
namespace fs = std::filesystem;

// A fast generator: benchmarks need hundreds of millions of numbers and no statistics.
class RandomBits {
 public:
  explicit RandomBits(uint32_t seed) : state_(seed * 2654435761u + 1) {}
  uint32_t next() { return state_ = state_ * 1664525u + 1013904223u; }
  float uniform(float size) { return size * (static_cast<float>(next() >> 8) * 0x1p-23f - 1); }

 private:
  uint32_t state_;
};

constexpr float kWeightSize = 0.035f;  // a deviation of 0.02

// The name says what a parameter that is not a matrix starts as.
std::vector<float> initial_values(const runtime::ParameterShape& parameter, uint32_t seed) {
  const auto has = [&](const char* part) { return parameter.name.find(part) != std::string::npos; };
  std::vector<float> values(static_cast<size_t>(parameter.count()), 0.0f);
  if (has("norm")) std::ranges::fill(values, 1.0f);
  if (has("dt_bias")) std::ranges::fill(values, -4.0f);
  RandomBits random(seed);
  if (parameter.shape.size() > 1)
    for (float& w : values) w = random.uniform(has("conv1d") ? 0.5f : kWeightSize);
  return values;
}

template <class T>
StoredTensor stored(const std::string& name, DType dtype, std::vector<int64_t> shape,
                    std::vector<T> values) {
  const auto kept = std::make_shared<const std::vector<T>>(std::move(values));
  return {name, "model", dtype, std::move(shape), {}, std::as_bytes(std::span(*kept)), kept};
}

}  // namespace

const char* dtype_name(WeightFormat format) {
  constexpr const char* kNames[] = {"float32", "bfloat16", "int8", "int4"};
  return kNames[static_cast<size_t>(format)];
}

RandomMatrix random_matrix(WeightFormat format, size_t rows, size_t columns, uint32_t seed) {
  RandomMatrix result{{format, rows, columns, nullptr, nullptr}, nullptr};
  RandomBits random(seed);
  WeightMatrix& matrix = result.matrix;
  const size_t bytes = rows * matrix.row_bytes();
  const auto memory = std::make_shared<std::vector<std::max_align_t>>(
      matrix.bytes() / sizeof(std::max_align_t) + 2);
  auto* data = reinterpret_cast<uint8_t*>(memory->data());
  if (format == WeightFormat::kFloat32) {
    auto* floats = reinterpret_cast<float*>(data);
    for (size_t i = 0; i < rows * columns; ++i) floats[i] = random.uniform(kWeightSize);
  } else if (format == WeightFormat::kBFloat16) {
    auto* halves = reinterpret_cast<uint16_t*>(data);
    for (size_t i = 0; i < rows * columns; ++i)
      halves[i] = runtime::to_bfloat16(random.uniform(kWeightSize));
  } else {
    for (size_t i = 0; i < bytes; ++i) data[i] = static_cast<uint8_t>(random.next() >> 24);
    auto* scales = reinterpret_cast<uint16_t*>(data + bytes / 2 * 2);
    std::fill_n(scales, rows * matrix.groups(), runtime::to_bfloat16(kWeightSize / 127));
    matrix.scales = scales;
  }
  matrix.data = data;
  result.memory = memory;
  return result;
}

runtime::NamedTensors random_tensors(const ModelConfig& config, WeightFormat format) {
  runtime::NamedTensors all{"model", {}};
  uint32_t seed = 1;
  for (const runtime::ParameterShape& parameter : runtime::parameter_shapes(config)) {
    const auto& [name, shape] = parameter;
    ++seed;
    if (shape.size() != 2) {
      all.tensors[name] = stored(name, DType::kF32, shape, initial_values(parameter, seed));
      continue;
    }
    const auto [matrix, memory] = random_matrix(format, static_cast<size_t>(shape[0]),
                                                static_cast<size_t>(shape[1]), seed);
    constexpr DType kDtypes[] = {DType::kF32, DType::kBF16, DType::kI8, DType::kU8};
    const size_t bytes = matrix.rows * matrix.row_bytes();
    std::vector<int64_t> stored_shape = shape;
    if (format == WeightFormat::kInt4) stored_shape[1] = static_cast<int64_t>(matrix.row_bytes());
    all.tensors[name] = {name,         "model", kDtypes[static_cast<size_t>(format)],
                         stored_shape, {},      std::as_bytes(std::span(static_cast<const std::byte*>(matrix.data), bytes)),
                         memory};
    if (matrix.scales == nullptr) continue;
    const std::string scales = runtime::scale_name(name);
    all.tensors[scales] = {scales, "model", DType::kBF16,
                           {shape[0], static_cast<int64_t>(matrix.groups())}, {},
                           std::as_bytes(std::span(matrix.scales, matrix.rows * matrix.groups())),
                           memory};
  }
  return all;
}

std::shared_ptr<const runtime::Model> random_model(const ModelConfig& config, WeightFormat format) {
  return std::make_shared<const runtime::Model>(config, random_tensors(config, format));
}

ModelConfig small_config() {
  ModelConfig config;
  config.vocab_size = 8192;
  config.hidden_size = 512;
  config.num_hidden_layers = 6;
  config.num_heads = 8;
  config.head_dim = 64;
  config.expand_v = 1;
  config.num_householder = 1;
  config.use_forget_gate = true;
  config.allow_neg_eigval = true;
  config.intermediate_size = 1024;
  config.tie_word_embeddings = true;
  return config;
}

TemporaryDirectory::TemporaryDirectory() {
  std::string pattern = (fs::temp_directory_path() / "dp-bench-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr)
    throw std::runtime_error("cannot make a temporary directory in " +
                             fs::temp_directory_path().string());
  path_ = pattern;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void write_random_model(const ModelConfig& config, const fs::path& directory) {
  const runtime::NamedTensors tensors = random_tensors(config, WeightFormat::kFloat32);
  std::vector<TensorEntry> entries;
  for (const auto& [name, t] : tensors.tensors) entries.push_back({name, t.dtype, t.shape, t.data});
  write_checkpoint(directory, entries);
  write_file_atomically(directory / "config.json", to_json(config));
}

}  // namespace dp::cli
