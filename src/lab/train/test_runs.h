// For tests: a run of a few seconds.
#pragma once
#include "train/run_settings.h"

namespace dp {

inline RunConfig small_run() {
  RunConfig run;
  run.task = WordProblemOptions{.group = "Z3"};
  run.model.vocab_size = make_task(run)->vocab_size();
  run.model.hidden_size = 16;
  run.model.num_hidden_layers = 1;
  run.model.num_heads = 2;
  run.model.head_dim = 8;
  run.model.expand_v = 1;
  run.model.num_householder = 2;
  run.model.allow_neg_eigval = true;
  run.model.use_short_conv = false;
  run.model.use_output_gate = false;
  run.model.intermediate_size = 32;
  run.training.schedule = {.peak = 3e-3, .minimum = 0, .warmup_steps = 5, .total_steps = 40};
  run.training.batch_size = 8;
  run.training.length = 16;
  return run;
}

}  // namespace dp
