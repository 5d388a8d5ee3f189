#include "tasks/word_problem.h"

#include <algorithm>

#include "base/error.h"
#include "base/quote.h"

namespace dp {
namespace {

constexpr int64_t kMaxTokensPerElement = 64;

std::vector<int32_t> elements_moving_at_most(const FiniteGroup& group, int64_t points) {
  std::vector<int32_t> elements;
  for (int32_t a = 0; a < group.order(); ++a)
    if (points == 0 || group.permutation(a).moved_points() <= points) elements.push_back(a);
  return elements;
}

// Each element that the ones before it do not generate comes first, then the others.
std::vector<int32_t> generators_first(const FiniteGroup& group, std::vector<int32_t> elements,
                                      bool most_moved_first) {
  std::ranges::stable_sort(elements, {}, [&](int32_t a) {
    const int64_t moved = group.permutation(a).moved_points();
    return most_moved_first ? -moved : moved;
  });
  std::vector<int32_t> generators, generated = {FiniteGroup::identity()};
  for (const int32_t a : elements) {
    if (std::ranges::binary_search(generated, a)) continue;
    generators.push_back(a);
    generated = group.subgroup(generators);
  }
  std::stable_partition(elements.begin(), elements.end(), [&](int32_t a) {
    return std::ranges::find(generators, a) != generators.end();
  });
  return elements;
}

}  // namespace

Settings WordProblemOptions::settings() {
  return {text_setting("group", "task.group", group, "the group: S3, A5, Z7, D4, S3xZ2, ..."),
          integer_setting("max-moved", "task.max_moved", max_moved, 0, 1 << 20,
                          "use only permutations that move at most this many points as input; 0: all"),
          integer_setting("tokens-per-element", "task.tokens_per_element", tokens_per_element, 1,
                          kMaxTokensPerElement, "tokens per element of the group"),
          flag_setting("most-moved-first", "task.most_moved_first", most_moved_first,
                       "start --curriculum-letters with the elements that move the most points "
                       "instead of the fewest")};
}

std::shared_ptr<const Task> WordProblemOptions::make_task() const {
  return std::make_shared<WordProblem>(*this);
}

WordProblem::WordProblem(const WordProblemOptions& options)
    : options_(options), group_(FiniteGroup::parse(options.group)) {
  if (options.tokens_per_element < 1 || options.tokens_per_element > kMaxTokensPerElement)
    throw InputError("tokens_per_element: expected 1 to " + std::to_string(kMaxTokensPerElement) +
                     ", found " + std::to_string(options.tokens_per_element));
  if (options.max_moved < 0)
    throw InputError(
        "max_moved: expected 0 for all elements, or how many points they may move, "
        "found " +
        std::to_string(options.max_moved));
  alphabet_ = elements_moving_at_most(group_, options.max_moved);
  if (group_.order() < 2)
    throw InputError("group " + quote(options.group) +
                     ": expected at least two elements, found one");
  if (alphabet_.size() < 2)
    throw InputError("max_moved: expected a number of points that some element of " +
                     group_.name() + " besides the identity moves at most, found " +
                     std::to_string(options.max_moved));
  letters_ = generators_first(group_, alphabet_, options.most_moved_first);
  answers_ = group_.subgroup(alphabet_);
}

std::string WordProblem::token_name(int64_t token) const {
  if (token == bos()) return "BOS";
  const std::string& name = group_.element_name(static_cast<int32_t>(token % group_.order()));
  if (options_.tokens_per_element == 1) return name;
  return name + "/" + std::to_string(token / group_.order() + 1);
}

bool WordProblem::splits_are_disjoint(int64_t length) const {
  return space_is_divided(static_cast<int64_t>(alphabet_.size()), length);
}

void WordProblem::make_sequence(const SequenceKey& key, int64_t* tokens, int64_t* targets) const {
  thread_local std::vector<int32_t> elements;
  elements.resize(static_cast<size_t>(key.length));
  const std::vector<int32_t>& symbols = key.letters > 0 ? letters_ : alphabet_;
  const int64_t letters = key.letters > 0 ? key.letters : num_letters();
  draw_sequence(key, space_is_divided(letters, key.length), elements,
                [&](RandomStream& random, std::span<int32_t> sequence) {
                  for (int32_t& x : sequence)
                    x = symbols[random.below(static_cast<uint32_t>(letters))];
                });

  *tokens++ = bos();
  *targets++ = kNothingAsked;
  const int64_t last = options_.tokens_per_element - 1;
  int32_t y = FiniteGroup::identity();
  for (const int32_t x : elements) {
    y = group_.multiply(x, y);
    for (int64_t part = 0; part <= last; ++part) {
      *tokens++ = token(x, part);
      *targets++ = part == last ? y : kNothingAsked;
    }
  }
}

}  // namespace dp
