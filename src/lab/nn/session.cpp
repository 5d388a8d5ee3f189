#include "nn/session.h"

#include <ATen/ATen.h>

#include <charconv>

#include "base/error.h"
#include "base/quote.h"
#include "nn/block_reader.h"
#include "nn/tensors.h"
#include "runtime/fingerprint.h"

namespace dp {
namespace {

constexpr const char* kFormat = "deltaproduct-state";

std::string fingerprint(const LanguageModel& model) {
  runtime::Fingerprint fingerprint;
  for (const auto& [name, value] : model.named_values()) {
    const at::Tensor sample = value.detach()
                                  .flatten()
                                  .slice(0, 0, runtime::Fingerprint::kSampled)
                                  .to(at::kFloat)
                                  .contiguous();
    fingerprint.add(name, value.sizes(),
                    std::span(sample.data_ptr<float>(), static_cast<size_t>(sample.numel())));
  }
  return fingerprint.text();
}

std::string entry_name(size_t layer, const std::string& part) {
  return "layers." + std::to_string(layer) + "." + part;
}

const std::string* find(const TensorMetadata& metadata, const std::string& name) {
  const auto found = metadata.find(name);
  return found == metadata.end() ? nullptr : &found->second;
}

at::Tensor load_part(const SafetensorsFile& file, const std::string& name, at::IntArrayRef shape) {
  const at::Tensor tensor = load_tensor(file, name);
  if (tensor.scalar_type() != at::kFloat || tensor.sizes() != shape)
    throw InputError(file.path().string() + ": tensor " + quote(name) + " is " +
                     c10::toString(tensor.scalar_type()) + " of shape " + c10::str(tensor.sizes()) +
                     ", expected Float of shape " + c10::str(shape));
  return tensor.clone();
}

}  // namespace

Session::Session(std::shared_ptr<const LanguageModel> model) : model_(std::move(model)) {}

std::span<const float> Session::logits() const {
  if (!logits_.defined()) return {};
  return {logits_.data_ptr<float>(), static_cast<size_t>(logits_.numel())};
}

void Session::feed(std::span<const int64_t> tokens) {
  const c10::InferenceMode inference;
  for (const int64_t token : tokens)
    if (token < 0 || token >= model_->config().vocab_size)
      throw InputError(c10::str("tokens must be from 0 to ", model_->config().vocab_size - 1,
                                ", got ", token));
  if (tokens.empty()) return;
  const auto count = static_cast<int64_t>(tokens.size());
  const at::Tensor ids = at::from_blob(const_cast<int64_t*>(tokens.data()), {1, count}, at::kLong);
  const at::Tensor last = last_features(*model_, ids, state_);
  tokens_seen_ += count;
  logits_ = model_->logits(last).squeeze(0).to(at::kFloat).contiguous();
}

Session Session::fork() const {
  Session copy(model_);
  copy.state_ = state_.clone();
  copy.logits_ = logits_;  // never changed in place
  copy.tokens_seen_ = tokens_seen_;
  return copy;
}

void Session::save(const std::filesystem::path& path) const {
  std::vector<TensorEntry> entries;
  std::vector<at::Tensor> kept;  // the entries point into these
  const auto add = [&](const std::string& name, const at::Tensor& tensor) {
    kept.push_back(tensor.contiguous());
    entries.push_back(tensor_entry(name, kept.back()));
  };
  for (size_t i = 0; i < state_.layers.size(); ++i)
    for (const auto& [name, tensor] : state_.layers[i]) add(entry_name(i, name), tensor);
  if (logits_.defined()) add("logits", logits_);
  write_safetensors(path, std::move(entries),
                    {{"format", kFormat},
                     {"tokens_seen", std::to_string(tokens_seen_)},
                     {"model", fingerprint(*model_)}});
}

void Session::restore(const std::filesystem::path& path) {
  const SafetensorsFile file(path);
  const std::string* format = find(file.metadata(), "format");
  if (format == nullptr || *format != kFormat)
    throw InputError(path.string() + ": not a saved state: its metadata says format " +
                     quote(format ? *format : "nothing") + ", expected " + quote(kFormat));
  const std::string* made_by = find(file.metadata(), "model");
  if (made_by == nullptr || *made_by != fingerprint(*model_))
    throw InputError(path.string() +
                     ": this state was saved with another model, expected one with these weights");
  int64_t tokens_seen = -1;
  if (const std::string* text = find(file.metadata(), "tokens_seen"))
    std::from_chars(text->data(), text->data() + text->size(), tokens_seen);
  if (tokens_seen < 0)
    throw InputError(path.string() + ": metadata has no tokens_seen, expected a count of tokens");

  ModelState state;
  at::Tensor logits;
  if (tokens_seen > 0) {
    const std::vector<StateShapes> shapes = model_->state_shapes();
    for (size_t i = 0; i < shapes.size(); ++i) {
      MixerState& layer = state.layers.emplace_back();
      for (const auto& [name, shape] : shapes[i]) {
        std::vector<int64_t> with_sequence = {1};
        for (const int64_t length : shape)
          with_sequence.push_back(length == kPerToken ? tokens_seen : length);
        layer[name] = load_part(file, entry_name(i, name), with_sequence);
      }
    }
    logits = load_part(file, "logits", {model_->config().vocab_size});
  }
  state_ = std::move(state);
  logits_ = std::move(logits);
  tokens_seen_ = tokens_seen;
}

}  // namespace dp
