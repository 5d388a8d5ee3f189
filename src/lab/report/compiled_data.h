// A model that dp compile made, as JSON for its page: the problem, the maps that its weights apply, an example word.
#pragma once
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "nn/language_model.h"
#include "runtime/model.h"
#include "theory/problem.h"

namespace dp::report {

struct CompiledModel {
  theory::Problem problem;
  std::string theorem, command;  // from compiled.json; empty: unknown
  std::string directory;
  LanguageModel model;                           // to look into
  std::shared_ptr<const runtime::Model> runtime;  // the same, to ask
};
/// Throws InputError that names the file and what is wrong with it.
CompiledModel load_compiled(const std::filesystem::path& directory);

/// The JSON of the page (web/README.md, "Compiled models"). Runs the model on a few random words.
nlohmann::ordered_json compiled_data(const CompiledModel& compiled);

}  // namespace dp::report
