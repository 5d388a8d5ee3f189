// What the program dp does where its commands meet a model that only the lab runs: it lets dp-lab do the same.
#include "tools/generate.h"
#include "tools/program.h"
#include "tools/trained_words.h"

namespace dp::cli {

int generate_with_rival(const GenerateArguments&) { run_in_lab(); }

theory::Problem trained_problem(const std::filesystem::path&) { run_in_lab(); }

std::optional<Question> trained_question(const std::filesystem::path& directory) {
  if (std::filesystem::exists(directory / "run.json")) run_in_lab();
  return std::nullopt;
}

std::unique_ptr<theory::Answerer> nn_answerer(const std::filesystem::path&, int) { run_in_lab(); }

}  // namespace dp::cli
