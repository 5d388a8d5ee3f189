// eval.json of a run, as `dp eval --json` writes it, checked before a page trusts it.
#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>

namespace dp::report {

/// What pages use of it (web/README.md). Of language models with more than 256 positions of effective rank, about that
/// many. Throws InputError that names the file and what is wrong.
nlohmann::ordered_json read_evaluation(const std::filesystem::path& file, bool language_model);

}  // namespace dp::report
