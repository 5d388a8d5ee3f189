// A model opened from a directory: its configuration and its weights, mapped. Runner computes with it.
// D model width, L layers.
#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "io/model_config.h"
#include "runtime/token_mixer.h"
#include "runtime/weights.h"

namespace dp::runtime {

/// What the whole model carries from token to token for one sequence; its size does not depend on what came before.
/// A copy goes on independently.
struct State {
  std::vector<std::vector<float>>
      layers;  // one array per layer: the parts of TokenMixer::state_parts(), end to end
  int64_t tokens_seen = 0;

  size_t bytes() const {
    size_t bytes = 0;
    for (const auto& layer : layers) bytes += layer.size() * sizeof(float);
    return bytes;
  }
};

/// A parameter made by a program, row-major.
struct Array {
  std::vector<int64_t> shape;
  std::vector<float> values;
};

/// x + mixer(norm(x)), then x + down(silu(gate(norm(x))) up(norm(x))).
struct Block {
  std::vector<float> mixer_norm, mlp_norm;  // [D]
  std::unique_ptr<TokenMixer> mixer;
  Matrix gate_proj, up_proj, down_proj;  // [width,D], [width,D], [D,width]
};

/// Whether Model runs models of this kind; rivals run in the lab alone.
bool is_supported(const ModelConfig& config);

/// Does not change once it is open: any number of Runners may use it at the same time.
class Model {
 public:
  /// A directory with config.json and weights, or a file of weights with a config.json beside it. Throws InputError
  /// that names the file, and the field or tensor at fault.
  static std::shared_ptr<const Model> open(const std::filesystem::path& path,
                                           Zeros zeros = Zeros::kMultiply);
  /// A model put together by a program, under the names of docs/checkpoints.md.
  static std::shared_ptr<const Model> from_arrays(const ModelConfig& config,
                                                  std::map<std::string, Array> arrays,
                                                  Zeros zeros = Zeros::kMultiply);

  Model(ModelConfig config, NamedTensors tensors, Zeros zeros = Zeros::kMultiply);

  const ModelConfig& config() const { return config_; }
  const Matrix& embeddings() const { return embeddings_; }  // [vocab,D]
  const std::vector<Block>& blocks() const { return blocks_; }
  const std::vector<float>& norm() const { return norm_; }  // [D]
  const Matrix& head() const { return config_.tie_word_embeddings ? embeddings_ : head_; }

  /// Of a sequence of which nothing was seen yet.
  State new_state() const;
  /// Tells models apart whose states have the same shapes.
  const std::string& fingerprint() const { return fingerprint_; }
  /// What one step of decoding reads of the matrices.
  size_t bytes_per_token() const;

 private:
  ModelConfig config_;
  Matrix embeddings_, head_;
  std::vector<Block> blocks_;
  std::vector<float> norm_;
  std::string fingerprint_;
};

}  // namespace dp::runtime
