// Training runs on disk, as JSON for pages and as directories for exports.
#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

namespace dp::report {

/// Every training run that is one of `folders` or lies below one, once. Throws InputError for a folder that is or has
/// none.
std::vector<std::filesystem::path> find_runs(std::span<const std::filesystem::path> folders);

/// One run: settings, training curve, evaluations (web/README.md, "Runs"). Throws InputError if run.json cannot be
/// read; an eval.json that cannot is left out, with the reason in "problem".
nlohmann::ordered_json run_data(const std::filesystem::path& directory);

/// A page's JSON about these runs: {"page": "report", "runs": [...], "problems": [runs left out, and why]}. Throws
/// InputError if none can be read.
nlohmann::ordered_json report_data(std::span<const std::filesystem::path> folders);

}  // namespace dp::report
