// Tasks that ask once, the paper's formal languages: a table beside the paper's, charts, words.
#pragma once
#include <string>
#include <vector>

#include "report/chart.h"

namespace dp::report {

/// Rows of a table: model, and for each of kPaperTasks and for their mean what was measured and what the paper
/// has. All models of the paper, then others.
std::string language_table(const std::vector<Run>& runs);

/// Scaled accuracy against the length.
Chart language_chart(const Group& group);

/// "parity, scaled accuracy: DeltaNet [-1,1] 0.990 (paper: 0.982), Transformer 0.010 (paper: 0.022)."
std::string language_verdict(const Group& group);

/// 0.9876 -> "0.988".
std::string score_text(double score);

}  // namespace dp::report
