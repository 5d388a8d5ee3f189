#include "text/prepare_journal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/quote.h"
#include "base/read_file.h"

namespace dp {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

namespace {

constexpr const char* kJournalFile = "journal.json";

ordered_json to_json(const ShardInfo& shard) {
  return {shard.tokens, shard.documents, shard.text_bytes, to_hex(shard.tokens_hash),
          to_hex(shard.documents_hash)};
}

ShardInfo shard_of_json(const json& value) {
  return {value.at(0).get<uint64_t>(), value.at(1).get<uint64_t>(), value.at(2).get<uint64_t>(),
          std::stoull(value.at(3).get<std::string>(), nullptr, 16),
          std::stoull(value.at(4).get<std::string>(), nullptr, 16)};
}

ordered_json to_json(const PrepareJournal& journal) {
  const TextPosition& p = journal.position;
  ordered_json splits = ordered_json::array();
  for (const ShardState& state : journal.splits) {
    ordered_json finished = ordered_json::array();
    for (const ShardInfo& shard : state.finished) finished.push_back(to_json(shard));
    splits.push_back({{"finished", finished}, {"open", to_json(state.open)}});
  }
  return {{"position", {p.file, p.offset, p.lines, p.inside, p.mid_line}},
          {"split", journal.split},
          {"document_tokens", journal.document_tokens},
          {"broken", journal.broken},
          {"first_broken", journal.first_broken},
          {"seconds", journal.seconds},
          {"source_bytes", journal.source_bytes},
          {"splits", splits}};
}

PrepareJournal journal_of_json(const json& value) {
  PrepareJournal journal;
  const json& p = value.at("position");
  journal.position = {p.at(0).get<uint64_t>(), p.at(1).get<uint64_t>(), p.at(2).get<uint64_t>(),
                      p.at(3).get<bool>(), p.at(4).get<bool>()};
  value.at("split").get_to(journal.split);
  value.at("document_tokens").get_to(journal.document_tokens);
  value.at("broken").get_to(journal.broken);
  value.at("first_broken").get_to(journal.first_broken);
  value.at("seconds").get_to(journal.seconds);
  value.at("source_bytes").get_to(journal.source_bytes);
  for (size_t i = 0; i < journal.splits.size(); ++i) {
    const json& split = value.at("splits").at(i);
    for (const json& shard : split.at("finished"))
      journal.splits[i].finished.push_back(shard_of_json(shard));
    journal.splits[i].open = shard_of_json(split.at("open"));
  }
  if (journal.split >= journal.splits.size()) throw std::out_of_range("split");
  return journal;
}

// Of files that were being written when the process was killed.
void remove_temporary_files(const fs::path& directory) {
  std::vector<fs::path> found;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(directory))
    if (entry.path().filename().native().find(".tmp-") != std::string::npos)
      found.push_back(entry.path());
  for (const fs::path& path : found) fs::remove(path);
}

void expect_settings(const std::string& found, const std::string& wanted, const fs::path& path) {
  const json before = json::parse(found), now = json::parse(wanted);
  for (const auto& [name, value] : now.items())
    if (!before.contains(name) || before[name] != value)
      throw InputError(quote(path.string()) + " is unfinished work with " + name + " = " +
                       (before.contains(name) ? before[name].dump() : "nothing") + ", now it is " +
                       value.dump() + "; remove it to begin anew");
}

}  // namespace

std::string prepare_settings(const std::vector<TextSource>& sources, const Tokenizer& tokenizer,
                             const PrepareOptions& options) {
  std::string files;
  for (const TextSource& source : sources)
    files += fs::canonical(source.path).string() + '\0' + std::to_string(source.bytes) + '\0' +
             std::to_string(source.modified) + '\n';
  const std::optional<std::string>& separator = options.text.separator;
  const ordered_json settings = {
      {"number of source files", sources.size()},
      {"sources", to_hex(xxh64(files))},
      {"tokenizer", fingerprint(tokenizer)},
      {"field", options.field},
      {"split-documents", separator ? ordered_json(*separator) : ordered_json()},
      {"shard-tokens", options.shard_tokens},
      {"validation", options.validation},
      {"piece_bytes", options.text.piece_bytes},
      {"longest_line", options.text.longest_line}};
  return settings.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

UnfinishedDirectory::UnfinishedDirectory(fs::path target, std::string settings)
    : target_(std::move(target)), settings_(std::move(settings)) {
  if (!target_.has_filename()) target_ = target_.parent_path();
  path_ = target_.string() + ".unfinished";
  require_new(target_);
  std::error_code error;
  fs::create_directories(path_, error);
  lock_ = open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock_ < 0)
    throw InputError("cannot write " + quote(path_.string()) + ": " + std::strerror(errno));
  try {
    if (flock(lock_, LOCK_EX | LOCK_NB) != 0)
      throw InputError("another process is working in " + quote(path_.string()));
    const fs::path journal = path_ / kJournalFile;
    const bool ours = fs::exists(journal);
    for (const fs::directory_entry& entry : fs::directory_iterator(path_))
      if (!ours && !entry.path().filename().native().starts_with(kJournalFile))
        throw InputError(quote(path_.string()) + " is in the way: it has no " + kJournalFile +
                         " of unfinished work");
    remove_temporary_files(path_);
    if (!ours) write_journal({});
    const json found = parse_json(read_file(journal).value_or(""), quote(journal.string()), "the journal");
    if (!found.is_object() || !found.contains("settings") || !found["settings"].is_object())
      throw InputError(quote(journal.string()) + " has no settings");
    expect_settings(found["settings"].dump(), settings_, path_);
  } catch (...) {
    close(lock_);
    throw;
  }
}

UnfinishedDirectory::~UnfinishedDirectory() { close(lock_); }

PrepareJournal UnfinishedDirectory::read_journal() const {
  const fs::path file = path_ / kJournalFile;
  try {
    return journal_of_json(json::parse(read_file(file).value_or("")));
  } catch (const std::exception& error) {
    throw InputError(quote(file.string()) + " is damaged; remove " + quote(path_.string()) +
                     " to begin anew");
  }
}

void UnfinishedDirectory::write_journal(const PrepareJournal& journal) const {
  ordered_json value = to_json(journal);
  value["settings"] = ordered_json::parse(settings_);
  write_file_atomically(path_ / kJournalFile,
                        value.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n");
}

void UnfinishedDirectory::finish() {
  fs::rename(path_, target_);  // killed here, it leaves a file too many and nothing else
  fs::remove(target_ / kJournalFile);
}

void UnfinishedDirectory::remove() { fs::remove_all(path_); }

}  // namespace dp
