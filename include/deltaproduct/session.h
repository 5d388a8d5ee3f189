// Decoding one sequence: time and memory per token do not depend on what came before.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

#include <deltaproduct/model.h>

namespace deltaproduct {

/// Keeps its model and threads alive. By one thread at a time; forks of a session share working memory and count as one.
/// Tokens fed one by one, in blocks or all at once give the same logits to rounding. A token like one before it
/// allocates no memory.
class Session {
 public:
  explicit Session(Model model, Threads threads = Threads());
  ~Session();
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;

  /// Takes in any number of tokens. Throws Error for tokens outside the vocabulary, before any is taken in.
  void feed(std::span<const int64_t> tokens);
  void feed(int64_t token) { feed(std::span(&token, 1)); }
  /// Of the token after those fed, [vocabulary]; empty before the first. Valid until the session changes.
  std::span<const float> logits() const;
  int64_t tokens_seen() const;

  /// A session that goes on from here independently. Costs a copy of the state.
  Session fork() const;
  /// Writes the state to a file, which appears only when it is complete.
  void save(const std::filesystem::path& file) const;
  /// Replaces the state by that of a file that save() wrote with a model of the same weights. Throws Error and changes
  /// nothing if the file does not fit.
  void restore(const std::filesystem::path& file);

 private:
  friend class Batch;
  struct Data;
  explicit Session(std::unique_ptr<Data> data);
  std::unique_ptr<Data> data_;
};

}  // namespace deltaproduct
