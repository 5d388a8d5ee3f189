// dp compile: exact weights from theory.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "algebra/regular_expression.h"
#include "base/atomic_file.h"
#include "base/error.h"
#include "base/quote.h"
#include "base/utf8.h"
#include "theory/automaton_file.h"
#include "theory/compile.h"
#include "tools/command.h"

namespace dp::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCompileExplanation =
    "The paper proves what DeltaProduct can express; this command turns its proofs into weights. "
    "The result is an\n"
    "ordinary checkpoint that gives exact answers for words of any length, as far as float32 "
    "allows (dp verify\n"
    "measures that). dp predict, verify, report, serve, eval, generate and convert take it.\n"
    "  ./dp compile group A5 --out models/a5            one layer, two reflections: the "
    "icosahedron\n"
    "  ./dp compile group S5 --layers 4 --generators '(1 2),(1 2 3 4 5)' --out models/s5\n"
    "  ./dp compile regex '(ab)*' --out models/ab\n"
    "  ./dp compile regex '(ab)*' --num-householder 1 --model rwkv7 --out models/ab-rwkv7\n"
    "  ./dp compile dfa automaton.json --out models/automaton\n"
    "  echo abab | ./dp predict models/ab";

struct CompileArguments {
  std::string what, generators, matrices, alphabet, out;
  std::string recalled_alphabet = "ab";
  std::string dtype = "f32", model = "deltaproduct";
  double max_memory = 4;  // GB
  int64_t number = 0;
  theory::CompileOptions options;
  JsonOption json;
};

// "(1 2),(1 2 3)" or "1,4": commas outside of parentheses separate.
std::vector<std::string> split_elements(const std::string& text) {
  std::vector<std::string> parts;
  std::string part;
  int depth = 0;
  for (const char c : text + ",") {
    depth += (c == '(') - (c == ')');
    if (c != ',' || depth > 0) {
      if (c != ' ' || depth > 0) part += c;
      continue;
    }
    if (!part.empty()) parts.push_back(part);
    part.clear();
  }
  return parts;
}

std::vector<std::string> split_characters(const std::string& text) {
  std::vector<std::string> characters;
  for (const char c : text) {
    if (!characters.empty() && utf8_continues(c))
      characters.back() += c;  // the rest of a UTF-8 character
    else
      characters.emplace_back(1, c);
  }
  return characters;
}

// A directory that is there already must be empty or hold a compiled model.
void check_target(const fs::path& target) {
  const fs::file_status status = fs::status(target);
  if (fs::is_directory(status) && (theory::is_compiled(target) || fs::is_empty(target))) return;
  if (fs::exists(status))
    throw InputError(quote(target.string()) +
                     " exists and is not a compiled model, expected a new directory");
  require_new(target);
}

// The files of a compiled model that is there already are replaced, others in it stay. compiled.json goes first and comes
// last: what is only half replaced is not a compiled model.
void save(const theory::Weights& weights, const theory::Compiled& compiled, const fs::path& out) {
  const fs::path target = out.has_filename() ? out : out.parent_path();
  check_target(target);
  StagedDirectory staged(target);
  theory::save_weights(weights, staged.path());
  theory::save_problem(compiled.problem, compiled.construction.theorem, command_line(),
                       staged.path());
  if (!fs::exists(target)) return staged.publish();
  fs::remove(target / theory::kProblemFile);
  for (const auto& entry : fs::directory_iterator(staged.path()))
    if (entry.path().filename() != theory::kProblemFile)
      fs::rename(entry.path(), target / entry.path().filename());
  fs::rename(staged.path() / theory::kProblemFile, target / theory::kProblemFile);
}

std::string counted(int64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

// All of them, unless they would fill the screen.
std::string joined_symbols(const std::vector<std::string>& alphabet) {
  constexpr size_t kShown = 24;
  std::string text;
  for (size_t i = 0; i < std::min(alphabet.size(), kShown); ++i)
    text += (i == 0 ? "" : "  ") + alphabet[i];
  return alphabet.size() > kShown ? text + "  ..." : text;
}

int write(const theory::Compiled& compiled, const CompileArguments& arguments) {
  const theory::Weights weights = compiled.weights(arguments.dtype == "bf16");
  const ModelConfig& config = weights.config;
  save(weights, compiled, arguments.out);

  const Automaton& automaton = compiled.problem.automaton;
  const int64_t parameters = weights.parameters();
  const bool group = compiled.problem.kind == theory::Problem::Kind::kGroup;
  std::printf("%s: %s, %s\n", compiled.problem.name.c_str(),
              counted(automaton.num_symbols(), "symbol").c_str(),
              counted(automaton.num_states(), group ? "element" : "state").c_str());
  std::printf("  symbols: %s\n", joined_symbols(automaton.alphabet).c_str());
  if (group)
    std::printf("  products: the newest element multiplies from the left, so after x y the answer is y x\n");
  std::printf("  construction: %s%s%s\n", compiled.construction.theorem.c_str(),
              compiled.construction.detail.empty() ? "" : "; ",
              compiled.construction.detail.c_str());
  std::printf("  model: %s, n_h = %ld%s, %s of %ld x %ld, width %ld, MLP %ld, %ld parameters\n",
              counted(config.num_hidden_layers, "layer").c_str(), config.num_householder,
              config.use_forget_gate ? ", gated" : "", counted(config.num_heads, "head").c_str(),
              config.head_dim, config.value_head_dim(), config.hidden_size, config.mlp_width(),
              parameters);
  std::printf("wrote %s\n", arguments.out.c_str());
  arguments.json.write({{"problem", compiled.problem.name},
                        {"theorem", compiled.construction.theorem},
                        {"detail", compiled.construction.detail},
                        {"layers", config.num_hidden_layers},
                        {"num_householder", config.num_householder},
                        {"heads", config.num_heads},
                        {"key_width", config.head_dim},
                        {"value_width", config.value_head_dim()},
                        {"width", config.hidden_size},
                        {"mlp_width", config.mlp_width()},
                        {"forget_gate", config.use_forget_gate},
                        {"parameters", parameters}});
  return 0;
}

theory::Compiled compile_group(const CompileArguments& a) {
  if (a.what.empty() == a.matrices.empty())
    throw InputError(
        "compile group takes the name of a group, as S5, or --matrices FILE.json: expected one of "
        "them");
  if (!a.matrices.empty()) {
    if (!a.generators.empty())
      throw InputError("--generators goes with a group's name; --matrices are generators");
    return theory::compile_matrices(theory::read_matrix_group(a.matrices), a.matrices, a.options);
  }
  return theory::compile_group(a.what, split_elements(a.generators), a.options);
}
theory::Compiled compile_regex(const CompileArguments& a) {
  return theory::compile_automaton(parse_regular_expression(a.what, a.alphabet), a.what, a.options);
}
theory::Compiled compile_dfa(const CompileArguments& a) {
  return theory::compile_automaton(read_automaton(a.what), a.what, a.options);
}
theory::Compiled compile_count(const CompileArguments& a) {
  return theory::compile_counting(a.number, a.options);
}
theory::Compiled compile_recall(const CompileArguments& a) {
  return theory::compile_recall(split_characters(a.recalled_alphabet), a.number, a.options);
}

}  // namespace

Run add_compile(CLI::App& app) {
  app.footer(kCompileExplanation);
  app.require_subcommand(1);
  using Compile = theory::Compiled (*)(const CompileArguments&);
  auto arguments = std::make_shared<CompileArguments>();
  auto chosen = std::make_shared<Compile>(nullptr);
  const auto add = [&](const char* name, const char* help, Compile compile) {
    CLI::App* sub = app.add_subcommand(name, help);
    sub->add_option("--layers", arguments->options.layers, "layers (default: the fewest)")
        ->check(CLI::Range(1, 1000));
    sub->add_option("--num-householder", arguments->options.num_householder,
                    "Householder factors per token (default: the fewest)")
        ->check(CLI::Range(1, 4096));
    sub->add_option("--model", arguments->model, "the architecture: deltaproduct or rwkv7")
        ->check(CLI::IsMember({"deltaproduct", "rwkv7"}))
        ->capture_default_str();
    sub->add_option("--max-states", arguments->options.max_states,
                    "larger automata and groups are refused")
        ->check(CLI::Range(1, 1'000'000))
        ->capture_default_str();
    sub->add_option("--max-memory", arguments->max_memory,
                    "GB of weights; what takes more is refused before it is built")
        ->check(CLI::Range(1e-3, 1e6))
        ->capture_default_str();
    sub->add_option("--dtype", arguments->dtype, "of the weights: f32 or bf16")
        ->check(CLI::IsMember({"f32", "bf16"}))
        ->capture_default_str();
    sub->add_option("--out", arguments->out, "directory of the model")
        ->type_name("DIR")
        ->required();
    arguments->json.add_to(*sub);
    sub->callback([chosen, compile] { *chosen = compile; });
    return sub;
  };
  CLI::App* group = add("group", "the word problem of a group: the product of all elements so far",
                        compile_group);
  group
      ->add_option("group", arguments->what,
                   "S5 (permutations), A5 (even ones), Z12 (cyclic), D6 (dihedral), or a product such as S3xZ2");
  group
      ->add_option("--matrices", arguments->matrices,
                   "orthogonal matrices that generate the group: {\"generators\": {\"a\": [[0, "
                   "-1], [1, 0]], ..}}")
      ->type_name("FILE.json");
  group->add_option("--generators", arguments->generators,
                    "the elements that words are made of, separated by commas: '(1 2),(1 2 3)' "
                    "(default: all)");
  CLI::App* regex = add("regex", "the language of a regular expression", compile_regex);
  regex
      ->add_option("expression", arguments->what,
                   "ab  a|b  a*  a+  a?  a{2,5}  [a-c]  [^ab]  .  ()")
      ->required();
  regex->add_option("--alphabet", arguments->alphabet,
                    "further symbols besides the characters of the expression, which . and [^ab] "
                    "stand for too");
  CLI::App* dfa = add("dfa", "the language of an automaton", compile_dfa);
  dfa->add_option(
         "file", arguments->what,
         "JSON: {\"alphabet\": [..], \"states\": [..], \"start\": .., \"accepting\": [..], "
         "\"transitions\": {state: {symbol: state}}}")
      ->type_name("FILE.json")
      ->required();
  CLI::App* count = add("count", "the number of symbols so far, modulo D", compile_count);
  count->add_option("modulus", arguments->number, "2 to 64")->type_name("D")->required();
  CLI::App* recall = add("recall", "the last D symbols", compile_recall);
  recall->add_option("symbols", arguments->number, "how many symbols to recall, from 2 to 64")
      ->type_name("D")
      ->required();
  recall
      ->add_option("--alphabet", arguments->recalled_alphabet, "the symbols, single characters")
      ->capture_default_str();
  return [arguments, chosen] {
    arguments->options.max_memory = arguments->max_memory * 1e9;
    if (arguments->model == "rwkv7") arguments->options.architecture = Architecture::kRwkv7;
    arguments->json.check();
    check_target(arguments->out);
    return write((*chosen)(*arguments), *arguments);
  };
}

}  // namespace dp::cli
