// A model's directory in another dtype or parameter layout.
#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "base/executor.h"

namespace dp::runtime {

struct ConvertOptions {
  /// float32, bfloat16, float16, int8 or int4; none: as config.json of the source says. In int4 models embeddings and head
  /// are int8; in both, the projections to beta and to the forget gate, convolutions, norms and biases stay as they were.
  std::optional<std::string> dtype;
  bool legacy_layout = false;  // the paper's older names, one tensor per factor
  /// Refuse a dtype in which a weight would change: what models that theory made need.
  bool must_be_exact = false;
};

/// Writes the model of directory `from` to directory `to`, which is made if need be. Tensors of models that the runtime
/// runs are checked against config.json; those of others are taken as they are, and not quantised. Throws InputError that
/// names the tensor at fault, also for a source that is quantised already.
void convert_checkpoint(const std::filesystem::path& from, const std::filesystem::path& to,
                        const ConvertOptions& options, Executor& executor);

}  // namespace dp::runtime
