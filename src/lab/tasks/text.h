// The next token of a text, from tokens on the disk.
#pragma once
#include <memory>
#include <string>

#include "text/token_shards.h"
#include "tasks/task.h"

namespace dp {

struct TextOptions {
  static constexpr const char* kName = "text";
  static constexpr const char* kHelp = "what is the next token of a text?";

  std::string data;                 // a directory of datasets train/ and validation/
  bool reset_at_documents = false;  // otherwise the state is carried from one to the next

  Settings settings();
  std::string describe() const { return kName; }
  std::shared_ptr<const Task> make_task() const;
};

/// Sequences are windows of the stream of all documents, each once in an epoch and in a random order of the seed
/// (tasks/text_batches.h). For both kValidation and kTest they are of validation/.
class Text final : public Task {
 public:
  /// Throws InputError for datasets that are not there, or that two tokenizers have made.
  explicit Text(TextOptions options);

  const TokenDataset& dataset(Split split) const { return *of(split); }
  int64_t vocab_size() const override { return train_->manifest().vocab_size; }
  bool judged_by_loss() const override { return true; }
  int64_t num_sequences(Split split, int64_t length) const override;
  std::filesystem::path tokenizer_file() const override;
  double chance() const override { return 1.0 / static_cast<double>(vocab_size()); }
  int64_t num_tokens(int64_t length) const override { return length; }
  bool splits_are_disjoint(int64_t /*length*/) const override { return true; }

 protected:
  Batch make_sequences(Split split, uint64_t seed, uint64_t first, int64_t count,
                       const Difficulty& difficulty) const override;

 private:
  const std::shared_ptr<const TokenDataset>& of(Split split) const {
    return split == Split::kTrain ? train_ : validation_;
  }

  TextOptions options_;
  std::shared_ptr<const TokenDataset> train_, validation_;
};

}  // namespace dp
