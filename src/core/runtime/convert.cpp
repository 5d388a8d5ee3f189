#include "runtime/convert.h"

#include <cmath>
#include <deque>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/quote.h"
#include "io/checkpoint.h"
#include "io/legacy_names.h"
#include "runtime/model.h"
#include "runtime/parameters.h"
#include "runtime/quantise.h"
#include "runtime/stored_floats.h"

namespace dp::runtime {
namespace {
namespace fs = std::filesystem;

bool contains(const std::string& name, std::string_view part) {
  return name.find(part) != std::string::npos;
}

// The projections to beta and to the forget gate are small, and what they give is used in exponents.
bool is_quantised(const ParameterShape& parameter) {
  return parameter.shape.size() == 2 && !contains(parameter.name, ".b_proj") &&
         !contains(parameter.name, ".a_proj");
}

bool is_table(const std::string& name) {
  return contains(name, "embeddings.weight") || contains(name, "lm_head.weight");
}

bool is_quantised_dtype(const std::string& dtype) { return dtype == "int8" || dtype == "int4"; }

/// Tensors to be written, and the memory they lie in.
class Output {
 public:
  explicit Output(bool must_be_exact) : must_be_exact_(must_be_exact) {}

  void add(const std::string& name, std::vector<int64_t> shape, std::span<const float> values,
           const std::string& dtype) {
    std::vector<std::byte>& bytes = memory_.emplace_back();
    if (dtype == "float32") {
      const auto all = std::as_bytes(values);
      bytes.assign(all.begin(), all.end());
      entries.push_back({name, DType::kF32, std::move(shape), bytes});
      return;
    }
    const bool is_half = dtype == "float16";
    bytes.resize(values.size() * sizeof(uint16_t));
    for (size_t i = 0; i < values.size(); ++i) {
      const uint16_t bits = is_half ? to_float16(values[i]) : to_bfloat16(values[i]);
      std::memcpy(bytes.data() + i * sizeof(bits), &bits, sizeof(bits));
      check_exact(name, dtype, values[i], is_half ? from_float16(bits) : from_bfloat16(bits));
    }
    entries.push_back({name, is_half ? DType::kF16 : DType::kBF16, std::move(shape), bytes});
  }

  void add_quantised(const std::string& name, const std::vector<int64_t>& shape,
                     std::span<const float> values, WeightFormat format, Executor& executor) {
    for (const float w : values)
      if (!std::isfinite(w))
        throw InputError("tensor " + quote(name) +
                         " holds a number that is not finite, which has no quantised form");
    const auto rows = static_cast<size_t>(shape[0]), columns = static_cast<size_t>(shape[1]);
    matrices_.push_back(quantise(values, rows, columns, format, executor));
    const QuantisedMatrix& q = matrices_.back();
    const WeightMatrix m = q.matrix(format, rows, columns);
    const bool is_int8 = format == WeightFormat::kInt8;
    for (size_t i = 0; must_be_exact_ && i < values.size(); ++i)
      check_exact(name, is_int8 ? "int8" : "int4", values[i],
                  weight_at(m, i / columns, i % columns));
    entries.push_back({name,
                       is_int8 ? DType::kI8 : DType::kU8,
                       {shape[0], static_cast<int64_t>(m.row_bytes())},
                       std::as_bytes(std::span(q.codes))});
    entries.push_back({scale_name(name),
                       DType::kBF16,
                       {shape[0], static_cast<int64_t>(m.groups())},
                       std::as_bytes(std::span(q.scales))});
  }

  std::vector<TensorEntry> entries;

 private:
  void check_exact(const std::string& name, const std::string& dtype, float before,
                   float after) const {
    if (!must_be_exact_ || before == after) return;
    throw InputError("tensor " + quote(name) + " would change: " + std::to_string(before) +
                     " is " + std::to_string(after) + " in " + dtype +
                     ", and a compiled model is exact or not at all");
  }

  bool must_be_exact_;
  std::deque<QuantisedMatrix> matrices_;
  std::deque<std::vector<std::byte>> memory_;
};

/// The parameters of a checkpoint as float32, in either layout.
class Source {
 public:
  Source(const fs::path& path, const ModelConfig& config)
      : checkpoint_(Checkpoint::open(path)), num_householder_(config.num_householder) {
    for (const std::string& name : checkpoint_.names()) {
      const DType dtype = checkpoint_.tensor(name).dtype;
      if (dtype == DType::kI8 || dtype == DType::kU8)
        throw InputError(path.string() + ": tensor " + quote(name) +
                         " is quantised already, expected a model in float32, bfloat16 or float16");
    }
  }

  /// What it holds, in a form that parameter_shapes() has too.
  std::vector<ParameterShape> shapes() const {
    std::vector<ParameterShape> shapes;
    for (const std::string& name : checkpoint_.names())
      shapes.push_back({name, checkpoint_.tensor(name).shape});
    return shapes;
  }

  std::vector<float> values(const std::string& name) const {
    const std::vector<std::string> parts = legacy_names(name, num_householder_);
    if (checkpoint_.has(name) || parts.empty()) return to_floats(checkpoint_.tensor(name));
    std::vector<float> values;
    for (const std::string& part : parts) {
      const std::vector<float> some = to_floats(checkpoint_.tensor(part));
      values.insert(values.end(), some.begin(), some.end());
      if (is_query_conv(name)) break;  // of which the others are not used
    }
    return values;
  }

 private:
  Checkpoint checkpoint_;
  int64_t num_householder_;
};

ModelConfig checked_config(const fs::path& from, const ConvertOptions& options) {
  std::error_code error;
  ModelConfig config = read_model_config(fs::is_regular_file(from, error) ? from.parent_path() : from);
  if (is_supported(config)) {
    config = Model::open(from)->config();  // which checks all of it
  } else if (options.dtype && is_quantised_dtype(*options.dtype)) {
    throw InputError(from.string() + ": model_type is " + quote(model_type(config.architecture)) +
                     ", expected gated_deltaproduct, delta_net or gated_deltanet: only those run in " +
                     *options.dtype);
  }
  if (options.legacy_layout && config.architecture != Architecture::kDeltaProduct)
    throw InputError("the older layout exists for gated_deltaproduct only, this model is " +
                     quote(model_type(config.architecture)));
  config.dtype = options.dtype.value_or(config.dtype);
  config.legacy_layout = options.legacy_layout;
  return config;
}

}  // namespace

void convert_checkpoint(const fs::path& from, const fs::path& to, const ConvertOptions& options,
                        Executor& executor) {
  const ModelConfig config = checked_config(from, options);
  const Source source(from, config);
  Output output(options.must_be_exact);
  const bool quantised = is_quantised_dtype(config.dtype);
  for (const ParameterShape& parameter :
       is_supported(config) ? parameter_shapes(config) : source.shapes()) {
    const std::vector<float> values = source.values(parameter.name);
    std::vector<std::string> names{parameter.name};
    if (options.legacy_layout)
      if (auto parts = legacy_names(parameter.name, config.num_householder); !parts.empty())
        names = std::move(parts);
    const bool repeats = names.size() > 1 && is_query_conv(parameter.name);
    const size_t size = values.size() / (repeats ? 1 : names.size());
    std::vector<int64_t> shape = parameter.shape;
    if (!repeats && names.size() > 1) shape[0] /= static_cast<int64_t>(names.size());
    for (size_t j = 0; j < names.size(); ++j) {
      const auto part = std::span(values).subspan(repeats ? 0 : j * size, size);
      if (!quantised)
        output.add(names[j], shape, part, config.dtype);
      else if (is_quantised(parameter))
        output.add_quantised(names[j], shape, part,
                             config.dtype == "int4" && !is_table(parameter.name)
                                 ? WeightFormat::kInt4
                                 : WeightFormat::kInt8,
                             executor);
      else
        output.add(names[j], shape, part, "float32");
    }
  }
  fs::create_directories(to);
  write_checkpoint(to, output.entries);
  write_file_atomically(to / "config.json", to_json(config));
}

}  // namespace dp::runtime
