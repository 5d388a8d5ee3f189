#include "tools/bench/training_step.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "base/timer.h"
#include "tools/bench/machine.h"
#include "tools/model_path.h"
#include "tasks/task.h"

namespace dp::cli {
namespace {

// The same products of the same sizes, with nothing around them. Operands of one size share memory,
// which flatters this side.
class Products {
 public:
  explicit Products(const TrainShape& shape) : rows_(shape.batch * shape.length) {
    LanguageModel model(shape.config);
    for (const auto& [name, parameter] : model.parameters())
      if (parameter->shape.size() == 2 && name != "model.embeddings.weight")
        ++count_[{parameter->shape[0], parameter->shape[1]}];
    if (shape.config.tie_word_embeddings)
      ++count_[{shape.config.vocab_size, shape.config.hidden_size}];
    for (const auto& [sizes, times] : count_) {
      const int64_t width = std::max(sizes.first, sizes.second);
      widest_ = std::max(widest_, width);
      largest_ = std::max(largest_, sizes.first * sizes.second);
    }
    // A head's outputs come in blocks of rows, here as in training.
    x_ = at::randn({rows_ * std::min<int64_t>(widest_, kMostColumns)});
    y_ = at::empty_like(x_);
    dx_ = at::empty_like(x_);
    weight_ = at::randn({largest_});
    weight_gradient_ = at::zeros({largest_});
  }

  void run() {
    for (const auto& [sizes, times] : count_)
      for (int64_t i = 0; i < times; ++i) multiply(sizes.first, sizes.second);
  }

 private:
  static constexpr int64_t kMostColumns = 8192;

  void multiply(int64_t out, int64_t in) {
    const at::Tensor w = weight_.slice(0, 0, out * in).view({out, in});
    at::Tensor dw = weight_gradient_.slice(0, 0, out * in).view({out, in});
    const int64_t block = std::min(rows_, x_.numel() / std::max(out, in));
    for (int64_t begin = 0; begin < rows_; begin += block) {
      const int64_t m = std::min(block, rows_ - begin);
      const at::Tensor x = x_.slice(0, 0, m * in).view({m, in});
      at::Tensor y = y_.slice(0, 0, m * out).view({m, out});
      at::Tensor dx = dx_.slice(0, 0, m * in).view({m, in});
      at::mm_out(y, x, w.t());
      at::mm_out(dx, y, w);  // y stands in for its gradient
      if (begin == 0) {
        at::mm_out(dw, y.t(), x);
      } else {
        dw.addmm_(y.t(), x);
      }
    }
  }

  int64_t rows_, widest_ = 1, largest_ = 1;
  std::map<std::pair<int64_t, int64_t>, int64_t> count_;  // [out, in] -> how many
  at::Tensor x_, y_, dx_, weight_, weight_gradient_;
};

}  // namespace

TrainingStep::TrainingStep(const TrainShape& shape, World* world) : world_(world), model_(shape.config) {
  initialise(model_, /*seed=*/1);
  make_trainable(model_);
  optimiser_ = make_optimiser(parameter_groups(model_, 0.01), {}, world);
  const Share share = world ? Share{world->rank(), world->size()} : Share{};
  const int64_t rows = share.end(shape.batch) - share.begin(shape.batch);
  const at::Tensor tokens = at::randint(shape.config.vocab_size, {rows, shape.length + 1}, at::kLong);
  inputs_ = tokens.slice(1, 0, shape.length).contiguous();
  targets_ = tokens.slice(1, 1).contiguous();
  share_ = static_cast<double>(rows) / static_cast<double>(shape.batch);
}

void TrainingStep::backward() {
  const at::Tensor loss = model_.loss(model_.features(inputs_), targets_).loss;
  torch::autograd::backward({world_ ? loss * share_ : loss}, {});
}

void TrainingStep::compute() {
  optimiser_->zero_grad();
  backward();
}

void TrainingStep::clip_and_update(double norm) { optimiser_->update(1e-4, norm > 1 ? 1 / norm : 1); }

void TrainingStep::update() { clip_and_update(optimiser_->reduce_gradients({})); }

void TrainingStep::run() {
  optimiser_->zero_grad();
  if (world_) world_->sum({share_});  // of answers, in the trainer
  optimiser_->start_last_backward();
  backward();
  clip_and_update(optimiser_->reduce_gradients({}));
  if (world_) world_->any(false);  // whether to stop, in the trainer
}

ModelConfig hidden_512_config() {
  ModelConfig config = find_model_config("state_tracking");
  config.hidden_size = 512;
  config.num_hidden_layers = 8;
  config.num_heads = 8;
  config.head_dim = 64;
  config.use_short_conv = true;
  config.vocab_size = 32000;
  config.tie_word_embeddings = true;
  return config;
}

TrainTiming time_training(const TrainShape& shape, double seconds) {
  TrainingStep training(shape);
  Products products(shape);
  training.run();
  {
    const at::NoGradGuard no_grad;
    products.run();
  }
  BestTime step, alone;
  const Timer timer;
  do {
    step.time([&] { training.run(); });
    const at::NoGradGuard no_grad;
    alone.time([&] { products.run(); });
  } while (timer.seconds() < seconds);
  return {1e3 * step.seconds(), 1e3 * alone.seconds()};
}

std::vector<double> time_steps(const std::vector<TrainShape>& shapes, double seconds) {
  std::vector<std::unique_ptr<TrainingStep>> trainings;
  for (const TrainShape& shape : shapes) {
    trainings.push_back(std::make_unique<TrainingStep>(shape));
    trainings.back()->run();
  }
  std::vector<BestTime> times(shapes.size());
  const Timer timer;
  do {
    for (size_t i = 0; i < shapes.size(); ++i) times[i].time([&] { trainings[i]->run(); });
  } while (timer.seconds() < seconds);
  std::vector<double> ms;
  for (const BestTime& time : times) ms.push_back(1e3 * time.seconds());
  return ms;
}

}  // namespace dp::cli
