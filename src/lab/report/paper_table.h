// What the paper reports on formal languages, to set beside what was measured.
#pragma once
#include <array>
#include <span>

namespace dp::report {

/// As task_name() has them.
inline constexpr std::array kPaperTasks = {"parity", "mod-arith", "mod-arith-brackets"};

/// Mean scaled accuracies at lengths from 40 to 256, of models trained on lengths from 3 to 40; the best of
/// three seeds.
struct PaperRow {
  const char* model;  // as model_name() has it
  std::array<double, 3> scores;
};

/// In the paper's order.
std::span<const PaperRow> paper_rows();

}  // namespace dp::report
