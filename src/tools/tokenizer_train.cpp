// dp tokenizer train: a SentencePiece model from text.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/timer.h"
#include "text/sentencepiece_tokenizer.h"
#include "text/text_reader.h"
#include "text/train_sentencepiece.h"
#include "tools/command.h"

namespace dp::cli {
namespace {

struct TokenizerTraining {
  std::vector<std::string> sources;
  std::string out, field = "text";
  SentencePieceTraining training;
};

int train_tokenizer(const TokenizerTraining& options) {
  require_writable(options.out);
  const TextSources sources = find_text(options.sources);
  const Timer timer;
  SentencePieceTrainer trainer(options.training);
  constexpr size_t kSample = 1 << 20;
  std::string sample;  // to say what the tokenizer is like
  uint64_t bytes = 0;
  TextReader reader(sources.files, {});
  while (const std::optional<TextPiece> piece = reader.next()) {
    const std::string place = describe_place(*piece->source, piece->line);
    if (!piece->broken.empty()) throw InputError(place + " " + piece->broken);
    std::string text = piece->text;
    if (piece->source->jsonl) {
      try {
        text = json_text_field(piece->text, options.field);
      } catch (const InputError& error) {
        throw InputError(place + " " + error.what());
      }
    }
    trainer.add(text);
    bytes += text.size();
    if (sample.size() < kSample) sample += text.substr(0, kSample - sample.size());
  }
  const std::string model = trainer.finish();
  const std::unique_ptr<Tokenizer> tokenizer = parse_sentencepiece_tokenizer(model, options.out);
  const std::vector<int32_t> tokens = tokenizer->encode(sample);
  if (tokenizer->decode(tokens) != sample)
    throw std::runtime_error("the tokenizer that was trained changes text");
  write_file_atomically(options.out, model);
  std::printf("%s of %ld pieces from %.1f MB of text in %zu file%s, %.1f s\n",
              options.training.type.c_str(), tokenizer->vocab_size(),
              static_cast<double>(bytes) / 1e6, sources.files.size(),
              sources.files.size() == 1 ? "" : "s", timer.seconds());
  std::printf(
      "%.2f bytes of this text per token; any bytes come back as they were\n",
      static_cast<double>(sample.size()) / static_cast<double>(std::max<size_t>(1, tokens.size())));
  std::printf("wrote %s\n", options.out.c_str());
  return 0;
}

}  // namespace

Run add_tokenizer_train(CLI::App& app) {
  auto options = std::make_shared<TokenizerTraining>();
  app.add_option("sources", options->sources,
                 "text or JSONL files, optionally compressed, or directories of them")
      ->type_name("SRC")
      ->required();
  app.add_option("--vocab-size", options->training.vocab_size,
                 "number of tokens, including 256 for single bytes and 3 special ones")
      ->capture_default_str();
  app.add_option("--out", options->out, "the model to write")->type_name("FILE.model")->required();
  app.add_option("--type", options->training.type, "bpe or unigram")
      ->check(CLI::IsMember({"bpe", "unigram"}))
      ->capture_default_str();
  app.add_option("--sentences", options->training.most_sentences,
                 "size of the random sample of lines to learn from; memory grows with it")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--field", options->field, "name of the field that holds the text of a JSON line")
      ->capture_default_str();
  return [options] { return train_tokenizer(*options); };
}

}  // namespace dp::cli
