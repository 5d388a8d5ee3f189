#include "report/compiled_data.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numbers>

#include "base/json.h"
#include "base/read_file.h"
#include "nn/model_size.h"
#include "nn/pretrained.h"
#include "report/applied_maps.h"
#include "report/page.h"
#include "report/walk.h"
#include "theory/verify.h"

namespace dp::report {
namespace {

using nlohmann::ordered_json;
using theory::Problem;

constexpr int64_t kCheckedWords = 20, kCheckedLength = 500;
constexpr int32_t kMostMultiplied = 250;  // elements whose products are all compared
constexpr size_t kMostMaps = 720;         // more would only make the page slow

const char* kind_name(Problem::Kind kind) {
  if (kind == Problem::Kind::kGroup) return "group";
  return kind == Problem::Kind::kLanguage ? "language" : "states";
}

ordered_json config_data(const ModelConfig& config) {
  return {{"architecture", model_type(config.architecture)},
          {"layers", config.num_hidden_layers},
          {"num_householder", config.num_householder},
          {"forget_gate", config.use_forget_gate},
          {"heads", config.num_heads},
          {"key_width", config.head_dim},
          {"value_width", config.value_head_dim()},
          {"width", config.hidden_size},
          {"mlp_width", config.mlp_width()},
          {"parameters", model_size(config).parameters()},
          {"dtype", config.dtype}};
}

// A group's moves are products of its permutations, which need much less room than a table.
ordered_json automaton_data(const Problem& problem) {
  const Automaton& automaton = problem.automaton;
  ordered_json data = {{"alphabet", automaton.alphabet},
                       {"states", automaton.state_names},
                       {"start", automaton.start}};
  if (problem.kind == Problem::Kind::kLanguage) data["accepting"] = automaton.accepting;
  if (problem.kind != Problem::Kind::kGroup) {
    data["moves"] = automaton.moves;
    return data;
  }
  const FiniteGroup group = FiniteGroup::parse(problem.group);
  auto permutations = ordered_json::array();
  for (int32_t g = 0; g < group.order(); ++g) {
    const auto images = group.permutation(g).images();
    permutations.push_back(std::vector<int>(images.begin(), images.end()));
  }
  data["permutations"] = std::move(permutations);
  data["elements"] = problem.symbol_tokens;
  return data;
}

ordered_json walk_data(const Walk& walk) {
  return {{"word", walk.word}, {"answers", walk.answers}};
}

ordered_json check_data(theory::Answerer& model, const Problem& problem) {
  theory::VerifyOptions options;
  options.all_words_up_to = options.long_length = 0;
  options.random_words = kCheckedWords, options.random_length = kCheckedLength;
  const theory::VerifyResult result = theory::verify(model, problem, options);
  return {{"words", kCheckedWords},
          {"length", kCheckedLength},
          {"wrong_at", result.first_error ? ordered_json(result.first_error->position)
                                          : ordered_json(nullptr)}};
}

// Arguments of the eigenvalues in degrees, of complex pairs once.
std::vector<double> angles(const theory::Matrix& matrix) {
  std::vector<double> result;
  for (const std::complex<double>& value : theory::eigenvalues(matrix))
    if (value.imag() >= 0) result.push_back(std::arg(value) * 180 / std::numbers::pi);
  return result;
}

ordered_json map_data(const AppliedMap& map) {
  auto rows = ordered_json::array();
  for (size_t i = 0; i < map.matrix.rows(); ++i) {
    rows.push_back(ordered_json::array());
    for (size_t j = 0; j < map.matrix.rows(); ++j) rows.back().push_back(map.matrix(i, j));
  }
  return {{"element", map.element},      {"name", map.name}, {"order", map.order},
          {"betas", map.betas},          {"keys", map.keys}, {"matrix", std::move(rows)},
          {"angles", angles(map.matrix)}};
}

ordered_json maps_data(const AppliedMaps& maps, const FiniteGroup& group) {
  auto list = ordered_json::array();
  for (size_t i = 0; i < std::min(kMostMaps, maps.maps.size()); ++i)
    list.push_back(map_data(maps.maps[i]));
  ordered_json data = {{"along_word", maps.along_word},
                       {"dimension", maps.dimension},
                       {"copies", maps.copies},
                       {"heads", maps.heads},
                       {"heads_differ", maps.heads_differ},
                       {"count", maps.maps.size()}};
  if (!maps.along_word && group.order() <= kMostMultiplied) {
    const ProductCheck check = check_products(maps, group);
    data["products"] = {{"count", check.products}, {"largest_difference", check.largest}};
  }
  data["maps"] = std::move(list);
  return data;
}

}  // namespace

CompiledModel load_compiled(const std::filesystem::path& directory) {
  Problem problem = theory::load_problem(directory);
  const std::filesystem::path file = directory / theory::kProblemFile;
  const nlohmann::json json = parse_json(read_file(file).value_or(""), file.string(), "the problem");
  const auto field = [&](const char* name) {
    const auto found = json.find(name);
    return found != json.end() && found->is_string() ? found->get<std::string>() : "";
  };
  return {std::move(problem), field("theorem"),      field("command"),
          directory.string(), load_model(directory), runtime::Model::open(directory)};
}

ordered_json compiled_data(const CompiledModel& compiled) {
  const c10::InferenceMode guard;
  const Problem& problem = compiled.problem;
  const auto answerer = theory::make_answerer(compiled.runtime);
  const Walk walk = walk_word(*answerer, problem, example_word(problem));
  ordered_json data = {{"page", "compiled"},
                       {"directory", compiled.directory},
                       {"kind", kind_name(problem.kind)},
                       {"name", problem.name},
                       {"theorem", compiled.theorem},
                       {"command", compiled.command},
                       {"model", config_data(compiled.model.config())},
                       {"check", check_data(*answerer, problem)},
                       {"automaton", automaton_data(problem)},
                       {"walk", walk_data(walk)}};
  // RWKV-7's transitions are not products of Householder matrices; its page says that they are not shown.
  if (problem.kind == Problem::Kind::kGroup &&
      compiled.model.config().architecture != Architecture::kRwkv7) {
    const FiniteGroup group = FiniteGroup::parse(problem.group);
    data["maps"] = maps_data(applied_maps(compiled.model, problem, group, walk.word), group);
  }
  return rounded(std::move(data));
}

}  // namespace dp::report
