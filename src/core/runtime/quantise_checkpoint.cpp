#include <cmath>
#include <deque>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/text.h"
#include "io/checkpoint.h"
#include "runtime/model.h"
#include "runtime/quantise.h"
#include "runtime/stored_floats.h"

namespace dp::runtime {
namespace {
namespace fs = std::filesystem;

bool contains(const std::string& name, std::string_view part) {
  return name.find(part) != std::string::npos;
}

// The projections to beta and to the forget gate are small, and what they give is used in exponents.
bool is_quantised(const StoredTensor& tensor) {
  return tensor.shape.size() == 2 && !contains(tensor.name, ".b_proj") &&
         !contains(tensor.name, ".a_proj");
}

bool is_table(const std::string& name) {
  return contains(name, "embeddings.weight") || contains(name, "lm_head.weight");
}

/// Tensors to be written, and the memory of those that are new.
class Output {
 public:
  void keep(const StoredTensor& tensor) {
    if (is_row_major(tensor)) {
      entries.push_back({tensor.name, tensor.dtype, tensor.shape, tensor.data});
      return;
    }
    floats_.push_back(to_floats(tensor));
    entries.push_back(
        {tensor.name, DType::kF32, tensor.shape, std::as_bytes(std::span(floats_.back()))});
  }

  void add(const std::string& name, WeightFormat format, int64_t rows, int64_t columns,
           QuantisedMatrix quantised) {
    matrices_.push_back(std::move(quantised));
    const QuantisedMatrix& q = matrices_.back();
    const WeightMatrix m =
        q.matrix(format, static_cast<size_t>(rows), static_cast<size_t>(columns));
    const bool is_int8 = format == WeightFormat::kInt8;
    entries.push_back({name,
                       is_int8 ? DType::kI8 : DType::kU8,
                       {rows, static_cast<int64_t>(m.row_bytes())},
                       std::as_bytes(std::span(q.codes))});
    entries.push_back({scale_name(name),
                       DType::kBF16,
                       {rows, static_cast<int64_t>(m.groups())},
                       std::as_bytes(std::span(q.scales))});
  }

  std::vector<TensorEntry> entries;

 private:
  std::deque<QuantisedMatrix> matrices_;
  std::deque<std::vector<float>> floats_;
};

}  // namespace

void quantise_checkpoint(const fs::path& from, const fs::path& to, WeightFormat format,
                         Executor& executor) {
  ModelConfig config = Model::open(from)->config();  // which checks all of it
  const Checkpoint checkpoint = Checkpoint::open(from);
  Output output;
  for (const std::string& name : checkpoint.names()) {
    const StoredTensor tensor = checkpoint.tensor(name);
    if (tensor.dtype == DType::kI8 || tensor.dtype == DType::kU8)
      throw InputError(from.string() + ": tensor " + quote(name) +
                       " is quantised already, expected a model in float32, bfloat16 or float16");
    if (!is_quantised(tensor)) {
      output.keep(tensor);
      continue;
    }
    const std::vector<float> weights = to_floats(tensor);
    for (const float w : weights)
      if (!std::isfinite(w))
        throw InputError(from.string() + ": tensor " + quote(name) +
                         " holds a number that is not finite, which has no quantised form");
    const WeightFormat used = is_table(name) ? WeightFormat::kInt8 : format;
    const auto rows = static_cast<size_t>(tensor.shape[0]);
    const auto columns = static_cast<size_t>(tensor.shape[1]);
    output.add(name, used, tensor.shape[0], tensor.shape[1],
               quantise(weights, rows, columns, used, executor));
  }
  config.dtype = format == WeightFormat::kInt8 ? "int8" : "int4";
  fs::create_directories(to);
  write_checkpoint(to, output.entries);
  write_file_atomically(to / "config.json", to_json(config));
}

}  // namespace dp::runtime
