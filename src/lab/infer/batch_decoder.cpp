#include "infer/batch_decoder.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace dp {
namespace {

bool any_part_grows(const LanguageModel& model) {
  for (const StateShapes& layer : model.state_shapes())
    for (const auto& [name, shape] : layer)
      if (std::ranges::find(shape, kPerToken) != shape.end()) return true;
  return false;
}

at::Tensor as_ids(std::span<const int64_t> tokens) {
  return at::from_blob(const_cast<int64_t*>(tokens.data()),
                       {1, static_cast<int64_t>(tokens.size())}, at::kLong);
}

// The rows of `first`, if it has any, and then those of each state.
ModelState stack(const ModelState& first, std::span<const ModelState* const> more) {
  ModelState stacked;
  const ModelState& model = first.layers.empty() ? *more.front() : first;
  for (size_t layer = 0; layer < model.layers.size(); ++layer) {
    MixerState& target = stacked.layers.emplace_back();
    for (const auto& [name, tensor] : model.layers[layer]) {
      std::vector<at::Tensor> parts;
      if (!first.layers.empty()) parts.push_back(tensor);
      for (const ModelState* state : more) parts.push_back(state->layers[layer].at(name));
      target[name] = at::cat(parts, 0);
    }
  }
  return stacked;
}

ModelState row_of(const ModelState& stacked, int64_t row) {
  ModelState one;
  for (const MixerState& layer : stacked.layers) {
    MixerState& target = one.layers.emplace_back();
    for (const auto& [name, tensor] : layer) target[name] = tensor.narrow(0, row, 1).clone();
  }
  return one;
}

}  // namespace

BatchDecoder::BatchDecoder(std::shared_ptr<const LanguageModel> model)
    : model_(std::move(model)), grows_(any_part_grows(*model_)) {}

std::vector<at::Tensor> BatchDecoder::take_in(std::span<const PromptPiece> pieces) const {
  const c10::InferenceMode inference;
  std::vector<at::Tensor> features(pieces.size());
  // What begins and what goes on cannot share a call: a state of nothing is not always one of zeros.
  for (const bool begins : {true, false}) {
    std::vector<PromptPiece> together;
    std::vector<at::Tensor*> results;
    for (size_t i = 0; i < pieces.size(); ++i) {
      if (pieces[i].state->layers.empty() != begins) continue;
      if (features[i].defined()) continue;  // of those that had begun just now
      together.push_back(pieces[i]);
      results.push_back(&features[i]);
      if (!grows_) continue;
      take_in_together(together, results);
      together.clear(), results.clear();
    }
    if (!together.empty()) take_in_together(together, results);
  }
  return features;
}

void BatchDecoder::take_in_together(std::span<const PromptPiece> pieces,
                                    std::span<at::Tensor* const> features) const {
  ForwardOptions options;
  if (pieces.size() == 1) {
    options.state = pieces[0].state;
    *features[0] = model_->features(as_ids(pieces[0].tokens), options).squeeze(0);
    return;
  }
  std::vector<int64_t> tokens, offsets = {0};
  std::vector<const ModelState*> states;
  for (const PromptPiece& piece : pieces) {
    tokens.insert(tokens.end(), piece.tokens.begin(), piece.tokens.end());
    offsets.push_back(static_cast<int64_t>(tokens.size()));
    states.push_back(piece.state);
  }
  ModelState state;
  if (!states.front()->layers.empty()) state = stack({}, states);
  options.state = &state;
  options.cu_seqlens = at::tensor(offsets, at::kLong);
  const at::Tensor all = model_->features(as_ids(tokens), options).squeeze(0);
  for (size_t i = 0; i < pieces.size(); ++i) {
    *features[i] = all.slice(0, offsets[i], offsets[i + 1]);
    *pieces[i].state = row_of(state, static_cast<int64_t>(i));
  }
}

void BatchDecoder::join(std::span<const ModelState> sequences) {
  const c10::InferenceMode inference;
  if (sequences.empty()) return;
  if (grows_) {
    alone_.insert(alone_.end(), sequences.begin(), sequences.end());  // never changed in place
  } else {
    std::vector<const ModelState*> states;
    for (const ModelState& state : sequences) states.push_back(&state);
    stacked_ = stack(rows_ > 0 ? stacked_ : ModelState(), states);
  }
  rows_ += static_cast<int64_t>(sequences.size());
}

at::Tensor BatchDecoder::step(std::span<const int64_t> tokens) {
  const c10::InferenceMode inference;
  TORCH_CHECK_VALUE(static_cast<int64_t>(tokens.size()) == rows_,
                    "batch decoder: a step needs one token per row, ", rows_, ", got ",
                    tokens.size(), ".");
  const at::Tensor ids = as_ids(tokens).t();  // [B,1]
  ForwardOptions options;
  if (!grows_) {
    options.state = &stacked_;
    return model_->logits(model_->features(ids, options).select(1, 0));
  }
  std::vector<at::Tensor> features;
  for (int64_t row = 0; row < rows_; ++row) {
    options.state = &alone_[row];
    features.push_back(model_->features(ids.narrow(0, row, 1), options).select(1, 0));
  }
  return model_->logits(at::cat(features, 0));
}

void BatchDecoder::leave(int64_t row) {
  const c10::InferenceMode inference;
  const int64_t last = --rows_;
  if (grows_) {
    std::swap(alone_[row], alone_[last]);
    alone_.pop_back();
    return;
  }
  for (MixerState& layer : stacked_.layers) {
    for (auto& [name, tensor] : layer) {
      if (row != last) tensor.select(0, row).copy_(tensor.select(0, last));
      tensor = tensor.narrow(0, 0, last);
    }
  }
  if (last == 0) stacked_ = {};
}

ModelState BatchDecoder::state(int64_t row) const {
  const c10::InferenceMode inference;
  return grows_ ? alone_[row].clone() : row_of(stacked_, row);
}

}  // namespace dp
