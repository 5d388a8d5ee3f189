#include "report/configurations.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

namespace dp::report {
namespace {

// Readable on white and on black, also for most of those who see colours differently.
constexpr const char* kColours[] = {"#4c78a8", "#f58518", "#54a24b", "#e45756", "#72b7b2",
                                    "#b279a2", "#eeca3b", "#9d755d", "#ff9da6", "#8a8f98",
                                    "#2ca6c9", "#7f5fc4", "#a3b13a", "#c2527e", "#1f8a70"};

std::string label_of(const Run& run, const std::vector<size_t>& shown) {
  std::string label;
  for (const size_t trait : shown) label += (label.empty() ? "" : ", ") + run.traits[trait];
  return label;
}

using RunsByGroup = std::map<std::string, std::vector<const Run*>>;

// Different values of `key` among the runs of one group, summed over the groups.
template <class Key>
size_t count_different(const RunsByGroup& groups, Key key) {
  size_t count = 0;
  for (const auto& [name, runs] : groups) {
    std::set<std::string> different;
    for (const Run* run : runs) different.insert(key(*run));
    count += different.size();
  }
  return count;
}

// n always; layers and eigenvalues where a group has several of these; of the rest, what is needed to
// tell configurations apart.
std::vector<size_t> traits_to_show(const RunsByGroup& groups, size_t num_traits) {
  std::vector<size_t> shown = {kTraitModel};
  for (const size_t trait : {kTraitLayers, kTraitEigenvalues})
    if (count_different(groups, [&](const Run& run) { return run.traits[trait]; }) > groups.size())
      shown.push_back(trait);
  for (size_t trait = kTraitEigenvalues + 1; trait < num_traits; ++trait) {
    std::vector<size_t> more = shown;
    more.push_back(trait);
    if (count_different(groups, [&](const Run& run) { return label_of(run, more); }) >
        count_different(groups, [&](const Run& run) { return label_of(run, shown); }))
      shown = more;
  }
  return shown;
}

}  // namespace

std::vector<Group> group_runs(const std::vector<Run>& runs, TaskKind kind) {
  RunsByGroup by_group;
  for (const Run& run : runs)
    if (run.kind == kind) by_group[run.group].push_back(&run);
  const std::vector<size_t> shown =
      runs.empty() ? std::vector<size_t>{} : traits_to_show(by_group, runs.front().traits.size());
  std::vector<Group> groups;
  std::map<std::string, std::string> colours;
  for (const auto& [name, members] : by_group) {
    Group& group = groups.emplace_back(Group{name, {}});
    for (const Run* run : members) {
      const std::string label = label_of(*run, shown);
      auto place = std::ranges::find(group.configurations, label, &Configuration::label);
      if (place == group.configurations.end()) {
        const auto [colour, is_new] =
            colours.try_emplace(label, kColours[colours.size() % std::size(kColours)]);
        group.configurations.push_back({label, colour->second, {}});
        place = group.configurations.end() - 1;
      }
      place->runs.push_back(run);
    }
  }
  return groups;
}

std::optional<double> median(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  std::ranges::sort(values);
  const size_t middle = values.size() / 2;
  return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace dp::report
