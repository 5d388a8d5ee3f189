#include "tools/eval_boundaries.h"

#include <ATen/ATen.h>

#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "analysis/boundary_ranks.h"
#include "base/error.h"
#include "base/progress.h"
#include "base/quote.h"
#include "train/statistics.h"

namespace dp::cli {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kDocumentTokens = 128, kEvery = 8;

// [count, kDocumentTokens], BOS first.
at::Tensor excerpts(const TokenDataset& data, int64_t bos, int64_t count) {
  const auto tokens = static_cast<int64_t>(data.num_tokens());
  if (tokens < count * kDocumentTokens)
    throw InputError(quote(data.directory().string()) + " has " + std::to_string(tokens) + " tokens, expected at least " +
                     std::to_string(count * kDocumentTokens) + " for --boundaries " + std::to_string(count - 1));
  at::Tensor documents = at::full({count, kDocumentTokens}, bos, at::kLong);
  for (int64_t i = 0; i < count; ++i)
    data.read(static_cast<uint64_t>(i * (tokens / count)),
              {documents.data_ptr<int64_t>() + i * kDocumentTokens + 1, static_cast<size_t>(kDocumentTokens - 1)});
  return documents;
}

std::vector<double> values(const at::Tensor& x) {
  const at::Tensor y = x.to(at::kDouble).contiguous();
  return {y.data_ptr<double>(), y.data_ptr<double>() + y.numel()};
}

// ranks [N,O]
ordered_json head_json(const at::Tensor& ranks) {
  const int64_t N = ranks.size(0);
  const at::Tensor before = ranks.slice(0, 0, N - 1).select(1, -1), after = ranks.slice(0, 1).select(1, 0);
  constexpr double kAny = std::numeric_limits<double>::infinity();
  const SeedStatistics change = seed_statistics(values(after - before), -kAny, kAny);
  ordered_json head = {{"mean", values(ranks.mean(0))},
                       {"before", before.mean().item<double>()},
                       {"after", after.mean().item<double>()},
                       {"change", change.mean}};
  if (change.interval) head["low"] = change.interval->low, head["high"] = change.interval->high;
  return head;
}

void print(const ordered_json& layers, int64_t boundaries) {
  std::printf("\neffective rank where documents meet, over %ld boundaries: the mean over heads, and heads whose 95 %% interval of the "
              "change lies on one side of 0\n%8s  %8s  %8s  %6s  %6s\n", boundaries, "layer", "before", "after", "falls", "rises");
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    double before = 0, after = 0;
    int falls = 0, rises = 0;
    for (const ordered_json& head : layers[layer]) {
      before += head["before"].get<double>(), after += head["after"].get<double>();
      falls += head.value("high", 0.0) < 0, rises += head.value("low", 0.0) > 0;
    }
    const auto heads = static_cast<double>(layers[layer].size());
    std::printf("%8zu  %8.2f  %8.2f  %6d  %6d\n", layer, before / heads, after / heads, falls, rises);
  }
}

}  // namespace

ordered_json eval_boundaries(const LanguageModel& model, const TokenDataset& data, int64_t boundaries) {
  if (!model.config().bos_token_id)
    throw InputError("--boundaries: expected a model with a BOS token, config.json has no bos_token_id");
  const at::Tensor documents = excerpts(data, *model.config().bos_token_id, boundaries + 1);
  analysis::BoundaryRanks found;
  {
    Progress progress("boundaries", boundaries + 1);
    found = analysis::boundary_ranks(model, documents, kEvery, [&](int64_t done) { progress.update(done, ""); });
  }
  auto layers = ordered_json::array();
  for (const at::Tensor& ranks : found.layers) {  // [N,O,H]
    auto heads = ordered_json::array();
    for (int64_t head = 0; head < ranks.size(2); ++head) heads.push_back(head_json(ranks.select(2, head)));
    layers.push_back(std::move(heads));
  }
  print(layers, boundaries);
  return {{"documents", boundaries + 1}, {"document_tokens", kDocumentTokens}, {"every", kEvery}, {"layers", std::move(layers)}};
}

}  // namespace dp::cli
