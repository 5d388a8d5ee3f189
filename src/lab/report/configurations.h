// Runs that differ in nothing but their seed belong together, and are told from others in few words.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "report/run.h"

namespace dp::report {

struct Configuration {
  std::string label;   // "n = 2", and what else tells it from the others of its group
  std::string colour;  // the same for the same label on the whole page
  std::vector<const Run*> runs;
};

struct Group {
  std::string name;
  std::vector<Configuration> configurations;
};

/// Those of `runs` with tasks of this kind. They are in the order of find_runs() and must outlive the result.
std::vector<Group> group_runs(const std::vector<Run>& runs, TaskKind kind = TaskKind::kWordProblem);

/// The middle one, or the mean of the two in the middle; none of none.
std::optional<double> median(std::vector<double> values);

}  // namespace dp::report
