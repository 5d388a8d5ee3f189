#include "runtime/state_file.h"

#include <charconv>
#include <cstring>

#include "base/error.h"
#include "base/quote.h"
#include "io/safetensors.h"

namespace dp::runtime {
namespace {

constexpr const char* kFormat = "deltaproduct-state";

std::string entry_name(size_t layer, const std::string& part) {
  return "layers." + std::to_string(layer) + "." + part;
}

// As stored: the first axis is the sequence.
std::vector<int64_t> stored_shape(const StatePart& part) {
  std::vector<int64_t> shape = part.shape;
  shape.insert(shape.begin(), 1);
  return shape;
}

const std::string* find(const TensorMetadata& metadata, const std::string& name) {
  const auto found = metadata.find(name);
  return found == metadata.end() ? nullptr : &found->second;
}

void read_part(const SafetensorsFile& file, const std::string& name,
               const std::vector<int64_t>& shape, std::span<float> out) {
  const TensorEntry& entry = file.at(name);
  if (entry.dtype != DType::kF32 || entry.shape != shape)
    throw InputError(file.path().string() + ": tensor " + quote(name) + " is " +
                     std::string(dtype_name(entry.dtype)) + " of shape " + shape_text(entry.shape) +
                     ", expected F32 of shape " + shape_text(shape));
  std::memcpy(out.data(), entry.data.data(), entry.data.size());
}

int64_t tokens_seen_in(const SafetensorsFile& file) {
  int64_t tokens_seen = -1;
  if (const std::string* text = find(file.metadata(), "tokens_seen"))
    std::from_chars(text->data(), text->data() + text->size(), tokens_seen);
  constexpr int64_t kMost = int64_t{1} << 53;  // so that counting on does not overflow
  if (tokens_seen < 0 || tokens_seen > kMost)
    throw InputError(file.path().string() +
                     ": metadata has no tokens_seen of 0 to 2^53, expected a count of tokens");
  return tokens_seen;
}

void check_origin(const SafetensorsFile& file, const Model& model) {
  const std::string* format = find(file.metadata(), "format");
  if (format == nullptr || *format != kFormat)
    throw InputError(file.path().string() + ": not a saved state: its metadata says format " +
                     quote(format ? *format : "nothing") + ", expected " + quote(kFormat));
  const std::string* made_by = find(file.metadata(), "model");
  if (made_by == nullptr || *made_by != model.fingerprint())
    throw InputError(file.path().string() +
                     ": this state was saved with another model, expected one with these weights");
}

}  // namespace

void write_state(const std::filesystem::path& path, const Model& model, const State& state,
                 std::span<const float> logits) {
  std::vector<TensorEntry> entries;
  for (size_t i = 0; state.tokens_seen > 0 && i < state.layers.size(); ++i)
    for (const StatePart& part : model.blocks()[i].mixer->state_parts())
      entries.push_back(
          {entry_name(i, part.name), DType::kF32, stored_shape(part),
           std::as_bytes(std::span(state.layers[i]).subspan(part.offset, part.size))});
  if (!logits.empty())
    entries.push_back(
        {"logits", DType::kF32, {static_cast<int64_t>(logits.size())}, std::as_bytes(logits)});
  write_safetensors(path, std::move(entries),
                    {{"format", kFormat},
                     {"tokens_seen", std::to_string(state.tokens_seen)},
                     {"model", model.fingerprint()}});
}

void read_state(const std::filesystem::path& path, const Model& model, State& state,
                std::vector<float>& logits) {
  const SafetensorsFile file(path);
  file.verify();
  check_origin(file, model);
  State read = model.new_state();
  std::vector<float> read_logits;
  read.tokens_seen = tokens_seen_in(file);
  if (read.tokens_seen > 0) {
    for (size_t i = 0; i < read.layers.size(); ++i)
      for (const StatePart& part : model.blocks()[i].mixer->state_parts())
        read_part(file, entry_name(i, part.name), stored_shape(part),
                  std::span(read.layers[i]).subspan(part.offset, part.size));
    read_logits.resize(static_cast<size_t>(model.config().vocab_size));
    read_part(file, "logits", {model.config().vocab_size}, read_logits);
  }
  state = std::move(read);
  logits = std::move(read_logits);
}

}  // namespace dp::runtime
