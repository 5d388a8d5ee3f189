// The page about what the heads of a trained model do.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "analysis/analysis.h"
#include "report/page.h"

namespace dp::report {

/// Charts with more elements than this would be stripes; the others are in the JSON file.
inline constexpr size_t kMostElements = 240;

/// Accuracy of sequences or of answers with each head alone and without it: a pair of bars per head.
ChartVariant heads_chart(const analysis::Analysis& analysis, bool answers);
/// Beta of every element, a row per head and factor of one layer.
ChartVariant beta_chart(const analysis::Analysis& analysis, size_t layer);

/// Charts of one head, shown while it is chosen (choice_of()).
ChartVariant key_chart(const analysis::Analysis& analysis, const analysis::Head& head,
                       size_t component);  // keys along the first component and another, 1 or 2
ChartVariant variance_chart(const analysis::Analysis& analysis, const analysis::Head& head);
ChartVariant eigenvalue_chart(const analysis::Analysis& analysis, const analysis::Head& head);
std::string choice_of(const analysis::Head& head);

std::string make_analysis_page(const analysis::Analysis& analysis, const WebFiles& files);

/// The page appears at `file` once it is complete. Throws InputError if the program has no charts.
void write_analysis_page(const analysis::Analysis& analysis, const std::filesystem::path& file);

}  // namespace dp::report
