// dp convert: a checkpoint in another dtype or parameter layout.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>

#include "base/error.h"
#include "base/text.h"
#include "tools/command.h"
#include "nn/pretrained.h"
#include "theory/problem.h"

namespace dp::cli {
namespace {
namespace fs = std::filesystem;

struct ConvertOptions {
  std::string source, target, dtype, layout = "current";
};

// Built beside its place and then renamed: the target is there whole or not at all.
int convert(const ConvertOptions& options) {
  const fs::path target = fs::path(options.target).has_filename()
                              ? fs::path(options.target)
                              : fs::path(options.target).parent_path();
  if (fs::exists(target))
    throw InputError(quote(target.string()) + " exists already, expected a new directory");
  const LanguageModel model = load_model(options.source);
  SaveOptions save;
  if (!options.dtype.empty()) save.dtype = options.dtype == "bf16" ? "bfloat16" : "float32";
  save.legacy_layout = options.layout == "legacy";
  const fs::path unfinished = target.string() + ".unfinished";
  std::error_code ignored;
  fs::remove_all(unfinished, ignored);
  try {
    save_model(model, unfinished, save);
    // What the model is for, if it is one of ours.
    for (const char* file : {theory::kProblemFile, "run.json"})
      if (fs::exists(fs::path(options.source) / file))
        fs::copy_file(fs::path(options.source) / file, unfinished / file);
    fs::rename(unfinished, target);
  } catch (...) {
    fs::remove_all(unfinished, ignored);
    throw;
  }
  std::printf("wrote %s\n", target.c_str());
  return 0;
}

}  // namespace

Run add_convert(CLI::App& app) {
  auto options = std::make_shared<ConvertOptions>();
  app.add_option("source", options->source,
                 "a directory with config.json and weights (safetensors or pytorch_model.bin)")
      ->type_name("SRC")
      ->required();
  app.add_option("target", options->target, "the directory to make")->type_name("DST")->required();
  app.add_option("--dtype", options->dtype, "bf16 or f32 (default: as the source says)")
      ->check(CLI::IsMember({"bf16", "f32"}));
  app.add_option("--layout", options->layout,
                 "parameter names: current (fla's) or legacy (the paper's own code)")
      ->check(CLI::IsMember({"current", "legacy"}))
      ->capture_default_str();
  return [options] { return convert(*options); };
}

}  // namespace dp::cli
