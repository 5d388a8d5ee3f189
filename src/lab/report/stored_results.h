// Results of experiments as files: runs without their weights, small enough for a repository, and a page about all of them.
#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

namespace dp::report {

/// The finished runs of `folders`, those with an eval.json: {"format": "deltaproduct results", "commit": commit, "runs": [...]}, runs as
/// run_data() has them (web/README.md, "Runs") with the commit and fewer points of their training curves. Throws InputError if there is none.
nlohmann::ordered_json stored_results(std::span<const std::filesystem::path> folders, const std::string& commit);

/// What such a file holds. Throws InputError.
nlohmann::ordered_json read_stored_results(const std::filesystem::path& file);

/// `results` and those runs of `earlier` whose names it does not have, by name: a sweep that went on elsewhere.
nlohmann::ordered_json with_earlier_runs(nlohmann::ordered_json results, const nlohmann::ordered_json& earlier);

/// As JSON text with a line for each run.
std::string to_text(const nlohmann::ordered_json& results);

/// Whether there are files of stored results below `folder`, in folders called results.
bool holds_stored_results(const std::filesystem::path& folder);

/// The page about all stored results below `folder` (web/README.md, "Experiments"): {"page": "experiments", "results": [{file, commit,
/// runs}], "problems": [files left out, and why]}. Throws InputError if none can be read.
nlohmann::ordered_json experiments_data(const std::filesystem::path& folder);

}  // namespace dp::report
