#include "analysis/analysis_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "analysis/verdict.h"

namespace dp::analysis {
namespace {

using nlohmann::ordered_json;

ordered_json to_json(const Score& score) {
  return {{"sequences", score.sequences}, {"answers", score.answers}};
}

ordered_json to_json(const KeySpace& keys) {
  return {{"components_for_95_percent", components_for(keys.centred, kMostVariance)},
          {"explained", keys.centred},
          {"explained_uncentred", keys.uncentred}};
}

ordered_json eigenvalues(const Head& head) {
  auto rows = ordered_json::array();
  for (const auto& values : head.eigenvalues) {
    auto row = ordered_json::array();
    for (const std::complex<double>& value : values)
      row.push_back(ordered_json::array({value.real(), value.imag()}));
    rows.push_back(std::move(row));
  }
  return rows;
}

ordered_json factor(const Head& head, const Verdict& verdict, size_t j) {
  std::vector<double> beta, spread;
  double sum = 0;
  for (size_t e = 0; e < head.beta.size(); ++e) {
    beta.push_back(head.beta[e][j]);
    spread.push_back(head.beta_std[e][j]);
    sum += beta.back();
  }
  return {{"mean", sum / static_cast<double>(beta.size())},
          {"least", *std::ranges::min_element(beta)},
          {"most", *std::ranges::max_element(beta)},
          {"near_two", verdict.near_two[j]},
          {"beta", beta},
          {"beta_std", spread},
          {"keys", to_json(head.factor_keys[j])},
          {"coordinates", head.coordinates[j]}};
}

ordered_json head_json(const Head& head, const std::vector<Element>& elements) {
  const Verdict verdict = judge(head, elements);
  auto factors = ordered_json::array();
  for (size_t j = 0; j < head.factor_keys.size(); ++j) factors.push_back(factor(head, verdict, j));
  return {{"head", head.head},
          {"verdict", verdict.words},
          {"reflections", verdict.reflections},
          {"as_in_paper", verdict.as_in_paper},
          {"accuracy_alone", to_json(head.alone)},
          {"accuracy_cut", to_json(head.cut)},
          {"gate", head.gate},
          {"eigenvalues", eigenvalues(head)},
          {"transition_spread", head.spread},
          {"keys", to_json(head.keys)},
          {"factors", std::move(factors)}};
}

}  // namespace

ordered_json to_json(const Analysis& analysis) {
  auto elements = ordered_json::array(), layers = ordered_json::array();
  for (const Element& element : analysis.elements)
    elements.push_back({{"name", element.name}, {"order", element.order}});
  for (const Layer& layer : analysis.layers) {
    auto heads = ordered_json::array();
    for (const Head& head : layer.heads) heads.push_back(head_json(head, analysis.elements));
    layers.push_back({{"exact", layer.exact},
                      {"fewest_occurrences", layer.fewest_occurrences},
                      {"heads", std::move(heads)}});
  }
  const Head& first = analysis.most_important();
  return {{"group", analysis.group},
          {"elements", std::move(elements)},
          {"factors", analysis.factors},
          {"length", analysis.options.length},
          {"sequences", analysis.options.sequences},
          {"near_two", kNearTwo},
          {"accuracy", to_json(analysis.whole)},
          {"most_important", {{"layer", first.layer}, {"head", first.head}}},
          {"summary", summary(analysis)},
          {"layers", std::move(layers)}};
}

}  // namespace dp::analysis
