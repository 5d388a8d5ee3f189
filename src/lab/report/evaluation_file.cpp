#include "report/evaluation_file.h"

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "base/read_file.h"
#include "report/metrics.h"

namespace dp::report {
namespace {

using nlohmann::ordered_json;
using Fields = std::initializer_list<const char*>;

constexpr size_t kMostPositions = 256;

// Those of `fields` that `value` has.
ordered_json selected(const ordered_json& value, Fields fields) {
  ordered_json result = ordered_json::object();
  for (const char* field : fields)
    if (value.contains(field)) result[field] = value[field];
  return result;
}

void check_numbers(const ordered_json& list) {
  for (const ordered_json& value : list)
    if (!value.is_null()) static_cast<void>(value.get<double>());  // JSON writes NaN as null
}

void expect_equal_sizes(const ordered_json& a, const ordered_json& b, const std::string& what) {
  if (a.size() != b.size())
    throw InputError(what + " has arrays of " + std::to_string(a.size()) + " and " +
                     std::to_string(b.size()) + " numbers");
}

ordered_json check_accuracies(const ordered_json& value, const std::string& file) {
  ordered_json result = selected(value, {"lengths", "sequences"});
  check_lengths(value.at("lengths"));
  if (value.contains("sequences")) static_cast<void>(value["sequences"].get<int64_t>());
  if (value.contains("constant_answer")) {
    result["constant_answer"] = selected(value["constant_answer"], {"answer", "mean_scaled_accuracy"});
    check_numbers(result["constant_answer"]);
  }
  if (!value.contains("by_position")) return result;
  result["by_position"] = selected(value["by_position"], {"token_accuracy", "sequence_accuracy"});
  for (const ordered_json& list : result["by_position"]) check_numbers(list);
  expect_equal_sizes(result["by_position"].at("token_accuracy"),
                     result["by_position"].at("sequence_accuracy"), file + ": by_position");
  return result;
}

ordered_json check_ranks(const ordered_json& value, const std::string& file) {
  const auto positions = value.at("positions").get<std::vector<int64_t>>();
  if (!std::ranges::is_sorted(positions))
    throw InputError(file + ": the positions of effective_rank are not in order");
  const size_t step = positions.size() / kMostPositions + 1;
  const auto thinned = [&](const ordered_json& list) {
    auto result = ordered_json::array();
    for (size_t i = 0; i < list.size(); ++i)
      if (i % step == 0 || i + 1 == list.size()) result.push_back(list[i]);
    return result;
  };
  ordered_json ranks = {{"positions", thinned(value["positions"])},
                        {"documents", value.value("documents", std::vector<int64_t>())},
                        {"layers", ordered_json::array()}};
  for (const ordered_json& layer : value.at("layers")) {
    auto heads = ordered_json::array();
    for (const ordered_json& head : layer) {
      check_numbers(head);
      expect_equal_sizes(head, value["positions"], file + ": effective_rank");
      heads.push_back(thinned(head));
    }
    ranks["layers"].push_back(std::move(heads));
  }
  return ranks;
}

ordered_json check_questions(const ordered_json& rows) {
  auto result = ordered_json::array();
  for (const ordered_json& row : rows) {
    static_cast<void>(row.at("file").get<std::string>());
    result.push_back(
        selected(row, {"file", "items", "accuracy", "accuracy_normalised", "perplexity"}));
    check_numbers(
        {row.at("items"), row.at("accuracy"), result.back().value("accuracy_normalised", 0.0)});
  }
  return result;
}

ordered_json check_boundaries(const ordered_json& value, const std::string& file) {
  ordered_json result = selected(value, {"documents", "document_tokens", "every"});
  check_numbers(result);
  result["layers"] = ordered_json::array();
  const size_t samples = value.at("document_tokens").get<size_t>() / std::max<size_t>(1, value.at("every").get<size_t>());
  for (const ordered_json& layer : value.at("layers")) {
    auto heads = ordered_json::array();
    for (const ordered_json& head : layer) {
      heads.push_back(selected(head, {"mean", "before", "after", "change", "low", "high"}));
      check_numbers(head.at("mean"));
      if (head["mean"].size() != samples)
        throw InputError(file + ": boundary_ranks has a head with " + std::to_string(head["mean"].size()) + " means, expected " +
                         std::to_string(samples));
      for (const char* field : {"before", "after", "change", "low", "high"}) static_cast<void>(head.at(field).get<double>());
    }
    result["layers"].push_back(std::move(heads));
  }
  return result;
}

ordered_json check_text(const ordered_json& value, const std::string& file) {
  if (value.at("task") != "text")
    throw InputError(file + ": not the evaluation of a language model");
  ordered_json result = selected(value, {"lengths"});
  result["data"] = value.value("data", "");
  if (value.contains("perplexity")) {
    result["perplexity"] = value["perplexity"].at("perplexity").get<double>();
    const auto bits = value["perplexity"].find("bits_per_byte");
    if (bits != value["perplexity"].end() && bits->is_number()) result["bits_per_byte"] = *bits;
  }
  if (value.contains("lengths")) check_lengths(value["lengths"]);
  if (value.contains("by_position")) {
    result["by_position"] = selected(value["by_position"], {"positions", "loss"});
    result["by_position"]["window"] = value["by_position"].value("window", int64_t{0});
    static_cast<void>(result["by_position"].at("positions").get<std::vector<int64_t>>());
    check_numbers(result["by_position"].at("loss"));
    expect_equal_sizes(result["by_position"]["positions"], result["by_position"]["loss"],
                       file + ": by_position");
  }
  if (value.contains("effective_rank"))
    result["effective_rank"] = check_ranks(value["effective_rank"], file);
  if (value.contains("boundary_ranks")) result["boundary_ranks"] = check_boundaries(value["boundary_ranks"], file);
  if (value.contains("by_text")) {
    result["by_text"] = selected(value["by_text"], {"losses", "far_minus_near"});
    for (const ordered_json& row : result["by_text"].at("losses")) check_numbers(row);
    if (result["by_text"].contains("far_minus_near"))
      for (const char* field : {"mean", "low", "high"})
        static_cast<void>(result["by_text"]["far_minus_near"].at(field).get<double>());
  }
  for (const char* field : {"choices", "last_word"})
    if (value.contains(field)) result[field] = check_questions(value[field]);
  return result;
}

}  // namespace

ordered_json read_evaluation(const std::filesystem::path& path, bool language_model) {
  const std::string file = path.string();
  const ordered_json value = parse_json(read_file(path).value_or(""), file, "an evaluation");
  try {
    return language_model ? check_text(value, file) : check_accuracies(value, file);
  } catch (const ordered_json::exception&) {
    throw InputError(file + ": not what ./dp eval --json writes");
  }
}

}  // namespace dp::report
