// dp bench: the benchmarks, one subcommand each.
#include <CLI/App.hpp>
#include <utility>
#include <vector>

#include "tools/command.h"

namespace dp::cli {
namespace {

std::pair<CLI::App*, Run> add(CLI::App& app, const char* name, const char* help,
                              Run (*add_options)(CLI::App&)) {
  CLI::App* subcommand = app.add_subcommand(name, help);
  return {subcommand, add_options(*subcommand)};
}

}  // namespace

Run add_bench(CLI::App& app) {
  app.require_subcommand(1);
  const std::vector<std::pair<CLI::App*, Run>> benchmarks = {
      add(app, "op", "the operator against sgemm, per shape, and one decoding step", add_bench_op),
      add(app, "train", "training steps against their matrix products alone", add_bench_train),
      add(app, "rivals", "training steps of the rival models against DeltaNet's", add_bench_rivals),
      add(app, "decode", "generating tokens against this machine's memory bandwidth",
          add_bench_decode),
      add(app, "start", "how soon this program answers, generates and predicts", add_bench_start),
      add(app, "quality", "what a model loses in 16, 8 and 4 bits, on a text", add_bench_quality),
      add(app, "serve", "many streams decoded together against one alone", add_bench_serve),
      add(app, "distributed", "training steps of several ranks against one process",
          add_bench_distributed)};
  return [benchmarks] {
    for (const auto& [subcommand, run] : benchmarks)
      if (subcommand->parsed()) return run();
    return 0;
  };
}

}  // namespace dp::cli
