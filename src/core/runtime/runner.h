// The forward pass: tokens of one or many sequences to features, and features to logits.
// M tokens in all, D model width.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/model.h"

namespace dp::runtime {

/// Tokens that continue a sequence, at least one, and the state that they go on from and leave behind.
struct Segment {
  std::span<const int64_t> tokens;
  State* state = nullptr;  // of this model, or empty for the beginning; each in one segment only
};

/// A model, threads, and the memory they work with. For one thread of control at a time. The bits of its results do
/// not depend on the number of threads; those of a sequence depend on the others only through their number.
class Runner {
 public:
  /// The executor must outlive the runner.
  Runner(std::shared_ptr<const Model> model, Executor& executor);

  const Model& model() const { return *model_; }
  const std::shared_ptr<const Model>& shared_model() const { return model_; }

  /// Throws InputError for tokens outside the vocabulary.
  void check_tokens(std::span<const int64_t> tokens) const;

  /// Features [M,D], the input of the head, of all tokens in their order; valid until the next call. Changes nothing
  /// if a token is outside the vocabulary (InputError). Memory grows with M: give long prompts in blocks. `residuals`,
  /// if given, receives the embeddings and each block's output [M,D].
  std::span<const float> features(std::span<const Segment> segments,
                                  std::vector<std::vector<float>>* residuals = nullptr);
  std::span<const float> features(const Segment& segment) {
    return features(std::span(&segment, 1));
  }
  /// logits [rows,vocab] of features [rows,D].
  void logits(std::span<const float> features, std::span<float> logits);

  /// Tokens of a prompt at a time: enough rows for matrix products to run at full speed, some tens of MB of
  /// activations for a model of 1024 channels.
  static constexpr size_t kBlock = 512;

 private:
  void embed(std::span<const Segment> segments, float* x) const;
  void run_mlp(const Block& block, size_t M, float* x);
  const float* normalise(const float* x, size_t M, const std::vector<float>& weight,
                         Workspace::Slot slot);

  std::shared_ptr<const Model> model_;
  Workspace work_;
  std::vector<SequenceRows> rows_;
};

}  // namespace dp::runtime
