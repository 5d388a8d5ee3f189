// What models are called: on the command line, and among people.
#pragma once
#include <string>
#include <vector>

#include "io/model_config.h"

namespace dp {

/// "DeltaProduct_2", "Gated DeltaNet", "Mamba", "sLSTM", "RWKV-7" and with several factors "RWKV-7_2".
std::string architecture_name(const ModelConfig& config);

/// That, and the range of the eigenvalues where there is a choice: "DeltaProduct_2 [-1,1]".
std::string model_name(const ModelConfig& config);

/// Settings that only some models have.
enum ModelTrait : unsigned {
  kHasHeads = 1,           // num_heads, head_dim
  kHasEigenvalues = 2,     // allow_neg_eigval
  kHasFactors = 4,         // num_householder
  kHasForgetGate = 8,      // use_forget_gate, to choose
  kHasOutputGate = 16,     // use_output_gate
  kHasPaperInit = 32,      // drawn as the paper's published code does, if asked to
  kHasChannelState = 64,   // state_size, expand
};
/// Their options on the command line.
std::vector<std::string> models_with(ModelTrait trait);

/// What `dp train --model` takes: "deltaproduct", "delta-net", ...
std::vector<std::string> model_options();
/// The architecture that one of these names, and back. Throws InputError for another word.
Architecture parse_model_option(const std::string& option);
std::string model_option(const ModelConfig& config);

}  // namespace dp
