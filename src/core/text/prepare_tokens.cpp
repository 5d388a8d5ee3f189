#include "text/prepare_tokens.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/pipeline.h"
#include "base/timer.h"
#include "text/encode_text.h"
#include "text/prepare_journal.h"
#include "text/shard_writer.h"
#include "text/token_shards.h"

namespace dp {
namespace fs = std::filesystem;
namespace {

constexpr size_t kUnitBytes = 1 << 18;      // of text that a thread takes at once, about
constexpr size_t kBytesInFlight = 1 << 25;  // of text between reader and writer
constexpr size_t kBrokenKept = 10;

// The reader's pieces, several small ones at once.
std::optional<TextUnit> next_unit(TextReader& reader, size_t& to_sample) {
  TextUnit unit;
  while (unit.bytes < kUnitBytes) {
    std::optional<TextPiece> piece = reader.next();
    if (!piece) break;
    unit.bytes += piece->text.size() + sizeof(TextPiece);
    unit.pieces.push_back(std::move(*piece));
  }
  if (unit.pieces.empty()) return {};
  unit.sample = to_sample > 0;
  to_sample -= std::min(to_sample, unit.bytes);
  return unit;
}

// Puts encoded pieces, in the order of the sources, into the shards of their splits.
class SplitWriter {
 public:
  SplitWriter(UnfinishedDirectory& directory, const Tokenizer& tokenizer,
              const PrepareOptions& options)
      : directory_(directory),
        tokenizer_(tokenizer),
        options_(options),
        journal_(directory.read_journal()),
        seconds_before_(journal_.seconds) {
    const size_t token_bytes = make_manifest(tokenizer).token_bytes();
    for (size_t i = 0; i < (options.validation > 0 ? 2 : 1); ++i) {
      fs::create_directories(shard_path(i));
      writers_.emplace_back(shard_path(i), token_bytes, journal_.splits[i]);
    }
    token_bytes_ = token_bytes;
    report_.text_bytes_before = report().text_bytes;
    report_.source_bytes_before = journal_.source_bytes;
  }

  const TextPosition& position() const { return journal_.position; }

  void add(EncodedUnit& unit) {
    size_t begin = 0;
    for (EncodedPiece& piece : unit.pieces) {
      const std::string_view tokens =
          std::string_view(unit.tokens).substr(begin, piece.tokens_end - begin);
      begin = piece.tokens_end;
      if (piece.broken.empty())
        add(piece, tokens);
      else
        note_broken(std::move(piece.broken));
      journal_.position = piece.after;
      journal_.source_bytes = piece.source_bytes;
    }
    for (std::string& text : unit.sample) report_.sample.push_back(std::move(text));
    if (since_journal_.seconds() >= options_.journal_every) write_journal();
  }

  void write_journal() {
    for (size_t i = 0; i < writers_.size(); ++i) {
      writers_[i].flush();
      journal_.splits[i] = writers_[i].state();
    }
    journal_.seconds = seconds_before_ + timer_.seconds();
    directory_.write_journal(journal_);
    since_journal_ = {};
  }

  void finish() {
    for (size_t i = 0; i < writers_.size(); ++i) {
      writers_[i].end_shard();
      TokenManifest manifest = make_manifest(tokenizer_);
      manifest.shards = writers_[i].state().finished;
      if (!manifest.tokenizer_file.empty())
        write_file_atomically(shard_path(i) / manifest.tokenizer_file, tokenizer_.file_content());
      write_file_atomically(shard_path(i) / kManifestFile, to_json(manifest));
    }
  }

  // Nothing of the work can be used again: the sources or the options must change first.
  [[noreturn]] void give_up(const std::string& why) {
    directory_.remove();
    throw InputError(why);
  }

  const PrepareReport& report() {
    report_.text_bytes = report_.tokens = report_.documents = report_.shards = 0;
    for (size_t i = 0; i < writers_.size(); ++i) {
      const ShardState& state = writers_[i].state();
      ShardInfo sum = state.open;
      for (const ShardInfo& shard : state.finished) {
        sum.tokens += shard.tokens;
        sum.documents += shard.documents;
        sum.text_bytes += shard.text_bytes;
      }
      report_.shards += state.finished.size() + (state.open.tokens > 0);
      report_.tokens += sum.tokens;
      report_.documents += sum.documents;
      report_.text_bytes += sum.text_bytes;
      if (i == 1) report_.validation_tokens = sum.tokens;
      if (i == 1) report_.validation_documents = sum.documents;
    }
    report_.broken = journal_.broken;
    report_.first_broken = journal_.first_broken;
    report_.source_bytes = journal_.source_bytes;
    report_.seconds = seconds_before_ + timer_.seconds();
    report_.seconds_before = seconds_before_;
    return report_;
  }

 private:
  fs::path shard_path(size_t split) const {
    if (options_.validation == 0) return directory_.path();
    return directory_.path() / (split == 0 ? "train" : "validation");
  }

  void add(const EncodedPiece& piece, std::string_view tokens) {
    if (piece.begins_document) {
      journal_.split = piece.validation ? 1 : 0;
      journal_.document_tokens = 0;
    }
    ShardWriter& writer = writers_[journal_.split];
    // Only now that more tokens follow: the end of a document stays with its last token.
    if (!tokens.empty() && writer.state().open.tokens >= options_.shard_tokens) {
      writer.end_shard();
      write_journal();
    }
    writer.append(tokens, piece.text_bytes);
    journal_.document_tokens += tokens.size() / token_bytes_;
    if (piece.ends_document && journal_.document_tokens > 0) writer.end_document();
  }

  void note_broken(std::string what) {
    if (options_.strict) give_up(what);
    ++journal_.broken;
    if (journal_.first_broken.size() < kBrokenKept)
      journal_.first_broken.push_back(std::move(what));
  }

  UnfinishedDirectory& directory_;
  const Tokenizer& tokenizer_;
  const PrepareOptions& options_;
  PrepareJournal journal_;
  double seconds_before_;
  size_t token_bytes_ = 2;
  std::vector<ShardWriter> writers_;
  PrepareReport report_;
  Timer timer_, since_journal_;
};

}  // namespace

PrepareReport prepare_tokens(const std::vector<TextSource>& sources, const Tokenizer& tokenizer,
                             const PrepareOptions& options, const fs::path& directory,
                             const PrepareWatcher& watch) {
  UnfinishedDirectory unfinished(directory, prepare_settings(sources, tokenizer, options));
  SplitWriter writer(unfinished, tokenizer, options);
  if (const PrepareReport& before = writer.report(); options.strict && before.broken > 0)
    throw InputError(before.first_broken.front());
  {
    const EncodeOptions encode{options.field, options.text.piece_bytes, options.validation};
    size_t to_sample = options.sample_bytes;
    TextReader reader(sources, options.text, writer.position());
    Pipeline<TextUnit, EncodedUnit> units(
        [&] { return next_unit(reader, to_sample); },
        [&](TextUnit& unit) { return encode_unit(unit, tokenizer, encode); },
        [](const TextUnit& unit) { return unit.bytes; }, kBytesInFlight, options.threads);
    while (std::optional<EncodedUnit> unit = units.get()) {
      writer.add(*unit);
      if (watch(writer.report())) continue;
      writer.write_journal();
      return writer.report();
    }
  }
  const PrepareReport& all = writer.report();
  if (all.documents == 0)
    writer.give_up("found no document in " + std::to_string(sources.size()) +
                   (sources.size() == 1 ? " file" : " files") +
                   (all.broken > 0 ? ": " + all.first_broken.front() : ""));
  writer.finish();
  unfinished.finish();
  PrepareReport report = writer.report();
  report.finished = true;
  return report;
}

}  // namespace dp
