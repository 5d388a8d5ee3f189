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

/// The word problems among `runs`, which are in the order of find_runs() and must outlive the result; or
/// the tasks that ask once.
std::vector<Group> group_runs(const std::vector<Run>& runs, bool languages = false);

/// The middle one, or the mean of the two in the middle; none of none.
std::optional<double> median(std::vector<double> values);

}  // namespace dp::report
