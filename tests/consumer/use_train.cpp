// A few training steps on a task of the library's.
#include <deltaproduct/tasks/word_problem.h>
#include <deltaproduct/train/trainer.h>

#include <iostream>

int main() {
  const auto task = dp::WordProblemOptions{.group = "Z3"}.make_task();
  dp::ModelConfig config;
  config.vocab_size = task->vocab_size();
  config.hidden_size = 16;
  config.num_hidden_layers = 1;
  config.num_heads = 2;
  config.head_dim = 8;
  config.expand_v = 1;
  dp::TrainerOptions options;
  options.schedule = {.peak = 1e-2, .minimum = 0, .warmup_steps = 2, .total_steps = 20};
  options.batch_size = 8;
  options.length = 4;
  dp::Trainer trainer(config, task, options);
  const double first = trainer.step().loss;
  double last = first;
  while (!trainer.finished()) last = trainer.step().loss;
  std::cout << "loss " << first << " -> " << last << " in " << trainer.progress().step << " steps\n";
  return last < first ? 0 : 1;
}
