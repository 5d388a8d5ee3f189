#include "report/applied_maps.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "analysis/transition.h"
#include "base/error.h"

namespace dp::report {
namespace {

constexpr double kEqual = 1e-5;  // entries of keys that differ by less are copies

// Whether all keys [R,K] consist of n rows, each there K / n times, and zeros.
bool has_rows(const at::Tensor& keys, int64_t n) {
  const int64_t copies = keys.size(1) / n;
  const at::Tensor rows = keys.narrow(1, 0, n * copies).view({keys.size(0), n, copies});
  const at::Tensor rest = keys.narrow(1, n * copies, keys.size(1) - n * copies);
  const at::Tensor spread = rows.amax(2) - rows.amin(2);
  return spread.max().item<double>() < kEqual &&
         (rest.numel() == 0 || rest.abs().max().item<double>() < kEqual);
}

// The fewest rows that keys [R,K] can consist of.
int64_t fewest_rows(const at::Tensor& keys) {
  int64_t n = 1;
  while (!has_rows(keys, n)) ++n;  // K rows at the latest
  return n;
}

// [R,F,K] -> [R,F,n]: the same directions without copies.
at::Tensor without_copies(const at::Tensor& k, int64_t n) {
  const int64_t copies = k.size(2) / n;
  return k.narrow(2, 0, n * copies).reshape({k.size(0), k.size(1), n, copies}).mean(3) *
         std::sqrt(static_cast<double>(copies));
}

std::vector<double> to_doubles(const at::Tensor& row) {
  const at::Tensor values = row.to(at::kDouble).contiguous();
  return {values.data_ptr<double>(), values.data_ptr<double>() + values.numel()};
}

theory::Matrix matrix_from(const at::Tensor& square) {
  const auto n = static_cast<size_t>(square.size(0));
  const std::vector<double> values = to_doubles(square);
  theory::Matrix matrix(n, n);
  for (size_t i = 0; i < n * n; ++i) matrix(i / n, i % n) = values[i];
  return matrix;
}

// Whether each matrix is that of its element's permutation, but for signs.
bool permute_up_to_sign(const std::vector<AppliedMap>& maps, const FiniteGroup& group) {
  return std::ranges::all_of(maps, [&](const AppliedMap& map) {
    if (static_cast<int64_t>(map.matrix.rows()) != group.degree()) return false;
    for (size_t i = 0; i < map.matrix.rows(); ++i) {
      const auto image =
          static_cast<size_t>(group.permutation(map.element)(static_cast<int64_t>(i)));
      if (std::abs(std::abs(map.matrix(image, i)) - 1) > kEqual) return false;
    }
    return true;
  });
}

theory::Matrix without_signs(theory::Matrix matrix) {
  for (size_t i = 0; i < matrix.rows(); ++i)
    for (size_t j = 0; j < matrix.columns(); ++j) matrix(i, j) = std::abs(matrix(i, j));
  return matrix;
}

}  // namespace

AppliedMaps applied_maps(const LanguageModel& model, const theory::Problem& problem,
                         const FiniteGroup& group, const std::vector<int32_t>& word) {
  AppliedMaps result;
  const ModelConfig& config = model.config();
  result.layer = config.num_hidden_layers - 1;
  result.along_word = !analysis::depends_on_token_alone(config, result.layer);
  std::vector<int64_t> tokens = {problem.bos};
  if (result.along_word)
    for (const int32_t symbol : word)
      tokens.push_back(problem.symbol_tokens[static_cast<size_t>(symbol)]);
  else
    tokens.insert(tokens.end(), problem.symbol_tokens.begin(), problem.symbol_tokens.end());

  const analysis::Factors factors =
      analysis::layer_factors(model, result.layer, at::tensor(tokens, at::kLong).view({1, -1}));
  const at::Tensor k = (factors.k * factors.beta.ne(0).unsqueeze(4))[0].to(at::kDouble);
  const at::Tensor gate = factors.log_gate[0].to(at::kDouble).exp();  // [T,H]
  std::vector<int64_t> heads;                                         // that use any keys
  for (int64_t h = 0; h < k.size(2); ++h)
    if (k.select(2, h).abs().max().item<double>() > kEqual) heads.push_back(h);
  if (heads.empty()) throw InputError("the last layer of the model never changes its state");
  result.heads = static_cast<int64_t>(heads.size());
  result.dimension = fewest_rows(k.select(2, heads.front()).reshape({-1, k.size(3)}));
  result.copies = k.size(3) / result.dimension;

  at::Tensor keys, matrices;  // of the first head
  for (const int64_t h : heads) {
    const at::Tensor own = without_copies(k.select(2, h), result.dimension);
    const at::Tensor applied =
        analysis::transition_matrices(own, factors.beta[0].select(2, h), gate.select(1, h));
    if (h == heads.front()) keys = own, matrices = applied;
    result.heads_differ =
        std::max(result.heads_differ, (applied - matrices).abs().max().item<double>());
  }
  for (int64_t t = 1; t < static_cast<int64_t>(tokens.size()); ++t) {  // after BOS
    const auto element = static_cast<int32_t>(tokens[static_cast<size_t>(t)]);
    AppliedMap map{.element = element,
                   .name = group.element_name(element),
                   .order = group.permutation(element).order(),
                   .betas = to_doubles(factors.beta[0][t].select(1, heads.front())),
                   .keys = {},
                   .matrix = matrix_from(matrices[t])};
    for (int64_t j = 0; j < keys.size(1); ++j) map.keys.push_back(to_doubles(keys[t][j]));
    result.maps.push_back(std::move(map));
  }
  result.up_to_sign = permute_up_to_sign(result.maps, group);
  return result;
}

ProductCheck check_products(const AppliedMaps& maps, const FiniteGroup& group) {
  ProductCheck check;
  std::map<int32_t, theory::Matrix> of;
  for (const AppliedMap& map : maps.maps)
    of.try_emplace(map.element, maps.up_to_sign ? without_signs(map.matrix) : map.matrix);
  for (const auto& [a, first] : of)
    for (const auto& [b, second] : of)
      if (const auto product = of.find(group.multiply(a, b)); product != of.end()) {
        ++check.products;
        check.largest =
            std::max(check.largest, theory::largest_entry(first * second - product->second));
      }
  return check;
}

}  // namespace dp::report
