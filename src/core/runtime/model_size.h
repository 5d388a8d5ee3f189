// How large and how costly a configuration is, and configurations of a wanted size.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "io/model_config.h"

namespace dp {

struct ModelSize {
  int64_t embeddings = 0, head = 0;  // parameters; a tied head has none of its own
  int64_t mixers = 0, mlps = 0, norms = 0;
  int64_t state_bytes = 0;                 // of one sequence, whatever its length
  int64_t state_bytes_per_token = 0;       // of one sequence, for each token seen: a Transformer's cache
  int64_t flops_per_token = 0;             // forward: matrix products, recurrence, convolution
  int64_t flops_per_token_and_length = 0;  // more for each token before it: a Transformer's attention

  int64_t parameters() const { return embeddings + head + mixers + mlps + norms; }

  /// Counts a parameter with the part of the model that its name belongs to.
  void add_parameter(const std::string& name, int64_t count, size_t dimensions);
};

namespace runtime {
/// Of a model that the runtime runs; nn/model_size.h has one for all models.
ModelSize model_size(const ModelConfig& config);
}  // namespace runtime

using SizeFunction = std::function<ModelSize(const ModelConfig&)>;

/// What may change to reach a number of parameters: heads (an even number, and the hidden size by the
/// little that then remains, as in the paper's scaling study), width of the heads, or of the MLP.
enum class MatchBy { kHeads, kHeadDim, kMlp };

/// "heads", "head-dim" or "mlp"; throws InputError for anything else.
MatchBy parse_match_by(std::string_view name);

/// The configuration closest to `parameters`, otherwise like `base`, by that measure of size. Throws InputError if even
/// the smallest is too large.
ModelConfig match_size(ModelConfig base, int64_t parameters, MatchBy by,
                       const SizeFunction& model_size);

/// "392M", "1.3B", "20000000" -> a count; throws InputError.
int64_t parse_count(std::string_view text);

/// The inverse for people: 392.3M.
std::string format_count(double count);

}  // namespace dp
