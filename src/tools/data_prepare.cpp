// dp data prepare: files of text into shards of tokens.
#include <CLI/App.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/progress.h"
#include "tools/command.h"
#include "text/encode_text.h"
#include "text/prepare_tokens.h"

namespace dp::cli {
namespace {

using nlohmann::ordered_json;

constexpr const char* kPrepareExplanation =
    "Plain text (.txt, .text, .md) and JSON lines (.jsonl, .ndjson), optionally compressed (.gz, "
    ".zst); "
    "directories are\n"
    "searched for such files. After an interruption, the same command continues where it stopped.\n"
    "  ./dp data prepare corpus/ --tokenizer tokenizer.json --validation 0.01 --out data/corpus\n"
    "  ./dp data prepare stories.txt --split-documents '<|endoftext|>' --tokenizer bytes --out "
    "data/stories";

volatile std::sig_atomic_t stop_preparing = 0;

struct PrepareCommand {
  std::vector<std::string> sources;
  std::string tokenizer, out, split;
  bool measure = false;
  PrepareOptions prepare;
  JsonOption json;
  ThreadsOption threads;
};

double megabytes_per_second(const PrepareReport& report) {
  return static_cast<double>(report.text_bytes - report.text_bytes_before) / 1e6 /
         std::max(1e-9, report.seconds - report.seconds_before);
}

ordered_json to_json(const PrepareReport& report) {
  return {{"tokens", report.tokens},
          {"documents", report.documents},
          {"validation_tokens", report.validation_tokens},
          {"validation_documents", report.validation_documents},
          {"shards", report.shards},
          {"text_bytes", report.text_bytes},
          {"broken", report.broken},
          {"first_broken", report.first_broken},
          {"seconds", report.seconds},
          {"mb_per_s", megabytes_per_second(report)}};
}

// On stderr, above the bar, as they are found.
void tell_broken(Progress& progress, const PrepareReport& report, size_t& told) {
  for (; told < report.first_broken.size(); ++told)
    progress.say("dp: passed over: " + report.first_broken[told]);
}

void print_summary(const PrepareReport& report, const std::string& out) {
  std::printf("%lu documents, %lu tokens, %lu shard%s of %.1f MB of text in %s: %.2f MB/s\n",
              report.documents, report.tokens, report.shards, report.shards == 1 ? "" : "s",
              static_cast<double>(report.text_bytes) / 1e6, format_duration(report.seconds).c_str(),
              megabytes_per_second(report));
  if (report.validation_documents > 0)
    std::printf("   of which to validate: %lu documents, %lu tokens\n", report.validation_documents,
                report.validation_tokens);
  if (report.broken > 0)
    std::printf("   %lu broken %s passed over; --strict makes that an error\n", report.broken,
                report.broken == 1 ? "line or file was" : "lines or files were");
  std::printf("wrote %s\n", out.c_str());
}

int prepare(PrepareCommand& command) {
  command.json.check();
  PrepareOptions& options = command.prepare;
  options.threads = command.threads.count();
  if (!command.split.empty())
    options.text.separator = command.split == "blank" ? "" : command.split;
  if (command.measure) options.sample_bytes = 8 << 20;
  const std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(command.tokenizer);
  const TextSources sources = find_text(command.sources);
  uint64_t bytes = 0;
  for (const TextSource& source : sources.files) bytes += source.bytes;
  std::printf("%zu file%s of %.1f MB, tokenizer of %ld tokens (%s), %d threads, into %s\n",
              sources.files.size(), sources.files.size() == 1 ? "" : "s",
              static_cast<double>(bytes) / 1e6, tokenizer->vocab_size(), tokenizer->kind().c_str(),
              options.threads, command.out.c_str());
  if (sources.ignored > 0)
    std::printf("   %lu files with other endings are left out\n", sources.ignored);
  std::fflush(stdout);
  std::signal(SIGINT, [](int) { stop_preparing = 1; });
  std::signal(SIGTERM, [](int) { stop_preparing = 1; });
  PrepareReport report;
  {
    std::unique_ptr<Progress> progress;
    size_t told = 0;
    report = prepare_tokens(
        sources.files, *tokenizer, options, command.out, [&](const PrepareReport& now) {
          if (!progress) {
            progress = std::make_unique<Progress>("preparing", static_cast<int64_t>(bytes),
                                                  static_cast<int64_t>(now.source_bytes_before));
            if (now.text_bytes_before > 0) {
              char text[96];
              std::snprintf(text, sizeof text, "going on after %.1f MB of text",
                            static_cast<double>(now.text_bytes_before) / 1e6);
              progress->say(text);
            }
          }
          tell_broken(*progress, now, told);
          char text[96];
          std::snprintf(text, sizeof text, "%.1fM tokens, %.1f MB/s",
                        static_cast<double>(now.tokens) / 1e6, megabytes_per_second(now));
          progress->update(static_cast<int64_t>(now.source_bytes), text);
          return !stop_preparing;
        });
  }
  if (!report.finished) {
    std::printf("stopped after %.1f MB of text; run the same command again to continue\n",
                static_cast<double>(report.text_bytes) / 1e6);
    return 130;
  }
  print_summary(report, command.out);
  ordered_json json = to_json(report);
  if (command.measure) {
    const double alone = encoding_speed(*tokenizer, report.sample, options.threads, 2);
    std::printf("the tokenizer alone, on %d threads: %.2f MB/s; ratio %.2f\n", options.threads,
                alone, megabytes_per_second(report) / std::max(1e-9, alone));
    json["tokenizer_mb_per_s"] = alone;
  }
  command.json.write(json);
  return 0;
}

}  // namespace

Run add_data_prepare(CLI::App& app) {
  auto command = std::make_shared<PrepareCommand>();
  PrepareOptions& options = command->prepare;
  app.footer(kPrepareExplanation);
  app.add_option("sources", command->sources, "text files, or directories that contain some")
      ->type_name("SRC")
      ->required();
  app.add_option("--tokenizer", command->tokenizer,
                 "bytes, a SentencePiece model, a tokenizer.json, or a directory with one")
      ->type_name("T")
      ->required();
  app.add_option("--out", command->out, "the directory to make")->type_name("DIR")->required();
  app.add_option("--field", options.field, "name of the field that holds the text of a JSON line")
      ->type_name("NAME")
      ->capture_default_str();
  app.add_option(
         "--split-documents", command->split,
         "plain text: a line that ends a document, or 'blank' (default: a file is a document)")
      ->type_name("LINE")
      ->check(CLI::Validator(
          [](const std::string& line) -> std::string {
            return line.empty() || line.size() > 1000 || line.find('\n') != line.npos
                       ? "expected one line of 1 to 1000 bytes"
                       : "";
          },
          ""));
  app.add_option("--shard-tokens", options.shard_tokens, "approximate number of tokens per shard")
      ->type_name("N")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 40))
      ->capture_default_str();
  app.add_option(
         "--validation", options.validation,
         "share of documents to keep for validation, chosen by a hash of their content; DIR then "
         "has the folders train and validation")
      ->type_name("SHARE")
      ->check(finite_range(0.0, 0.99));
  app.add_flag("--strict", options.strict, "a broken line or file is an error");
  app.add_flag("--measure", command->measure, "also measure the tokenizer alone, on a sample");
  command->threads.add_to(app);
  command->json.add_to(app);
  return [command] { return prepare(*command); };
}

}  // namespace dp::cli
