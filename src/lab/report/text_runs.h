// Language models: a table, charts and words about what became of them.
#pragma once
#include <string>
#include <vector>

#include "report/chart.h"

namespace dp::report {

/// Head and body of a table with a row per run, those of `groups`; the best of each column is bold. Rows lead to
/// the settings of a run by its place in `runs`.
std::string text_table(const std::vector<Group>& groups, const std::vector<Run>& runs);

/// Loss against position, on a logarithmic and on a linear axis, of the runs that were measured on the same data.
std::vector<std::vector<Chart>> position_charts(const Group& group);

/// Effective rank against position. A chart of all models, then one of each run, in variants: the means of all layers,
/// or one layer with its heads, on both axes.
std::vector<std::vector<Chart>> rank_charts(const Group& group);
/// The layers to choose from, as HTML.
std::string rank_choices(const std::vector<Group>& groups);

/// "Trained on A: DeltaProduct_2 [-1,1] has the lowest perplexity on B, 58.10; ...", and what becomes of loss and effective rank
/// beyond the training length. Of several seeds, their median counts and the range is given. Runs that were measured
/// on different data or trained on different lengths are not compared.
std::vector<std::string> text_verdicts(const Group& group);

/// What a run's name is where each run has its own line: its configuration's label, with the seed if there are several.
std::string run_label(const Configuration& configuration, const Run& run);

/// What its perplexity was measured on: "on data/corpus/validation".
std::string measured_on(const Run& run);
/// That of eval.json, or else of the last evaluation in training.
std::optional<double> perplexity_of(const Run& run);

/// From the training length to the longest that was tested.
struct LossChange {
  int64_t from = 0, to = 0;
  double first = 0, last = 0;  // losses there
};
std::optional<LossChange> loss_change(const Run& run);

/// The mean over all heads: in the second half of the training length, and in the last quarter of the text.
struct RankChange {
  int64_t length = 0;  // of the text
  double first = 0, last = 0;
};
std::optional<RankChange> rank_change(const Run& run);

}  // namespace dp::report
