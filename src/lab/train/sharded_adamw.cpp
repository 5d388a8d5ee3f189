#include "train/sharded_adamw.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cmath>

#include "base/check_input.h"
#include "kernels/adamw.h"
#include "ops/aten_executor.h"

namespace dp {
namespace {

constexpr int64_t kAlignment = 16;  // floats: parameters begin at cache lines, as torch's own do

// A std::shared_ptr, or an intrusive one in newer versions of libtorch.
using Accumulator =
    decltype(torch::autograd::impl::grad_accumulator(std::declval<const at::Tensor&>()));

int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

}  // namespace

struct ShardedAdamW::Slot {
  at::Tensor parameter;
  double weight_decay = 0;
  size_t bucket = 0;
  int64_t offset = 0;  // in its bucket
  int64_t steps = 0;
  bool taken = false;            // its gradient, in this step
  bool used = false;             // it has one, here or, after reduce_gradients(), on any rank
  Accumulator accumulator = {};  // the hook lives as long as this

  at::Tensor view_in(const at::Tensor& flat) const {
    return flat.view(-1).slice(0, offset, offset + parameter.numel()).view(parameter.sizes());
  }
};

struct ShardedAdamW::Bucket {
  std::vector<size_t> slots;
  int64_t size = 0;                              // of all ranks: N n
  at::Tensor values, gradients, received;        // [N,n], row r is rank r's
  at::Tensor exp_avg, exp_avg_sq, own_gradient;  // [n]
  size_t missing = 0;                            // gradients, in this step
  World::Pending exchange;
};

ShardedAdamW::ShardedAdamW(const std::vector<ParameterGroup>& groups, AdamWOptions options,
                           World& world, int64_t bucket_bytes)
    : options_(options), world_(world) {
  for (const ParameterGroup& group : groups)
    for (const at::Tensor& x : group.parameters) {
      DP_CHECK_INPUT(x.defined() && x.scalar_type() == at::kFloat && x.is_contiguous(),
                     "ShardedAdamW: parameter ", slots_.size(), " must be contiguous float32.");
      Slot& slot = slots_.emplace_back();
      slot.parameter = x;
      slot.weight_decay = group.weight_decay.value_or(options.weight_decay);
    }
  fill_buckets(groups, bucket_bytes);
  for (Bucket& bucket : buckets_) move_into(bucket);
  for (Slot& slot : slots_) add_hook(slot);
}

ShardedAdamW::~ShardedAdamW() = default;

// Gradients come from the last layer to the first, and buckets are sent in their order. The groups stay apart: small
// parameters of all layers, spread over the buckets of matrices, would hold them all up.
void ShardedAdamW::fill_buckets(const std::vector<ParameterGroup>& groups, int64_t bucket_bytes) {
  const auto most = bucket_bytes / static_cast<int64_t>(sizeof(float));
  size_t begin = 0;
  for (const ParameterGroup& group : groups) {
    const size_t end = begin + group.parameters.size();
    for (size_t i = end; i-- > begin;) {
      const int64_t room = round_up(slots_[i].parameter.numel(), kAlignment);
      if (buckets_.empty() || (buckets_.back().size > 0 && buckets_.back().size + room > most))
        buckets_.emplace_back();
      Bucket& bucket = buckets_.back();
      slots_[i].bucket = buckets_.size() - 1;
      slots_[i].offset = bucket.size;
      bucket.slots.push_back(i);
      bucket.size += room;
    }
    begin = end;
  }
  for (Bucket& bucket : buckets_) bucket.size = round_up(bucket.size, kAlignment * world_.size());
}

void ShardedAdamW::move_into(Bucket& bucket) {
  const at::NoGradGuard no_grad;
  const int64_t ranks = world_.size(), own = bucket.size / ranks;
  bucket.values = at::zeros({ranks, own});
  bucket.gradients = at::zeros({ranks, own});
  bucket.exp_avg = at::zeros({own});
  bucket.exp_avg_sq = at::zeros({own});
  for (const size_t i : bucket.slots) {
    at::Tensor place = slots_[i].view_in(bucket.values);
    place.copy_(slots_[i].parameter.detach());
    slots_[i].parameter.set_data(place);
  }
}

void ShardedAdamW::add_hook(Slot& slot) {
  using torch::autograd::Variable;
  slot.accumulator = torch::autograd::impl::grad_accumulator(slot.parameter);
  const size_t index = static_cast<size_t>(&slot - slots_.data());
  slot.accumulator->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
      [this, index](const std::vector<Variable>& outputs, const std::vector<Variable>&) {
        if (sending_) {
          take_gradient(slots_[index]);
          send_complete_buckets();
        }
        return outputs;
      }));
}

void ShardedAdamW::zero_grad() {
  for (Slot& slot : slots_) {
    slot.parameter.mutable_grad().reset();
    slot.taken = slot.used = false;
  }
  for (Bucket& bucket : buckets_) bucket.missing = bucket.slots.size();
  next_bucket_ = 0;
  sending_ = false;
}

void ShardedAdamW::take_gradient(Slot& slot) {
  if (slot.taken) return;
  const at::NoGradGuard no_grad;
  at::Tensor& gradient = slot.parameter.mutable_grad();
  at::Tensor place = slot.view_in(buckets_[slot.bucket].gradients);
  slot.taken = true;
  slot.used = gradient.defined();
  if (slot.used) {
    place.copy_(gradient);
    gradient.reset();
  } else {
    place.zero_();
  }
  --buckets_[slot.bucket].missing;
}

void ShardedAdamW::send_complete_buckets() {
  for (; next_bucket_ < buckets_.size() && buckets_[next_bucket_].missing == 0; ++next_bucket_) {
    Bucket& bucket = buckets_[next_bucket_];
    bucket.received = at::empty_like(bucket.gradients);
    bucket.exchange = world_.exchange(bucket.gradients, bucket.received);
  }
}

void ShardedAdamW::receive_gradients() {
  sending_ = false;
  for (Slot& slot : slots_) take_gradient(slot);  // those that no backward pass has reached
  send_complete_buckets();
  const at::NoGradGuard no_grad;
  for (Bucket& bucket : buckets_) {
    bucket.exchange.wait();
    bucket.own_gradient = bucket.received[0];
    for (int64_t rank = 1; rank < world_.size(); ++rank)
      bucket.own_gradient.add_(bucket.received[rank]);
  }
}

double ShardedAdamW::sum_of_squares_here() const {
  std::vector<ConstArray> arrays;
  for (const Bucket& bucket : buckets_)
    arrays.push_back(
        {bucket.own_gradient.data_ptr<float>(), static_cast<size_t>(bucket.own_gradient.numel())});
  AtenExecutor executor;
  return sum_of_squares(arrays, executor);
}

double ShardedAdamW::reduce_gradients(std::span<double> sums) {
  receive_gradients();
  std::vector<double> values(sums.begin(), sums.end());
  values.push_back(sum_of_squares_here());
  for (const Slot& slot : slots_) values.push_back(slot.used ? 1 : 0);
  const std::vector<double> all = world_.sum(values);
  std::copy_n(all.begin(), sums.size(), sums.begin());
  for (size_t i = 0; i < slots_.size(); ++i) slots_[i].used = all[sums.size() + 1 + i] > 0;
  return std::sqrt(all[sums.size()]);
}

void ShardedAdamW::update(double learning_rate, double gradient_scale) {
  const at::NoGradGuard no_grad;
  AtenExecutor executor;
  std::vector<World::Pending> gathering;
  for (Bucket& bucket : buckets_) {
    const int64_t own = bucket.size / world_.size(), first = own * world_.rank();
    std::vector<AdamWParameter> updates;
    for (const size_t i : bucket.slots) {
      Slot& slot = slots_[i];
      if (!slot.used) continue;  // no rank has a gradient
      ++slot.steps;
      const int64_t begin = std::max(slot.offset, first),
                    end = std::min(slot.offset + slot.parameter.numel(), first + own);
      if (begin >= end) continue;
      AdamWParameter update;
      update.size = static_cast<size_t>(end - begin);
      update.gradient = bucket.own_gradient.data_ptr<float>() + (begin - first);
      update.p = bucket.values.data_ptr<float>() + begin;
      update.m = bucket.exp_avg.data_ptr<float>() + (begin - first);
      update.v = bucket.exp_avg_sq.data_ptr<float>() + (begin - first);
      update.weight_decay = slot.weight_decay;
      update.step = slot.steps;
      updates.push_back(update);
    }
    adamw_step(updates,
               {learning_rate, options_.beta1, options_.beta2, options_.eps, gradient_scale},
               executor);
    bucket.own_gradient.reset();
    bucket.received.reset();
    gathering.push_back(world_.gather(bucket.values[world_.rank()], bucket.values));
  }
  for (World::Pending& pending : gathering) pending.wait();
  // A graph that still holds the old values must notice.
  for (Slot& slot : slots_) slot.parameter.unsafeGetTensorImpl()->bump_version();
}

std::vector<ParameterState> ShardedAdamW::gather_state() {
  const at::NoGradGuard no_grad;
  const bool first = world_.rank() == 0;
  std::vector<ParameterState> states(first ? slots_.size() : 0);
  at::Tensor ParameterState::*const whole[] = {&ParameterState::exp_avg,
                                               &ParameterState::exp_avg_sq};
  for (const Bucket& bucket : buckets_)
    for (const auto member : whole) {
      const at::Tensor& own =
          member == &ParameterState::exp_avg ? bucket.exp_avg : bucket.exp_avg_sq;
      const at::Tensor all = at::empty({world_.size(), own.numel()});
      world_.gather(own, all).wait();
      if (!first) continue;
      for (const size_t i : bucket.slots) {
        states[i].*member = slots_[i].view_in(all).clone();
        states[i].steps = slots_[i].steps;
      }
    }
  return states;
}

void ShardedAdamW::load_state(const std::vector<ParameterState>& state) {
  DP_CHECK_INPUT(state.size() == slots_.size(), "ShardedAdamW: a state must have ", slots_.size(),
                 " entries, one per parameter, got ", state.size(), ".");
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < state.size(); ++i) {
    for (const at::Tensor& x : {state[i].exp_avg, state[i].exp_avg_sq})
      DP_CHECK_INPUT(x.defined() && x.sizes() == slots_[i].parameter.sizes(),
                     "ShardedAdamW: the state of parameter ", i, " must be of shape ",
                     slots_[i].parameter.sizes(), ".");
    slots_[i].steps = state[i].steps;
  }
  for (Bucket& bucket : buckets_) {
    const at::Tensor all = at::zeros({world_.size(), bucket.size / world_.size()});
    for (const size_t i : bucket.slots) slots_[i].view_in(all).copy_(state[i].exp_avg);
    bucket.exp_avg.copy_(all[world_.rank()]);
    for (const size_t i : bucket.slots) slots_[i].view_in(all).copy_(state[i].exp_avg_sq);
    bucket.exp_avg_sq.copy_(all[world_.rank()]);
  }
}

int64_t ShardedAdamW::state_bytes_here() const {
  int64_t bytes = 0;
  for (const Bucket& bucket : buckets_)
    bytes += static_cast<int64_t>(bucket.exp_avg.nbytes() + bucket.exp_avg_sq.nbytes());
  return bytes;
}

}  // namespace dp
