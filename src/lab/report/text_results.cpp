#include "report/text_results.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace dp::report {
namespace {
using nlohmann::json;

// JSON has no NaN: what was none is null.
double number_or_nan(const json& value) { return value.is_null() ? NAN : value.get<double>(); }

std::vector<double> numbers_or_nan(const json& list) {
  std::vector<double> values;
  for (const json& value : list) values.push_back(number_or_nan(value));
  return values;
}

void keep_losses(std::vector<LossAt>& losses) {
  std::erase_if(losses, [](const LossAt& it) { return it.at < 1 || !std::isfinite(it.loss); });
  std::ranges::stable_sort(losses, {}, &LossAt::at);
}

EffectiveRanks parse_ranks(const json& value, const std::string& file) {
  EffectiveRanks ranks;
  value.at("positions").get_to(ranks.positions);
  if (value.contains("documents")) value["documents"].get_to(ranks.documents);
  for (const json& layer : value.at("layers")) {
    auto& heads = ranks.layers.emplace_back();
    for (const json& head : layer) {
      heads.push_back(numbers_or_nan(head));
      if (heads.back().size() != ranks.positions.size())
        throw InputError(file + ": effective_rank has a head with " +
                         std::to_string(heads.back().size()) + " ranks at " +
                         std::to_string(ranks.positions.size()) + " positions");
    }
  }
  if (!std::ranges::is_sorted(ranks.positions))
    throw InputError(file + ": the positions of effective_rank are not in order");
  return ranks;
}

std::vector<Examination> parse_examinations(const json& rows) {
  std::vector<Examination> result;
  for (const json& row : rows) {
    Examination it = {row.at("file").get<std::string>(), row.at("items").get<int64_t>(),
                      row.at("accuracy").get<double>()};
    if (row.contains("accuracy_normalised"))
      it.normalised = row["accuracy_normalised"].get<double>();
    if (row.contains("perplexity") && row["perplexity"].is_number())
      it.perplexity = row["perplexity"].get<double>();
    result.push_back(std::move(it));
  }
  return result;
}

std::vector<double> mean_of_heads(const EffectiveRanks& ranks, size_t begin, size_t end) {
  std::vector<double> means;
  for (size_t i = 0; i < ranks.positions.size(); ++i) {
    double sum = 0;
    int64_t count = 0;
    for (size_t layer = begin; layer < end; ++layer)
      for (const std::vector<double>& head : ranks.layers[layer])
        if (std::isfinite(head[i])) sum += head[i], ++count;
    means.push_back(count > 0 ? sum / static_cast<double>(count) : NAN);
  }
  return means;
}

}  // namespace

std::vector<double> EffectiveRanks::mean(size_t layer) const {
  return mean_of_heads(*this, layer, layer + 1);
}

std::vector<double> EffectiveRanks::mean() const { return mean_of_heads(*this, 0, layers.size()); }

std::optional<double> TextResults::loss_at(int64_t length) const {
  const auto row = std::ranges::find(lengths, length, &LossAt::at);
  return row == lengths.end() ? std::nullopt : std::optional(row->loss);
}

void TextMetrics::read(const json& row, int64_t training_length, TextResults& results) {
  const auto tokens = row.at("tokens").get<int64_t>();
  const auto seconds = row.at("seconds").get<double>();
  if (row.contains("evaluation")) {
    for (const json& it : row["evaluation"])
      if (it.at("length").get<int64_t>() == training_length && it.at("loss").is_number())
        results.validation.push_back({tokens, it["loss"].get<double>()});
  } else if (tokens > tokens_ && seconds > seconds_) {
    timed_tokens_ += tokens - tokens_;
    timed_seconds_ += seconds - seconds_;
  }
  tokens_ = results.tokens = tokens;
  seconds_ = seconds;
  if (timed_seconds_ > 0)
    results.tokens_per_second = static_cast<double>(timed_tokens_) / timed_seconds_;
}

void read_text_evaluation(const json& value, const std::string& file, TextResults& results) {
  if (value.at("task") != "text")
    throw InputError(file + ": not the evaluation of a language model");
  TextResults read = results;
  if (value.contains("data")) value["data"].get_to(read.data);
  if (value.contains("perplexity")) {
    const json& whole = value["perplexity"];
    read.perplexity = whole.at("perplexity").get<double>();
    if (whole.contains("bits_per_byte") && whole["bits_per_byte"].is_number())
      read.bits_per_byte = whole["bits_per_byte"].get<double>();
  }
  if (value.contains("lengths")) {
    for (const json& row : value["lengths"])
      read.lengths.push_back({row.at("length").get<int64_t>(), number_or_nan(row.at("loss"))});
    keep_losses(read.lengths);
  }
  if (value.contains("by_position")) {
    const json& curve = value["by_position"];
    const auto positions = curve.at("positions").get<std::vector<int64_t>>();
    const std::vector<double> losses = numbers_or_nan(curve.at("loss"));
    if (positions.size() != losses.size())
      throw InputError(file + ": by_position has " + std::to_string(losses.size()) + " losses at " +
                       std::to_string(positions.size()) + " positions");
    for (size_t i = 0; i < positions.size(); ++i)
      read.by_position.push_back({positions[i], losses[i]});
    keep_losses(read.by_position);
    if (curve.contains("window")) curve["window"].get_to(read.window);
  }
  if (value.contains("effective_rank")) read.ranks = parse_ranks(value["effective_rank"], file);
  if (value.contains("choices")) read.choices = parse_examinations(value["choices"]);
  if (value.contains("last_word")) read.last_words = parse_examinations(value["last_word"]);
  results = std::move(read);
}

}  // namespace dp::report
