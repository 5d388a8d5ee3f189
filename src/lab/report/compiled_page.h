// The page about a model that dp compile made: what its weights do, and a word walked.
#pragma once
#include <filesystem>
#include <string>

#include "nn/language_model.h"
#include "report/applied_maps.h"
#include "report/isometry.h"
#include "report/page.h"
#include "report/walk.h"
#include "theory/problem.h"

namespace dp::report {

/// Charts and tables with more rows than this would be no pictures any more.
inline constexpr size_t kMostMaps = 240;

struct CompiledModel {
  theory::Problem problem;
  std::string theorem;
  std::string directory;  // as the commands on the page have it
  LanguageModel model;
};
/// Throws InputError that names the file and what is wrong with it.
CompiledModel load_compiled(const std::filesystem::path& directory);

/// The command that makes the same model again.
std::string compile_command(const CompiledModel& compiled);

/// Axes of rotations as points on a sphere, seen from the front or from behind; lines join neighbours among
/// those of the highest order.
ChartVariant sphere_chart(const AppliedMaps& maps, bool front);
/// How many rotations there are of each angle and order.
ChartVariant angle_chart(const AppliedMaps& maps);
/// Isometries of the plane: where rotations take a point of the circle, and mirrors.
ChartVariant plane_chart(const AppliedMaps& maps);
/// A column for each map, a row for each factor: what it exchanges.
ChartVariant transposition_chart(const AppliedMaps& maps);

std::string make_compiled_page(const CompiledModel& compiled, const WebFiles& files);

/// The page appears at `file` once it is complete. Throws InputError if the program has no charts.
void write_compiled_page(const std::filesystem::path& directory, const std::filesystem::path& file);

}  // namespace dp::report
