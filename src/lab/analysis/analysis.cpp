#include "analysis/analysis.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "analysis/ablation.h"
#include "analysis/head_statistics.h"
#include "analysis/transition.h"
#include "base/error.h"
#include "nn/language_model.h"
#include "tasks/word_problem.h"

namespace dp::analysis {
namespace {

int64_t element_order(const FiniteGroup& group, int32_t element) {
  int64_t order = 1;
  for (int32_t power = element; power != FiniteGroup::identity();
       power = group.multiply(power, element))
    ++order;
  return order;
}

/// The elements that inputs consist of: elements that do alike stand together.
std::vector<int32_t> sorted_alphabet(const WordProblem& task) {
  std::vector<int32_t> alphabet(task.alphabet().begin(), task.alphabet().end());
  std::ranges::sort(alphabet, {}, [&](int32_t element) {
    return std::pair(element_order(task.group(), element), element);
  });
  return alphabet;
}

void check(const LanguageModel& model, const WordProblem& task, const Options& options) {
  if (model.config().vocab_size != task.vocab_size())
    throw InputError(c10::str("the model has ", model.config().vocab_size, " tokens, and ",
                              task.options().group, " as the run's settings have it needs ",
                              task.vocab_size(), "; they do not belong together"));
  if (options.length < 1 || options.sequences < 1 || options.batch_size < 1)
    throw InputError("analysis: length, sequences and batch size must be at least 1");
}

/// One layer's statistics while they are gathered.
class LayerStatistics {
 public:
  LayerStatistics(const LanguageModel& model, const WordProblem& task, int64_t layer,
                  const std::vector<int32_t>& alphabet)
      : model_(model), layer_(layer), parts_(task.options().tokens_per_element) {
    const ModelConfig& c = model.config();
    const auto E = static_cast<int64_t>(alphabet.size());
    for (int64_t h = 0; h < c.value_heads(); ++h)
      heads_.emplace_back(E, parts_ * c.num_householder, c.head_dim);
  }

  /// tokens [B,T], of which those from `begin` on are elements; elements [B L] are these.
  void add(const at::Tensor& tokens, int64_t begin, const at::Tensor& elements) {
    const Factors factors = layer_factors(model_, layer_, tokens);
    const int64_t R = elements.size(0), K = factors.k.size(4);
    for (size_t h = 0; h < heads_.size(); ++h) {
      // All factors of an element's tokens in a row, the first to act first.
      const auto of_head = [&](const at::Tensor& x, int64_t dim) {
        return x.slice(1, begin).select(dim, static_cast<int64_t>(h));
      };
      const at::Tensor log_gate = of_head(factors.log_gate, 2).reshape({R, parts_});
      heads_[h].add(elements, of_head(factors.k, 3).reshape({R, -1, K}),
                    of_head(factors.beta, 3).reshape({R, -1}),
                    at::exp(log_gate.to(at::kDouble).sum(1)));
    }
  }

  const at::Tensor& counts() const { return heads_.front().counts(); }

  Layer finish(bool exact) const {
    Layer result;
    result.exact = exact;
    result.fewest_occurrences = counts().min().item<int64_t>();
    for (const HeadStatistics& statistics : heads_) {
      Head& head = result.heads.emplace_back(statistics.finish(exact));
      head.layer = layer_;
      head.head = static_cast<int64_t>(result.heads.size()) - 1;
    }
    return result;
  }

 private:
  const LanguageModel& model_;
  int64_t layer_, parts_;
  std::vector<HeadStatistics> heads_;
};

Layer analyze_layer(const LanguageModel& model, const WordProblem& task, const Options& options,
                    int64_t layer, const std::vector<int32_t>& alphabet) {
  const int64_t P = task.options().tokens_per_element;
  const auto E = static_cast<int64_t>(alphabet.size());
  LayerStatistics statistics(model, task, layer, alphabet);
  const bool exact = depends_on_token_alone(model.config(), layer);
  if (exact) {
    const at::Tensor tokens = at::empty({E, P}, at::kLong);
    for (int64_t e = 0; e < E; ++e)
      for (int64_t p = 0; p < P; ++p)
        tokens.data_ptr<int64_t>()[e * P + p] = task.token(alphabet[static_cast<size_t>(e)], p);
    statistics.add(tokens, 0, at::arange(E, at::kLong));
    return statistics.finish(exact);
  }

  const at::Tensor place = at::zeros({task.group().order()}, at::kLong);  // element -> row
  for (int64_t e = 0; e < E; ++e) place.data_ptr<int64_t>()[alphabet[static_cast<size_t>(e)]] = e;
  int64_t done = 0;
  for (uint64_t index = 0; done < options.sequences; ++index) {
    const int64_t B = std::min(options.batch_size, options.sequences - done);
    const at::Tensor tokens =
        task.batch(options.split, options.seed, index, options.batch_size, options.length)
            .tokens.slice(0, 0, B);
    // The first part of element g is the token g.
    const at::Tensor elements = tokens.slice(1, 1, c10::nullopt, P).reshape({-1});
    statistics.add(tokens, 1, place.index_select(0, elements));
    done += B;
  }
  const int64_t rarest = statistics.counts().argmin().item<int64_t>();
  if (statistics.counts()[rarest].item<int64_t>() == 0)
    throw InputError(
        c10::str("element ", task.group().element_name(alphabet[static_cast<size_t>(rarest)]),
                 " of ", task.options().group, " does not come up in ", options.sequences,
                 " sequences of length ", options.length, ", and betas and keys of layer ", layer,
                 " are averages over occurrences; use more or longer sequences"));
  return statistics.finish(exact);
}

}  // namespace

int64_t components_for(const std::vector<double>& cumulative, double share) {
  const auto enough = std::ranges::find_if(cumulative, [&](double part) { return part >= share; });
  return enough - cumulative.begin() + (enough == cumulative.end() ? 0 : 1);
}

const Head& Analysis::most_important() const {
  const Head* best = &layers.at(0).heads.at(0);
  for (const Layer& layer : layers)
    for (const Head& head : layer.heads)
      if (head.weight() > best->weight()) best = &head;
  return *best;
}

Analysis analyze(const LanguageModel& model, const WordProblem& task, const Options& options,
                 const Measure& measure) {
  check(model, task, options);
  const c10::InferenceMode inference;
  const std::vector<int32_t> alphabet = sorted_alphabet(task);
  Analysis result;
  result.group = task.options().group;
  result.factors = model.config().num_householder * task.options().tokens_per_element;
  result.options = options;
  for (const int32_t element : alphabet)
    result.elements.push_back(
        {task.group().element_name(element), element_order(task.group(), element)});
  for (int64_t l = 0; l < model.config().num_hidden_layers; ++l)
    result.layers.push_back(analyze_layer(model, task, options, l, alphabet));

  result.whole = measure(model);
  for (Layer& layer : result.layers)
    for (Head& head : layer.heads) {
      const auto h = static_cast<size_t>(head.head);
      std::vector<bool> only(layer.heads.size(), false), others(layer.heads.size(), true);
      only[h] = true;
      others[h] = false;
      head.alone = measure(with_heads(model, head.layer, only));
      head.cut = measure(with_heads(model, head.layer, others));
    }
  return result;
}

}  // namespace dp::analysis
