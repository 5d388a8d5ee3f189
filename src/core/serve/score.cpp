#include "serve/score.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace dp::serve {

ScoredToken score_token(std::span<const float> logits, int64_t token, int64_t top) {
  ScoredToken scored{token, std::numeric_limits<double>::quiet_NaN(), {}};
  if (top < 0) return scored;
  const double most = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - most);
  const auto logprob = [&](int64_t t) { return logits[t] - most - std::log(sum); };
  scored.logprob = logprob(token);
  if (top == 0) return scored;
  std::vector<int64_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto count = std::min(static_cast<size_t>(top), order.size());
  std::ranges::partial_sort(
      order, order.begin() + static_cast<ptrdiff_t>(count),
      [&](int64_t a, int64_t b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; });
  for (size_t i = 0; i < count; ++i) scored.top.emplace_back(order[i], logprob(order[i]));
  return scored;
}

}  // namespace dp::serve
