#include "report/compiled_page.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "base/atomic_file.h"
#include "base/json.h"
#include "nn/model_size.h"
#include "nn/pretrained.h"
#include "report/automaton_drawing.h"
#include "report/run.h"
#include "theory/verify.h"

namespace dp::report {
namespace {

using theory::Problem;

constexpr int64_t kCheckedWords = 20, kCheckedLength = 500;
constexpr int32_t kMostMultiplied = 250;  // elements whose products are all compared

std::string counted(int64_t number, const std::string& noun) {
  return std::to_string(number) + " " + noun + (number == 1 ? "" : "s");
}

// 59922 -> 59,922.
std::string grouped_digits(int64_t number) {
  std::string text = std::to_string(number);
  for (size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

std::string short_text(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string subject(const Problem& problem) {
  switch (problem.kind) {
    case Problem::Kind::kGroup:
      return "the group " + problem.name;
    case Problem::Kind::kLanguage:
      return "the language of " + problem.name;
    case Problem::Kind::kStates:
      break;
  }
  return problem.name;
}

std::vector<std::string> compiled_summary(const CompiledModel& compiled, const Walk& walk) {
  const ModelConfig& config = compiled.model.config();
  const Problem& problem = compiled.problem;
  std::vector<std::string> sentences;
  sentences.push_back("Weights written down, not trained: " + compiled.theorem + ".");
  sentences.push_back(
      counted(config.num_hidden_layers, "layer") + ", n_h = " +
      std::to_string(config.num_householder) + (config.use_forget_gate ? ", gated" : "") + ", " +
      counted(config.num_heads, "head") + " of " + std::to_string(config.head_dim) + " × " +
      std::to_string(config.value_head_dim()) + ", width " + std::to_string(config.hidden_size) +
      ", MLP " + std::to_string(config.mlp_width()) + ": " +
      grouped_digits(model_size(config).parameters()) + " parameters in " + config.dtype + ".");
  theory::VerifyOptions options;
  options.all_words_up_to = options.long_length = 0;
  options.random_words = kCheckedWords, options.random_length = kCheckedLength;
  const theory::VerifyResult result = theory::verify(compiled.model, problem, options);
  if (!result.first_error && walk.right())
    sentences.push_back("Checked for this page: right after every symbol of " +
                        std::to_string(kCheckedWords) + " random words of " +
                        std::to_string(kCheckedLength) +
                        " symbols and of the word below. dp verify goes much farther.");
  else
    sentences.push_back("It is wrong: " +
                        (result.first_error
                             ? "an answer at symbol " +
                                   std::to_string(result.first_error->position) +
                                   " of a random word is not that of "
                             : std::string("the answers along the word below are not those of ")) +
                        (problem.kind == Problem::Kind::kGroup ? "the group." : "the automaton."));
  return sentences;
}

std::string betas_text(const AppliedMap& map) {
  std::string text;
  for (const double beta : map.betas) text += (text.empty() ? "" : ", ") + short_text("%.4g", beta);
  return text;
}

std::string maps_table(const AppliedMaps& maps, Geometry geometry) {
  const bool rotations = geometry == Geometry::kRotations;
  std::string text =
      "<section>\n<h2>Token by token</h2>\n<div class=\"scroll\">\n<table>\n<thead><tr>";
  if (maps.along_word) text += "<th>position</th>";
  text += "<th>element</th><th>applies</th>";
  text += rotations ? "<th>axis</th>" : "";
  text += "<th>order</th><th>betas</th></tr></thead>\n<tbody>\n";
  for (size_t i = 0; i < std::min(kMostMaps, maps.maps.size()); ++i) {
    const AppliedMap& map = maps.maps[i];
    const auto integer = [](int64_t value) {
      return cell(std::to_string(value), std::to_string(value), true);
    };
    text += "<tr>";
    if (maps.along_word) text += integer(static_cast<int64_t>(i) + 1);
    text += cell(std::to_string(map.element), map.name, false) +
            cell(short_text("%.4f", size_of(map, geometry)), describe(map, geometry), false);
    if (rotations) {
      const Turn turn = turn_of(map.matrix);
      const std::string axis = turn.degrees == 0 ? "–" : axis_text(turn.axis);
      text += cell(axis, axis, false);
    }
    text += integer(map.order) + cell(betas_text(map), betas_text(map), false) + "</tr>\n";
  }
  return text + "</tbody>\n</table>\n</div>\n</section>\n";
}

std::string maps_note(const AppliedMaps& maps, Geometry geometry, const FiniteGroup& group) {
  std::string text = "Read from the weights: the factors I − beta k kᵀ of ";
  text += maps.along_word ? "the last layer along the word below. What it applies depends on the "
                            "tokens before, too: a factor can be due later than its token."
                          : "each token, and their product.";
  text += " A state has " + counted(maps.dimension, "row");
  if (maps.copies > 1)
    text += ", each there " + std::to_string(maps.copies) + " times, which are averaged here";
  text += ". ";
  if (maps.heads > 1)
    text += "All " + std::to_string(maps.heads) + " heads apply the same" +
            (maps.heads_differ > 0 ? short_text(", to %.0e", maps.heads_differ) : std::string()) +
            "; they differ in what they read. ";
  if (geometry == Geometry::kRotations)
    text +=
        "Rings lie where the axis leaves the sphere towards someone who sees the rotation go "
        "to the left; a half turn has two. Grey lines join neighbours of the highest order. ";
  if (!maps.along_word && group.order() <= kMostMultiplied) {
    const ProductCheck check = check_products(maps, group);
    if (check.products > 0)
      text += "These matrices multiply as the elements do: " + grouped_digits(check.products) +
              " products are as in the group's table up to " + short_text("%.0e", check.largest) +
              ". ";
  }
  if (maps.maps.size() > kMostMaps)
    text += "The first " + std::to_string(kMostMaps) + " of " +
            grouped_digits(static_cast<int64_t>(maps.maps.size())) + " are shown. ";
  return "<p class=\"note\">" + html(text) + "</p>\n";
}

std::string maps_section(const AppliedMaps& maps, Geometry geometry, const FiniteGroup& group,
                         ChartList& charts) {
  std::string text = "<section>\n<h2>What each token does to the state</h2>\n";
  if (geometry == Geometry::kRotations)
    text += "<div class=\"grid\">\n" + charts.add({sphere_chart(maps, true)}) +
            charts.add({sphere_chart(maps, false)}) + charts.add({angle_chart(maps)}) + "</div>\n";
  else if (geometry == Geometry::kPlane)
    text += "<div class=\"grid\">\n" + charts.add({plane_chart(maps)}) + "</div>\n";
  else if (geometry == Geometry::kTranspositions)
    text += "<div class=\"stack\">\n" + charts.add({transposition_chart(maps)}) + "</div>\n";
  return text + maps_note(maps, geometry, group) + "</section>\n";
}

std::string walk_section(const Problem& problem, const Walk& walk) {
  const bool group = problem.kind == Problem::Kind::kGroup;
  const int32_t states = problem.automaton.num_states();
  std::string text = std::string("<section class=\"walk\">\n<h2>") +
                     (group ? "A word walked" : "The automaton, and a word walked") + "</h2>\n";
  if (!group && states <= kMostDrawnStates)
    text += "<div class=\"scroll\">\n" + draw(problem.automaton) + "</div>\n";
  else if (!group)
    text += "<p>The automaton has " + std::to_string(states) +
            " states, too many to draw; below is a word.</p>\n";
  text += walk_html(walk, problem);
  text += "<p class=\"note\">Above, what is read; below, what the model answers after it: the ";
  text +=
      group ? "product of all elements so far, the last one on the left." : "automaton’s state.";
  if (problem.kind == Problem::Kind::kLanguage) text += " Double rings accept.";
  return text + " An answer other than the right one would be red.</p>\n</section>\n";
}

}  // namespace

CompiledModel load_compiled(const std::filesystem::path& directory) {
  Problem problem = theory::load_problem(directory);
  const std::filesystem::path file = directory / "compiled.json";
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  const nlohmann::json json = parse_json(text.str(), file.string(), "the problem");
  const auto theorem = json.find("theorem");
  return {std::move(problem),
          theorem != json.end() && theorem->is_string() ? theorem->get<std::string>() : "",
          directory.string(), load_model(directory)};
}

std::string make_compiled_page(const CompiledModel& compiled, const WebFiles& files) {
  const c10::InferenceMode guard;
  const Problem& problem = compiled.problem;
  ChartList charts;
  const Walk walk = walk_word(compiled.model, problem, example_word(problem));
  const std::string directory = shell_quote(compiled.directory);
  const std::string commands = compile_command(compiled) + "\n./dp verify " + directory +
                               "\necho " + shell_quote(word_text(walk.word, problem)) +
                               " | ./dp predict " + directory;
  const std::string summary = paragraphs(compiled_summary(compiled, walk));
  Parts parts = {
      {"subject", html(subject(problem))},   {"summary", summary},         {"maps", ""},
      {"walk", walk_section(problem, walk)}, {"commands", html(commands)}, {"table", ""}};
  if (problem.kind == Problem::Kind::kGroup) {
    const FiniteGroup group = FiniteGroup::parse(problem.group);
    const AppliedMaps maps = applied_maps(compiled.model, problem, group, walk.word);
    const Geometry geometry = geometry_of(maps);
    parts["maps"] = maps_section(maps, geometry, group, charts);
    parts["table"] = maps_table(maps, geometry);
  }
  return put_together(files, "DeltaProduct: " + subject(problem) + ", compiled", files.compiled,
                      parts, charts);
}

void write_compiled_page(const std::filesystem::path& directory,
                         const std::filesystem::path& file) {
  require_writable(file);
  write_file_atomically(file, make_compiled_page(load_compiled(directory), web_files()));
}

}  // namespace dp::report
