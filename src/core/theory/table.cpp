#include "theory/table.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <span>

namespace dp::theory {
namespace {

// Splits rows by the column that leaves the fewest pairs of rows with different outcomes together.
class TableTree {
 public:
  explicit TableTree(const std::vector<TableRow>& rows) : rows_(rows) {}

  std::vector<TableLeaf> leaves() {
    std::vector<size_t> all(rows_.size());
    std::iota(all.begin(), all.end(), size_t{0});
    if (!all.empty()) grow(all, {});
    return std::move(leaves_);
  }

 private:
  using Conditions = std::vector<std::pair<size_t, std::vector<int32_t>>>;

  int32_t value(size_t row, size_t column) const { return rows_[row].values[column]; }
  bool is_pure(std::span<const size_t> rows) const {
    return std::ranges::all_of(
        rows, [&](size_t row) { return rows_[row].outcome == rows_[rows.front()].outcome; });
  }

  // Pairs with the same value in the column and different outcomes.
  double mixed_pairs(std::span<const size_t> rows, size_t column) {
    counts_.clear();
    for (const size_t row : rows) counts_.emplace_back(value(row, column), rows_[row].outcome);
    std::ranges::sort(counts_);
    double pairs = 0;
    for (size_t begin = 0; begin < counts_.size();) {
      size_t end = begin;
      double same = 0, run = 0;
      for (; end < counts_.size() && counts_[end].first == counts_[begin].first; ++end) {
        if (end > begin && counts_[end].second != counts_[end - 1].second)
          same += run * run, run = 0;
        ++run;
      }
      same += run * run;
      const auto size = static_cast<double>(end - begin);
      pairs += size * size - same;
      begin = end;
    }
    return pairs;
  }

  void grow(const std::vector<size_t>& rows, const Conditions& conditions) {
    if (is_pure(rows)) {
      leaves_.push_back({conditions, rows_[rows.front()].outcome});
      return;
    }
    size_t best = 0;
    double fewest = -1;
    for (size_t column = rows_[rows.front()].values.size(); column-- > 0;) {
      const bool splits = std::ranges::any_of(
          rows, [&](size_t row) { return value(row, column) != value(rows.front(), column); });
      if (!splits) continue;
      const double pairs = mixed_pairs(rows, column);
      if (fewest < 0 || pairs < fewest) fewest = pairs, best = column;
    }
    std::map<int32_t, std::vector<size_t>> parts;
    for (const size_t row : rows) parts[value(row, best)].push_back(row);
    // Values that settle the outcome share a rule for each outcome.
    std::map<int32_t, std::vector<int32_t>> settled;
    for (const auto& [v, part] : parts)
      if (is_pure(part)) settled[rows_[part.front()].outcome].push_back(v);
    for (auto& [outcome, values] : settled) {
      leaves_.push_back({conditions, outcome});
      leaves_.back().conditions.emplace_back(best, std::move(values));
    }
    for (const auto& [v, part] : parts) {
      if (is_pure(part)) continue;
      Conditions deeper = conditions;
      deeper.emplace_back(best, std::vector{v});
      grow(part, deeper);
    }
  }

  const std::vector<TableRow>& rows_;
  std::vector<TableLeaf> leaves_;
  std::vector<std::pair<int32_t, int32_t>> counts_;
};

}  // namespace

std::vector<TableLeaf> table_leaves(const std::vector<TableRow>& rows) {
  return TableTree(rows).leaves();
}

void add_table(Layer& layer, const std::vector<TableColumn>& columns, std::vector<TableRow> rows,
               const std::function<Terms(int32_t outcome)>& then, const Terms& unless) {
  for (const TableLeaf& leaf : table_leaves(rows)) {
    Rule rule{{}, static_cast<double>(leaf.conditions.size()) - 0.5, 0.5, then(leaf.outcome)};
    for (const auto& [column, values] : leaf.conditions)
      for (const int32_t v : values) {
        const Terms& terms = columns[column].terms[static_cast<size_t>(v)];
        rule.when.insert(rule.when.end(), terms.begin(), terms.end());
      }
    for (const auto& [dimension, weight] : unless) rule.when.emplace_back(dimension, -weight);
    layer.rules.push_back(std::move(rule));
  }
}

}  // namespace dp::theory
