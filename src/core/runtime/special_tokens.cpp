#include "runtime/special_tokens.h"

namespace dp::runtime {

std::optional<int32_t> first_token(const Tokenizer& tokenizer, bool bos, bool empty) {
  if (bos && tokenizer.bos()) return tokenizer.bos();
  if (!empty) return std::nullopt;
  return tokenizer.eos() ? tokenizer.eos() : tokenizer.bos();
}

std::vector<int64_t> end_tokens(const ModelConfig& config, const Tokenizer& tokenizer) {
  std::vector<int64_t> tokens = config.eos_token_ids;
  if (const auto eos = tokenizer.eos()) tokens.push_back(*eos);
  return tokens;
}

}  // namespace dp::runtime
