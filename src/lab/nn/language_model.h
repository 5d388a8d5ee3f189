// The causal language model: embeddings, blocks of token mixer and gated MLP, norm, head.
// B batch, T tokens, D model width, S packed sequences.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "io/model_config.h"
#include "nn/token_mixer.h"
#include "ops/linear_cross_entropy.h"

namespace dp {

/// The model's state between tokens: one per layer.
struct ModelState {
  std::vector<MixerState> layers;  // empty: nothing seen yet

  /// A copy that shares no memory.
  ModelState clone() const;
};

struct ForwardOptions {
  c10::optional<at::Tensor> cu_seqlens;          // [S+1]: ids is one row [1,T] of packed sequences
  ModelState* state = nullptr;                   // read, then replaced; null: nothing carried
  std::vector<at::Tensor>* residuals = nullptr;  // receives embeddings and each block's output
  /// Keep activations of the square root of the number of blocks only, and compute the others again in the
  /// backward pass: a third more time. Not together with a state or residuals.
  bool recompute = false;
};

class LanguageModel {
 public:
  /// The parameters have shapes, but no values until initialise() or load_model().
  explicit LanguageModel(ModelConfig config);
  LanguageModel(LanguageModel&&) noexcept;
  LanguageModel& operator=(LanguageModel&&) noexcept;
  ~LanguageModel();

  const ModelConfig& config() const { return config_; }
  /// In a fixed order. A tied head is not listed: it is the embeddings.
  NamedParameters parameters();
  std::vector<std::pair<std::string, at::Tensor>> named_values() const;

  std::vector<StateShapes> state_shapes() const;  // of each layer, for one sequence
  int64_t recurrence_flops() const;               // of all layers, see TokenMixer

  const TokenMixer& mixer(int64_t layer) const;
  /// The input of a layer's mixer: the norm of its residual stream [B,T,D], one of ForwardOptions::residuals.
  at::Tensor mixer_input(int64_t layer, const at::Tensor& residual) const;

  /// ids [B,T] int64 -> [B,T,D], the input of the head. Throws InputError for tokens outside the
  /// vocabulary.
  at::Tensor features(const at::Tensor& ids, const ForwardOptions& options = {}) const;
  /// features [...,D] -> logits [...,vocab]
  at::Tensor logits(const at::Tensor& features) const;
  /// Mean loss of predicting `targets` [B,T] (ignore_index -100 skipped), and the most likely tokens
  /// [B T], without logits in memory. With label_smoothing e, a target is 1-e plus e/V for every token.
  LinearCrossEntropyOutput loss(const at::Tensor& features, const at::Tensor& targets,
                                double label_smoothing = 0) const;

  /// Logits [B,T,vocab] of a padded batch: mask [B,T] is 1 for tokens and 0 for padding, which takes
  /// part in nothing and gets logits of 0.
  at::Tensor padded_logits(const at::Tensor& ids, const at::Tensor& mask) const;

 private:
  class Block;
  ModelConfig config_;
  Parameter embeddings_, norm_, head_;
  std::vector<std::unique_ptr<Block>> blocks_;
};

/// How fresh matrices are drawn; norms, biases and rates start the same in both.
enum class InitScheme {
  kNormal,  // all matrices normal with deviation config.initializer_range: fla's rule for linear layers
  kPaper,  // as the paper's published code: the layer's projections Xavier-uniform with gain 2^-2.5, its
  // convolutions uniform in +-1/sqrt(taps), the MLP's output uniform in +-1/sqrt(fan-in) divided by
  // sqrt(2 layers), everything else as kNormal
};

/// Fresh weights. The same seed gives the same weights, whatever the number of threads.
void initialise(LanguageModel& model, uint64_t seed, InitScheme scheme = InitScheme::kNormal);

/// Gives every parameter float32 memory of its own that takes part in gradients.
void make_trainable(LanguageModel& model);

}  // namespace dp
