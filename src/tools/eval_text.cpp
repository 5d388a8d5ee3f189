#include "tools/eval_text.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "analysis/text_scores.h"
#include "analysis/text_walk.h"
#include "base/error.h"
#include "base/progress.h"
#include "base/quote.h"
#include "nn/pretrained.h"
#include "tasks/text_batches.h"
#include "tools/eval_boundaries.h"
#include "train/batch_loss.h"
#include "train/run.h"
#include "train/statistics.h"

namespace dp::cli {
namespace {
namespace fs = std::filesystem;
using nlohmann::ordered_json;

// The paper's: loss by position is shown as the mean of so many.
constexpr int64_t kMovingAverage = 501;
constexpr int64_t kDefaultLength =
    2048;                            // of sequences, for models that no run of ours has trained
constexpr size_t kMostPoints = 512;  // of a curve

struct TextSubject {
  int64_t training_length = 0;  // 0: unknown
  bool reset_at_documents = false;
  fs::path data;  // empty: none
};

TextSubject text_subject(const std::string& model, const std::string& data) {
  TextSubject subject;
  if (fs::exists(fs::path(model) / "run.json")) {
    const RunConfig run = read_run_config(model);
    subject.training_length = run.training.length;
    if (const auto* text = std::get_if<TextOptions>(&run.task)) {
      subject.reset_at_documents = text->reset_at_documents;
      subject.data = text->data;
    }
  }
  if (!data.empty()) subject.data = data;
  if (!subject.data.empty() && !fs::exists(subject.data / kManifestFile))
    subject.data /= "validation";
  return subject;
}

int64_t training_length(const TextSubject& subject) {
  return subject.training_length > 0 ? subject.training_length : kDefaultLength;
}

ordered_json perplexity(const LanguageModel& model, const TextSubject& subject,
                        const std::shared_ptr<const TokenDataset>& data, int64_t max_tokens) {
  const c10::InferenceMode inference;
  const int64_t length = training_length(subject);
  const TextBatches windows(data, {.length = length,
                                   .shuffled = max_tokens > 0,  // a part that stands for the whole
                                   .reset_at_documents = subject.reset_at_documents});
  int64_t total = static_cast<int64_t>(windows.num_windows());
  if (max_tokens > 0) total = std::clamp<int64_t>(max_tokens / length, 1, total);
  const int64_t at_once = std::max<int64_t>(1, 16384 / length);
  double loss = 0, asked = 0;
  {
    Progress progress("perplexity", total);
    for (int64_t done = 0; done < total; done += at_once) {
      const Batch batch = windows.batch(static_cast<uint64_t>(done / at_once), at_once)
                              .rows(0, std::min(at_once, total - done));
      const auto count = (batch.targets != kNothingAsked).sum().item<double>();
      if (count > 0) loss += count * batch_loss(model, batch).loss.item<double>();
      asked += count;
      progress.update(std::min(total, done + at_once),
                      c10::str("perplexity ", std::exp(loss / std::max(1.0, asked))));
    }
  }
  const double mean = loss / asked, bytes_per_token = static_cast<double>(data->text_bytes()) /
                                                      static_cast<double>(data->num_tokens());
  const double bits = mean / std::log(2.0) / bytes_per_token;
  std::printf(
      "%s: perplexity %.3f, loss %.4f, %.4f bits per byte, over %.0f tokens in sequences of %ld\n",
      data->directory().c_str(), std::exp(mean), mean, bits, asked, length);
  return {
      {"tokens", asked}, {"loss", mean}, {"perplexity", std::exp(mean)}, {"bits_per_byte", bits}};
}

// [S,L+1], evenly over the dataset; `begins` receives where in it each begins.
at::Tensor long_texts(const TokenDataset& data, int64_t sequences, int64_t length,
                      std::vector<uint64_t>& begins) {
  const auto tokens = static_cast<int64_t>(data.num_tokens());
  const int64_t room = (tokens - 1) / length;
  if (room == 0)
    throw InputError(quote(data.directory().string()) + " has " + std::to_string(tokens) +
                     " tokens, expected more than the longest of --lengths, " +
                     std::to_string(length));
  const int64_t S = std::min(sequences, room);
  at::Tensor texts = at::empty({S, length + 1}, at::kLong);
  for (int64_t s = 0; s < S; ++s) {
    begins.push_back(static_cast<uint64_t>(s * room / S * length));
    data.read(begins.back(),
              {texts.data_ptr<int64_t>() + s * (length + 1), static_cast<size_t>(length) + 1});
  }
  return texts;
}

// Means of the positions up to each length and beyond the one before.
ordered_json losses_at(const std::vector<double>& loss, const std::vector<int64_t>& lengths,
                       int64_t trained) {
  auto rows = ordered_json::array();
  std::printf("\n%18s  %8s  %12s\n", "positions", "loss", "perplexity");
  int64_t begin = 0;
  for (const int64_t end : lengths) {
    double sum = 0;
    for (int64_t i = begin; i < end; ++i) sum += loss[static_cast<size_t>(i)];
    const double mean = sum / static_cast<double>(end - begin);
    std::printf("%8ld to %6ld  %8.4f  %12.3f%s\n", begin + 1, end, mean, std::exp(mean),
                trained > 0 && begin >= trained ? "  beyond the training length" : "");
    rows.push_back({{"length", end}, {"loss", mean}, {"perplexity", std::exp(mean)}});
    begin = end;
  }
  return rows;
}

// Of each text, means like those of losses_at(), and of their differences between the last of these and the positions that were trained the
// mean with its bootstrap interval over texts.
ordered_json losses_by_text(const std::vector<std::vector<float>>& texts, const std::vector<int64_t>& lengths, int64_t trained) {
  auto rows = ordered_json::array();
  std::vector<double> differences;
  for (const std::vector<float>& loss : texts) {
    const auto mean = [&](int64_t begin, int64_t end) {
      double sum = 0;
      for (int64_t i = begin; i < end; ++i) sum += loss[static_cast<size_t>(i)];
      return sum / static_cast<double>(end - begin);
    };
    auto row = ordered_json::array();
    for (size_t i = 0; i < lengths.size(); ++i) row.push_back(mean(i ? lengths[i - 1] : 0, lengths[i]));
    rows.push_back(row);
    if (lengths.size() > 1 && trained < lengths.back())
      differences.push_back(row.back().get<double>() - mean(0, trained));
  }
  ordered_json result = {{"losses", std::move(rows)}};
  if (differences.empty()) return result;
  double sum = 0;
  for (const double difference : differences) sum += difference;
  const double mean = sum / static_cast<double>(differences.size());
  const Interval interval = bootstrap_interval(differences);
  result["far_minus_near"] = {{"mean", mean}, {"low", interval.low}, {"high", interval.high}};
  std::printf("loss at positions %ld to %ld less that up to %ld: %+.4f [%+.4f, %+.4f], bootstrap over %zu texts\n",
              lengths[lengths.size() - 2] + 1, lengths.back(), trained, mean, interval.low, interval.high, differences.size());
  return result;
}

ordered_json curve(const std::vector<double>& loss, int64_t sequences) {
  const std::vector<double> smooth = analysis::moving_average(loss, kMovingAverage);
  auto positions = ordered_json::array(), values = ordered_json::array();
  const size_t step = (smooth.size() + kMostPoints - 1) / kMostPoints;
  for (size_t i = step - 1; i < smooth.size(); i += step) {
    positions.push_back(i + 1);
    values.push_back(smooth[i]);
  }
  return {{"sequences", sequences},
          {"length", loss.size()},
          {"window", kMovingAverage},
          {"positions", positions},
          {"loss", values}};
}

analysis::TextWalk walk(const LanguageModel& model, const at::Tensor& texts,
                        const analysis::TextWalkOptions& options, const char* title) {
  Progress progress(title, texts.size(1) - 1);
  return analysis::walk_text(model, texts, options, [&](int64_t done) {
    progress.update(done, c10::str("position ", done));
    return true;
  });
}

ordered_json effective_rank_json(const analysis::TextWalk& found, int64_t every,
                                 const std::vector<uint64_t>& document_ends, uint64_t begin) {
  auto positions = ordered_json::array(), documents = ordered_json::array();
  for (const uint64_t end : document_ends) documents.push_back(end - begin);
  auto layers = ordered_json::array();
  for (const analysis::RankSample& sample : found.ranks) {
    positions.push_back(sample.position);
    for (size_t layer = 0; layer < sample.ranks.size(); ++layer)
      for (size_t head = 0; head < sample.ranks[layer].size(); ++head)
        layers[layer][head].push_back(sample.ranks[layer][head]);
  }
  return {{"every", every}, {"positions", positions}, {"documents", documents}, {"layers", layers}};
}

// The mean over heads and samples of a range of positions, by layer.
void print_ranks(const analysis::TextWalk& found, int64_t trained) {
  if (found.ranks.empty()) return;
  const auto mean = [&](size_t layer, bool beyond) {
    double sum = 0, count = 0;
    for (const analysis::RankSample& sample : found.ranks) {
      if ((sample.position > trained) != beyond) continue;
      for (const double rank : sample.ranks[layer]) sum += rank, ++count;
    }
    return count > 0 ? sum / count : std::nan("");
  };
  std::printf("\neffective rank, the mean over heads and positions\n%8s  %18s  %8s\n", "layer",
              "training length", "beyond");
  for (size_t layer = 0; layer < found.ranks[0].ranks.size(); ++layer)
    std::printf("%8zu  %18.2f  %8.2f\n", layer, mean(layer, false), mean(layer, true));
}

template <class Score, class Print>
ordered_json each_file(const std::vector<std::string>& files, const char* title, const Score& score,
                       const Print& print) {
  auto rows = ordered_json::array();
  for (const std::string& file : files) {
    const auto result = [&] {
      const auto size = static_cast<int64_t>(fs::exists(file) ? fs::file_size(file) : 0);
      Progress progress(title, size);
      return score(file, [&](int64_t done) {
        progress.update(0, c10::str(done, " questions"));
        return true;
      });
    }();
    rows.push_back(print(file, result));
  }
  return rows;
}

void ask_questions(const LanguageModel& model, const TextEvalOptions& options,
                   const std::string& directory, ordered_json& out) {
  if (options.choices.empty() && options.last_word.empty()) return;
  const auto tokenizer = options.tokenizer.load(directory, model.config());
  if (!options.choices.empty())
    out["choices"] = each_file(
        options.choices, "questions",
        [&](const std::string& file, const auto& progress) {
          return analysis::score_choices(model, *tokenizer, file, progress);
        },
        [](const std::string& file, const analysis::ChoiceScores& s) {
          std::printf("%s: %.4f of %ld questions right, %.4f by likelihood per character\n",
                      file.c_str(), s.accuracy, s.items, s.accuracy_normalised);
          return ordered_json{{"file", file},
                              {"items", s.items},
                              {"accuracy", s.accuracy},
                              {"accuracy_normalised", s.accuracy_normalised}};
        });
  if (!options.last_word.empty())
    out["last_word"] = each_file(
        options.last_word, "last words",
        [&](const std::string& file, const auto& progress) {
          return analysis::score_last_words(model, *tokenizer, file, progress);
        },
        [](const std::string& file, const analysis::LastWordScores& s) {
          std::printf("%s: %.4f of %ld last words right, perplexity %.3f\n", file.c_str(),
                      s.accuracy, s.items, s.perplexity);
          return ordered_json{{"file", file},
                              {"items", s.items},
                              {"accuracy", s.accuracy},
                              {"perplexity", s.perplexity}};
        });
}

void read_long_texts(const LanguageModel& model, const TextSubject& subject,
                     const TokenDataset& data, std::vector<int64_t> lengths, int64_t sequences,
                     int64_t rank_every, ordered_json& out) {
  std::ranges::sort(lengths);
  lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
  std::vector<uint64_t> begins;
  const at::Tensor texts = long_texts(data, sequences, lengths.back(), begins);
  const analysis::TextWalk read = walk(model, texts, {}, "reading");
  out["lengths"] = losses_at(read.loss, lengths, subject.training_length);
  out["by_text"] = losses_by_text(read.loss_by_text, lengths, training_length(subject));
  out["by_position"] = curve(read.loss, texts.size(0));
  if (rank_every == 0) return;
  // Of one text, so that the ends of its documents can be told.
  const analysis::TextWalk found =
      walk(model, texts.slice(0, 0, 1), {.rank_every = rank_every}, "effective rank");
  const uint64_t end = begins[0] + static_cast<uint64_t>(lengths.back());
  out["effective_rank"] =
      effective_rank_json(found, rank_every, data.document_ends(begins[0], end), begins[0]);
  print_ranks(found, training_length(subject));
}

}  // namespace

void TextEvalOptions::add_to(CLI::App& app) {
  app.add_option("--data", data,
                 "dataset made by dp data prepare (default: the run's validation text)")
      ->type_name("DIR");
  app.add_option("--max-tokens", max_tokens, "tokens to compute the perplexity on; 0: all of the text")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--rank-every", rank_every,
                 "measure the effective rank of every head's state along one text, each time after this "
                 "many tokens; 0: never")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--boundaries", boundaries,
                 "effective rank where so many pairs of short excerpts meet, each after a BOS; 0: none")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--choices", choices,
                 "multiple-choice questions, a JSON object per line: {\"context\", \"choices\", \"answer\"}")
      ->type_name("FILE");
  app.add_option("--last-word", last_word,
                 "texts whose last word is to be predicted, a JSON object per line: {\"text\"}")
      ->type_name("FILE");
  tokenizer.add_to(app);
}

ordered_json eval_text(const std::string& directory, std::vector<int64_t> lengths,
                       int64_t sequences, const TextEvalOptions& options) {
  const TextSubject subject = text_subject(directory, options.data);
  std::shared_ptr<const TokenDataset> data;
  if (!subject.data.empty()) data = std::make_shared<TokenDataset>(subject.data);
  if (!data && !lengths.empty())
    throw InputError("--lengths needs text to read, expected --data");
  const LanguageModel model = load_model(directory);
  if (data && data->manifest().vocab_size > model.config().vocab_size)
    throw InputError(quote(subject.data.string()) + " has " +
                     std::to_string(data->manifest().vocab_size) +
                     " different tokens, expected at most the model's " +
                     std::to_string(model.config().vocab_size));
  ordered_json out = {{"task", "text"}};
  if (data) out["data"] = subject.data.string();
  out["training_length"] = subject.training_length;
  if (data) out["perplexity"] = perplexity(model, subject, data, options.max_tokens);
  if (data && lengths.empty() && options.rank_every > 0)
    lengths = {training_length(subject), 4 * training_length(subject)};
  if (!lengths.empty())
    read_long_texts(model, subject, *data, lengths, sequences, options.rank_every, out);
  if (options.boundaries > 0) {
    if (!data) throw InputError("--boundaries: there is no text to read, expected --data");
    out["boundary_ranks"] = eval_boundaries(model, *data, options.boundaries);
  }
  ask_questions(model, options, directory, out);
  return out;
}

}  // namespace dp::cli
