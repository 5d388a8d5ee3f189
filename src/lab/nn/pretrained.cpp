#include "nn/pretrained.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <set>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/quote.h"
#include "nn/tensors.h"

namespace dp {
namespace {
namespace fs = std::filesystem;

at::Tensor find_tensor(const Checkpoint& checkpoint, const std::string& name,
                       int64_t num_householder, std::set<std::string>& used) {
  const std::vector<std::string> parts = legacy_names(name, num_householder);
  if (checkpoint.has(name) || parts.empty() || !checkpoint.has(parts[0])) {
    used.insert(name);
    return load_tensor(checkpoint, name);
  }
  used.insert(parts.begin(), parts.end());
  if (is_query_conv(name)) return load_tensor(checkpoint, parts[0]);
  std::vector<at::Tensor> rows;
  for (const std::string& part : parts) {
    rows.push_back(load_tensor(checkpoint, part));
    if (rows.back().dim() == 0 || rows.back().sizes() != rows[0].sizes())
      throw InputError(checkpoint.path().string() + ": tensor " + quote(part) + " has shape " +
                       c10::str(rows.back().sizes()) + ", expected that of " + quote(parts[0]) +
                       ", " + c10::str(rows[0].sizes()));
  }
  return at::cat(rows, 0);
}

// As the model computes with it. Small parameters are worth no bfloat16 code of their own.
at::Tensor usable(const at::Tensor& tensor) {
  if (tensor.scalar_type() == at::kBFloat16 && tensor.dim() == 2) return tensor;
  return tensor.to(at::kFloat);
}

at::ScalarType scalar_type(const std::string& dtype) {
  if (dtype == "float32") return at::kFloat;
  if (dtype == "bfloat16") return at::kBFloat16;
  if (dtype == "float16") return at::kHalf;
  throw InputError("dtype " + quote(dtype) + " is unknown, expected float32, bfloat16 or float16");
}

}  // namespace

LanguageModel load_model(const fs::path& directory) {
  const at::NoGradGuard no_grad;
  const fs::path folder =
      fs::is_regular_file(directory) ? directory.parent_path() : directory;  // or a file of weights
  ModelConfig config = read_model_config(folder);
  const Checkpoint checkpoint = Checkpoint::open(directory);
  LanguageModel model(std::move(config));
  std::set<std::string> used;
  if (model.config().tie_word_embeddings) used.insert("lm_head.weight");
  for (const auto& [name, parameter] : model.parameters()) {
    const at::Tensor tensor = find_tensor(checkpoint, name, model.config().num_householder, used);
    if (tensor.sizes() != parameter->shape)
      throw InputError(checkpoint.path().string() + ": tensor " + quote(name) + " has shape " +
                       c10::str(tensor.sizes()) + ", expected " +
                       c10::str(at::IntArrayRef(parameter->shape)) + " from config.json");
    if (!tensor.is_floating_point())
      throw InputError(checkpoint.path().string() + ": tensor " + quote(name) + " holds " +
                       c10::toString(tensor.scalar_type()) + ", expected floating-point numbers");
    parameter->value = usable(tensor);
  }
  for (const std::string& name : checkpoint.names())
    if (!used.contains(name))
      throw InputError(checkpoint.path().string() + ": tensor " + quote(name) +
                       " has no place in the model that config.json describes");
  return model;
}

void save_model(const LanguageModel& model, const fs::path& directory, const SaveOptions& options) {
  const at::NoGradGuard no_grad;
  ModelConfig config = model.config();
  config.dtype = options.dtype.value_or(config.dtype);
  config.legacy_layout = options.legacy_layout;
  if (options.legacy_layout && config.architecture != Architecture::kDeltaProduct)
    throw InputError("the older layout exists for gated_deltaproduct only, this model is " +
                     quote(model_type(config.architecture)));
  const at::ScalarType dtype = scalar_type(config.dtype);
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  const int64_t N = config.num_householder;
  for (const auto& [name, parameter] : model.named_values()) {
    const at::Tensor value = parameter.detach().to(dtype).contiguous();
    const std::vector<std::string> parts =
        options.legacy_layout ? legacy_names(name, N) : std::vector<std::string>();
    if (parts.empty()) tensors.emplace_back(name, value);
    for (int64_t j = 0; j < static_cast<int64_t>(parts.size()); ++j) {
      const at::Tensor part = is_query_conv(name) ? value : value.chunk(N, 0)[j].contiguous();
      tensors.emplace_back(parts[j], part);
    }
  }
  fs::create_directories(directory);
  write_checkpoint(directory, tensors);
  write_file_atomically(directory / "config.json", to_json(config));
}

}  // namespace dp
