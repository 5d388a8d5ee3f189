// An analysis as text for a terminal: what each head does in a few lines, and one head in detail.
#pragma once
#include "analysis/analysis.h"

namespace dp::cli {

/// Prints the heads' table, the verdict, and the elements of the head that matters most.
void print_analysis(const analysis::Analysis& analysis);

}  // namespace dp::cli
