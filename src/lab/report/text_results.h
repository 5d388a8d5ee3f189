// What is measured of a language model: metrics.jsonl and eval.json of its run.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace dp::report {

/// In nats per token, at a position, at a length or after so many tokens of training.
struct LossAt {
  int64_t at = 0;
  double loss = 0;
};

/// Of the states, while a long text is read.
struct EffectiveRanks {
  std::vector<int64_t> positions;
  std::vector<int64_t> documents;  // positions where one ends
  /// By layer and head, at each position; NaN: unknown. A layer whose state is no matrix has no heads.
  std::vector<std::vector<std::vector<double>>> layers;

  /// At each position the mean over heads, of one layer or of all.
  std::vector<double> mean(size_t layer) const;
  std::vector<double> mean() const;
};

/// Questions of a file, by multiple choice or for the last word of a text.
struct Examination {
  std::string file;
  int64_t items = 0;
  double accuracy = 0;
  std::optional<double> normalised = {};  // by likelihood per character, of multiple choice
  std::optional<double> perplexity = {};  // of last words
};

struct TextResults {
  std::vector<LossAt> validation;  // in training, at the training length
  int64_t tokens = 0;              // trained on
  double tokens_per_second = 0;    // evaluations not counted; 0: unknown

  /// From eval.json, each if it is there.
  std::string data;  // what was read
  std::optional<double> perplexity, bits_per_byte;
  std::vector<LossAt> lengths;  // of positions up to a length and beyond the one before; ascending
  std::vector<LossAt> by_position;  // a moving average over `window` of them
  int64_t window = 0;
  EffectiveRanks ranks;
  std::vector<Examination> choices, last_words;

  std::optional<double> loss_at(int64_t length) const;
};

/// Rows of metrics.jsonl, one by one.
class TextMetrics {
 public:
  /// Throws nlohmann::json::exception.
  void read(const nlohmann::json& row, int64_t training_length, TextResults& results);

 private:
  int64_t tokens_ = 0, timed_tokens_ = 0;
  double seconds_ = 0, timed_seconds_ = 0;
};

/// eval.json into `results`, all of it or nothing. Throws nlohmann::json::exception, and InputError that begins
/// with `file`.
void read_text_evaluation(const nlohmann::json& value, const std::string& file,
                          TextResults& results);

}  // namespace dp::report
