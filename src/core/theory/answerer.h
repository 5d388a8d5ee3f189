// What verification asks of a model: its answer after every token.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/model.h"

namespace dp::theory {

using Tokens = std::vector<int64_t>;

/// An answer is the token with the largest logit.
class Answerer {
 public:
  virtual ~Answerer() = default;
  virtual const ModelConfig& config() const = 0;

  /// The answers after each token of these sequences, which may differ in length.
  virtual std::vector<Tokens> answers(std::span<const Tokens> sequences) = 0;

  /// The same for one sequence that comes in parts: restart() begins a new one.
  virtual void restart() = 0;
  virtual Tokens next_answers(std::span<const int64_t> tokens) = 0;
};

/// A model on so many threads.
std::unique_ptr<Answerer> make_answerer(std::shared_ptr<const runtime::Model> model,
                                        int threads = 1);

}  // namespace dp::theory
