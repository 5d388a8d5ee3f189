#include "tasks/text.h"

#include <utility>

#include "base/error.h"
#include "base/quote.h"
#include "tasks/text_batches.h"

namespace dp {
namespace {
namespace fs = std::filesystem;

std::shared_ptr<const TokenDataset> open_split(const fs::path& data, const char* split) {
  if (data.empty())
    throw InputError("no text to learn from, expected --data with a dataset made by dp data prepare");
  if (!fs::exists(data / split / kManifestFile))
    throw InputError(quote(data.string()) + " has no " + split +
                     "/manifest.json, expected what dp data prepare --validation 0.01 makes");
  return std::make_shared<TokenDataset>(data / split);
}

}  // namespace

Settings TextOptions::settings() {
  return {text_setting("data", "task.data", data, "directory made by dp data prepare --validation"),
          flag_setting("reset-at-documents", "task.reset_at_documents", reset_at_documents,
                       "begin each document with an empty state; otherwise it is carried from one "
                       "to the next within a sequence")};
}

std::shared_ptr<const Task> TextOptions::make_task() const {
  return std::make_shared<Text>(*this);
}

Text::Text(TextOptions options)
    : options_(std::move(options)),
      train_(open_split(options_.data, "train")),
      validation_(open_split(options_.data, "validation")) {
  const TokenManifest &a = train_->manifest(), &b = validation_->manifest();
  if (a.tokenizer_fingerprint != b.tokenizer_fingerprint || a.vocab_size != b.vocab_size)
    throw InputError(quote(options_.data) + ": train and validation come from different " +
                     "tokenizers, " + a.tokenizer_fingerprint + " and " + b.tokenizer_fingerprint);
}

int64_t Text::num_sequences(Split split, int64_t length) const {
  return static_cast<int64_t>(TextBatches(of(split), {.length = length}).num_windows());
}

fs::path Text::tokenizer_file() const {
  const std::string& file = train_->manifest().tokenizer_file;
  return file.empty() ? fs::path() : train_->directory() / file;
}

Batch Text::make_sequences(Split split, uint64_t seed, uint64_t first, int64_t count,
                           const Difficulty& difficulty) const {
  return TextBatches(of(split), {.length = difficulty.length,
                                 .seed = seed,
                                 .shuffled = true,
                                 .reset_at_documents = options_.reset_at_documents})
      .windows(first, count);
}

}  // namespace dp
