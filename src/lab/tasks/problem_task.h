// Random words of a problem, as a task to evaluate models with.
#pragma once
#include "tasks/task.h"
#include "theory/problem.h"

namespace dp {

/// Symbols drawn with equal probability; the target at each is the automaton's state.
class ProblemTask final : public SequenceTask {
 public:
  explicit ProblemTask(theory::Problem problem) : problem_(std::move(problem)) {}

  const theory::Problem& problem() const { return problem_; }
  int64_t vocab_size() const override { return problem_.vocab_size; }
  double chance() const override {
    return 1.0 / static_cast<double>(problem_.automaton.num_states());
  }
  int64_t num_tokens(int64_t length) const override { return 1 + length; }
  bool splits_are_disjoint(int64_t length) const override;

 protected:
  void make_sequence(const SequenceKey& key, int64_t* tokens, int64_t* targets) const override;

 private:
  theory::Problem problem_;
};

}  // namespace dp
