// Decoding one sequence: time and memory per token do not depend on what came before.
#pragma once
#include <filesystem>
#include <memory>
#include <span>

#include "nn/language_model.h"

namespace dp {

/// Tokens fed to a session one by one, in blocks or all at once give the same logits to rounding.
class Session {
 public:
  explicit Session(std::shared_ptr<const LanguageModel> model);

  /// Takes in any number of tokens, in blocks of bounded memory. Throws InputError for tokens
  /// outside the vocabulary, before any is taken in.
  void feed(std::span<const int64_t> tokens);
  void feed(int64_t token) { feed(std::span(&token, 1)); }
  /// Logits [vocab] of the token after those fed, until the next are fed; empty before the first.
  std::span<const float> logits() const;
  int64_t tokens_seen() const { return tokens_seen_; }
  const ModelState& state() const { return state_; }

  /// A session that goes on from here independently. Costs a copy of the state.
  Session fork() const;
  /// Writes the state as a safetensors file, atomically.
  void save(const std::filesystem::path& path) const;
  /// Replaces the state by that of a file, made by save() with a model of the same weights. Throws
  /// InputError and changes nothing if the file does not fit.
  void restore(const std::filesystem::path& path);

 private:
  std::shared_ptr<const LanguageModel> model_;
  ModelState state_;
  at::Tensor logits_;
  int64_t tokens_seen_ = 0;
};

}  // namespace dp
