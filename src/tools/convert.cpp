// dp convert: a checkpoint in another dtype or parameter layout.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <map>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/quote.h"
#include "runtime/convert.h"
#include "runtime/model.h"
#include "theory/problem.h"
#include "tools/command.h"
#include "tools/lab.h"

namespace dp::cli {
namespace {
namespace fs = std::filesystem;

const std::map<std::string, std::string> kDtypes = {
    {"f32", "float32"}, {"bf16", "bfloat16"}, {"int8", "int8"}, {"int4", "int4"}};

// What belongs to a model beside its weights: its tokenizer, and what it is for.
constexpr const char* kCompanions[] = {
    theory::kProblemFile, "run.json",   "tokenizer.json",          "tokenizer.model",
    "tokenizer_config.json", "vocab.json", "merges.txt",           "special_tokens_map.json",
    "added_tokens.json",  "chat_template.jinja", "generation_config.json"};

struct ConvertArguments {
  std::string source, target, dtype, layout = "current";
  ThreadsOption threads;
};

// Built beside its place and then renamed: the target is there whole or not at all.
int convert(const ConvertArguments& arguments) {
  const fs::path target = fs::path(arguments.target).has_filename()
                              ? fs::path(arguments.target)
                              : fs::path(arguments.target).parent_path();
  require_new(target);
  const fs::path source = arguments.source;
  const fs::path folder = fs::is_regular_file(source) ? source.parent_path() : source;
  if (!runtime::is_supported(read_model_config(folder))) check_model_in_lab(source);
  runtime::ConvertOptions options;
  if (!arguments.dtype.empty()) options.dtype = kDtypes.at(arguments.dtype);
  options.legacy_layout = arguments.layout == "legacy";
  options.must_be_exact = theory::is_compiled(folder);
  if (options.must_be_exact && (arguments.dtype == "int8" || arguments.dtype == "int4"))
    throw InputError(quote(folder.string()) + " is a compiled model, which is exact in f32 and bf16 only, got --dtype " +
                     arguments.dtype);
  StagedDirectory staged(target);
  ThreadPool executor(arguments.threads.count());
  runtime::convert_checkpoint(source, staged.path(), options, executor);
  for (const char* file : kCompanions)
    if (fs::exists(folder / file)) fs::copy_file(folder / file, staged.path() / file);
  staged.publish();
  std::printf("wrote %s\n", target.c_str());
  return 0;
}

}  // namespace

Run add_convert(CLI::App& app) {
  auto arguments = std::make_shared<ConvertArguments>();
  app.add_option("source", arguments->source,
                 "a directory with config.json and weights (safetensors or pytorch_model.bin)")
      ->type_name("SRC")
      ->required();
  app.add_option("target", arguments->target, "the directory to make")->type_name("DST")->required();
  app.add_option("--dtype", arguments->dtype,
                 "f32, bf16, int8 or int4 (default: that of the source); training does not read the last two")
      ->check(CLI::IsMember({"f32", "bf16", "int8", "int4"}));
  app.add_option("--layout", arguments->layout,
                 "parameter names: current (fla's) or legacy (the paper's own code)")
      ->check(CLI::IsMember({"current", "legacy"}))
      ->capture_default_str();
  arguments->threads.add_to(app);
  return [arguments] { return convert(*arguments); };
}

}  // namespace dp::cli
