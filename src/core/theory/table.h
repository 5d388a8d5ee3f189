// Look-up tables as rules: from what some columns of features say to one of several outcomes.
#pragma once
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "theory/network.h"

namespace dp::theory {

/// What tells the value of a column: terms[v] are 1 in sum if the value is v, and 0 otherwise.
struct TableColumn {
  std::vector<Terms> terms;
};

/// One entry: a value for each column, and the outcome.
struct TableRow {
  std::vector<int32_t> values;
  int32_t outcome;
};

/// Adds rules that find the outcome of any of these rows; what happens for values that are no row's is not
/// said. Columns that do not matter are not asked: the rules are the leaves of a decision tree, so that of the
/// rows' values exactly one rule applies. `unless` are terms that keep all of them from applying where they sum to 1.
/// `then` says what an outcome adds to the stream.
void add_table(Layer& layer, const std::vector<TableColumn>& columns, std::vector<TableRow> rows,
               const std::function<Terms(int32_t outcome)>& then, const Terms& unless = {});

/// The rules of that tree without a network: which values of which columns lead to an outcome.
struct TableLeaf {
  std::vector<std::pair<size_t, std::vector<int32_t>>> conditions;  // column and its values
  int32_t outcome;
};
std::vector<TableLeaf> table_leaves(const std::vector<TableRow>& rows);

}  // namespace dp::theory
