// A whole model against what the reference implementation computed from its weights.
#include <ATen/ATen.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/quote.h"
#include "nn/block_reader.h"
#include "nn/golden.h"
#include "nn/pretrained.h"
#include "nn/tensors.h"

namespace dp::golden {
namespace {
namespace fs = std::filesystem;

constexpr const char *kWhole = "whole sequences", *kBlocks = "blocks of tokens",
                     *kSteps = "one token at a time";

class ModelCheck {
 public:
  explicit ModelCheck(const fs::path& directory)
      : expected_(directory / "expected.safetensors"),
        model_(load_model(directory)) {}

  Deviation run() {
    check_batch();
    const at::Tensor prompt = ids("prompt_ids");
    check_prompt(prompt, prompt.numel(), kWhole);
    check_prompt(prompt, 3, kBlocks);
    check_prompt(prompt, 1, kSteps);
    check_continuation(prompt);
    return worst_;
  }

 private:
  at::Tensor ids(const char* name) const {
    const at::Tensor tensor = load_tensor(expected_, name);
    if (tensor.scalar_type() != at::kLong || tensor.dim() != 2)
      throw InputError(expected_.path().string() + ": tensor " + quote(name) +
                       " must be a batch of int64 tokens, got shape " + c10::str(tensor.sizes()));
    return tensor;
  }

  void compare(const std::string& name, const at::Tensor& got, double tolerance,
               const char* method) {
    const double error = absolute_error(got, load_tensor(expected_, name));
    worst_ = std::max(worst_, Deviation{error, tolerance, method, name, false});
  }

  void check_batch() {
    std::vector<at::Tensor> residuals;
    ForwardOptions options;
    options.residuals = &residuals;
    const at::Tensor features = model_.features(ids("input_ids"), options);
    compare("logits", model_.logits(features), kLogitTolerance, kWhole);
    residuals.back() = features;  // the reference lists the last block's output after the norm
    for (size_t i = 0; i < residuals.size(); ++i)
      compare("hidden." + std::to_string(i), residuals[i], kLogitTolerance, kWhole);
  }

  // The prompt in blocks of so many tokens: logits of every token, state after the last.
  void check_prompt(const at::Tensor& prompt, int64_t block, const char* method) {
    ModelState state;
    std::vector<at::Tensor> logits;
    for (BlockReader blocks(model_, prompt, state); !blocks.done();)
      logits.push_back(model_.logits(blocks.next(block)));
    compare("prompt_logits", at::cat(logits, 1), kLogitTolerance, method);
    const MixerState& first = state.layers.at(0);
    compare("state0", first.at("recurrent"), kStateTolerance, method);
    for (const char part : {'q', 'k', 'v'}) {
      const std::string name = std::string("conv0_") + part;
      if (expected_.find(name))  // [1,C,W] there, [1,W,C] here
        compare(name, first.at(std::string("conv_") + part).transpose(1, 2), kLogitTolerance,
                method);
    }
  }

  void check_continuation(const at::Tensor& prompt) {
    const at::Tensor want = ids("greedy_ids");
    ModelState state;
    std::vector<int64_t> got;
    for (at::Tensor next = prompt; static_cast<int64_t>(got.size()) < want.size(1);) {
      next = model_.logits(last_features(model_, next, state)).argmax(-1, /*keepdim=*/true);
      got.push_back(next.item<int64_t>());
    }
    const bool same = std::equal(got.begin(), got.end(), want.contiguous().data_ptr<int64_t>(),
                                 want.contiguous().data_ptr<int64_t>() + want.numel());
    if (!same)
      throw InputError(expected_.path().string() +
                       ": the greedy continuation of prompt_ids is not greedy_ids but " +
                       c10::str(at::IntArrayRef(got)));
  }

  SafetensorsFile expected_;
  LanguageModel model_;
  Deviation worst_;
};

}  // namespace

Deviation check_model_directory(const fs::path& path) {
  const c10::InferenceMode inference;
  return ModelCheck(path).run();
}

}  // namespace dp::golden
