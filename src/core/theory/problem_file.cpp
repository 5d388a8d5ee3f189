// compiled.json: what a compiled model solves, beside the model.
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/json.h"
#include "base/quote.h"
#include "base/read_file.h"
#include "theory/automaton_file.h"
#include "theory/problem.h"

namespace dp::theory {
namespace {

using nlohmann::ordered_json;

std::filesystem::path problem_path(const std::filesystem::path& directory) {
  return directory / kProblemFile;
}

}  // namespace

void save_problem(const Problem& problem, const std::string& theorem, const std::string& command,
                  const std::filesystem::path& directory) {
  ordered_json json = {{"name", problem.name}, {"theorem", theorem}, {"command", command}};
  if (problem.kind == Problem::Kind::kGroup) {
    json["group"] = problem.group;
    json["alphabet"] = problem.automaton.alphabet;
  } else {
    json["language"] = problem.kind == Problem::Kind::kLanguage;
    json["automaton"] = ordered_json::parse(to_json(problem.automaton));
  }
  // A command line may hold bytes that are not UTF-8, such as a file name.
  constexpr auto kReplace = ordered_json::error_handler_t::replace;
  json = ordered_json::parse(json.dump(-1, ' ', false, kReplace));
  json["checksum"] = with_checksum(json)["checksum"];
  write_file_atomically(problem_path(directory), json.dump(1) + "\n");
}

bool is_compiled(const std::filesystem::path& directory) {
  return std::filesystem::exists(problem_path(directory));
}

Problem load_problem(const std::filesystem::path& directory) {
  const std::string file = problem_path(directory).string();
  const std::optional<std::string> text = read_file(file);
  if (!text)
    throw InputError(quote(directory.string()) + " is none of dp compile's models: expected a " +
                     kProblemFile + " in it");
  const nlohmann::json json = parse_json(*text, file, "the problem");
  std::string field;
  const auto take = [&](const char* name, auto value) {
    field = name;
    json.at(name).get_to(value);
    return value;
  };
  try {
    const std::string name = take("name", std::string());
    if (!json.contains("group")) {
      const bool language = take("language", false);
      field = "automaton";
      return automaton_problem(parse_automaton(json.at("automaton").dump(), file),
                               language ? Problem::Kind::kLanguage : Problem::Kind::kStates, name);
    }
    const FiniteGroup group = FiniteGroup::parse(take("group", std::string()));
    std::vector<int32_t> alphabet;
    for (const std::string& element : take("alphabet", std::vector<std::string>()))
      alphabet.push_back(find_element(group, element, file + ": alphabet"));
    return group_problem(group, alphabet);
  } catch (const nlohmann::json::exception&) {
    throw InputError(file + ": field " + quote(field) + " is missing or of another type");
  }
}

}  // namespace dp::theory
