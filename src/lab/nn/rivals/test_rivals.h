// Rivals by definition, in formulations other than the models' own, for tests.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "io/model_config.h"

namespace dp {

/// Each rival with its options on and off.
std::vector<ModelConfig> rival_configs();

/// A weight of the mixer by name; undefined if it has none.
using WeightOf = std::function<at::Tensor(const std::string& name)>;

/// The mixer that config.architecture names, x [B,T,D] -> [B,T,D], in operators of torch and the dtype of x:
///   transformer    a loop over queries, positions as complex numbers
///   gla            parallel: a matrix of decayed scores, alpha_{s+1} ... alpha_t as exp of a sum of logs
///   mlstm          parallel: the xLSTM paper's matrix of gates, without the running maximum
///   slstm          the xLSTM paper's recurrence without the running maximum
///   mamba          parallel: for each channel and state the matrix of products of transitions
///   rwkv7_product  whole transition matrices, multiplied
at::Tensor reference_rival(const ModelConfig& config, const WeightOf& weight, const at::Tensor& x);

}  // namespace dp
