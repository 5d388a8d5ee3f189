// The part of predict and verify that needs libtorch: runs of dp train, and models that only nn can run.
#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "theory/answerer.h"
#include "theory/problem.h"

namespace dp::cli {

/// The word problem that a run was trained on. Throws InputError if it is a run of something else.
theory::Problem trained_problem(const std::filesystem::path& directory);

/// A task that asks once, at the end of a sequence. The last token is PAD, which is for batches.
struct Question {
  std::string name;
  std::vector<std::string> tokens;
};
/// None if the directory is not a run of such a task.
std::optional<Question> trained_question(const std::filesystem::path& directory);

/// Runs any model of nn.
std::unique_ptr<theory::Answerer> nn_answerer(const std::filesystem::path& directory, int threads);

}  // namespace dp::cli
