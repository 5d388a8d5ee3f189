// dp bench: the benchmarks, one subcommand each.
#include <CLI/App.hpp>

#include "cli/command.h"

namespace dp::cli {

Run add_bench(CLI::App& app) {
  app.require_subcommand(1);
  return add_bench_op(
      *app.add_subcommand("op", "the operator against sgemm, per shape, and one decoding step"));
}

}  // namespace dp::cli
