#include "tasks/problem_task.h"

namespace dp {

bool ProblemTask::splits_are_disjoint(int64_t length) const {
  return space_is_divided(problem_.automaton.num_symbols(), length);
}

void ProblemTask::make_sequence(const SequenceKey& key, int64_t* tokens, int64_t* targets) const {
  const Automaton& automaton = problem_.automaton;
  std::vector<int32_t> word(static_cast<size_t>(key.length));
  draw_sequence(
      key, splits_are_disjoint(key.length), word,
      [&](RandomStream& random, std::span<int32_t> sequence) {
        for (int32_t& x : sequence)
          x = static_cast<int32_t>(random.below(static_cast<uint32_t>(automaton.num_symbols())));
      });
  *tokens++ = problem_.bos;
  *targets++ = kNothingAsked;
  int32_t state = automaton.start;
  for (const int32_t x : word) {
    state = automaton.next(state, x);
    *tokens++ = problem_.symbol_tokens[static_cast<size_t>(x)];
    *targets++ = problem_.state_tokens[static_cast<size_t>(state)];
  }
}

}  // namespace dp
