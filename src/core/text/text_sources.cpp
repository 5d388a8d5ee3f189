// Which files of text there are, and the text in a line of JSONL.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "base/quote.h"
#include "text/text_reader.h"

namespace dp {
namespace fs = std::filesystem;
namespace {

using nlohmann::json;

fs::path without_compression(const fs::path& path) {
  return detect_compression(path) == Compression::kNone ? path : path.stem();
}

bool is_jsonl(const fs::path& path) {
  const fs::path ending = without_compression(path).extension();
  return ending == ".jsonl" || ending == ".ndjson";
}

bool is_known(const fs::path& path) {
  const fs::path ending = without_compression(path).extension();
  return is_jsonl(path) || ending == ".txt" || ending == ".text" || ending == ".md";
}

[[noreturn]] void throw_unreadable(const fs::path& path, const std::string& why) {
  throw InputError("cannot read " + quote(path.string()) + ": " + why);
}

TextSource describe_source(const fs::path& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0 || access(path.c_str(), R_OK) != 0)
    throw_unreadable(path, std::strerror(errno));
  if (!S_ISREG(status.st_mode)) throw_unreadable(path, "it is not a regular file");
  return {path, detect_compression(path), is_jsonl(path), static_cast<uint64_t>(status.st_size),
          int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec};
}

// Hidden files and directories are not meant; links to directories could lead in circles.
void walk(const fs::path& directory, std::vector<fs::path>& found, uint64_t& ignored) {
  std::error_code error;
  fs::recursive_directory_iterator at(directory, error), end;
  while (!error && at != end) {
    const fs::path& path = at->path();
    const bool hidden = path.filename().native().starts_with('.');
    if (at->is_directory(error)) {
      if (hidden) at.disable_recursion_pending();
    } else if (!hidden && at->is_regular_file(error) && is_known(path)) {
      found.push_back(path);
    } else {
      ++ignored;
    }
    if (!error) at.increment(error);
  }
  if (error) throw_unreadable(directory, error.message());
}

// Keeps one field of the outermost object, and nothing else in memory.
class FieldFinder final : public json::json_sax_t {
 public:
  explicit FieldFinder(const std::string& field) : field_(field) {}

  bool null() override { return other("null"); }
  bool boolean(bool) override { return other("a boolean"); }
  bool number_integer(number_integer_t) override { return other("a number"); }
  bool number_unsigned(number_unsigned_t) override { return other("a number"); }
  bool number_float(number_float_t, const string_t&) override { return other("a number"); }
  bool binary(binary_t&) override { return other("binary"); }
  bool string(string_t& value) override {
    if (!wanted()) return other("a string");
    text_ = std::move(value);
    return true;
  }
  bool start_object(size_t) override { return open("an object"); }
  bool start_array(size_t) override { return open("an array"); }
  bool end_object() override { return --depth_, true; }
  bool end_array() override { return --depth_, true; }
  bool key(string_t& value) override {
    in_field_ = depth_ == 1 && value == field_;
    if (in_field_ && named_++) problem_ = "names " + quote(field_) + " twice";
    if (depth_ == 1 && !in_field_ && others_.size() < 100)
      others_ += (others_.empty() ? "" : ", ") + quote(value);
    return problem_.empty();
  }
  bool parse_error(size_t, const std::string&, const json::exception& error) override {
    // "[json.exception.parse_error.101] parse error at ... last read: 'THE WHOLE TOKEN'"
    constexpr size_t kLongest = 200;
    std::string_view reason = error.what();
    reason = reason.substr(std::min(reason.find("] ") + 2, reason.size()));
    problem_ = "is not valid JSON: " + std::string(reason.substr(0, kLongest)) +
               (reason.size() > kLongest ? "..." : "");
    return false;
  }

  std::string result() && {
    if (problem_.empty() && !named_)
      problem_ = "has no field " + quote(field_) + (others_.empty() ? "" : ", only " + others_);
    if (!problem_.empty()) throw InputError(problem_);
    return std::move(text_);
  }

 private:
  bool wanted() const { return depth_ == 1 && in_field_; }
  bool other(const char* type) {
    if (depth_ == 0) problem_ = std::string("is ") + type + ", expected an object";
    if (wanted())
      problem_ = "has " + std::string(type) + " as " + quote(field_) + ", expected a string";
    return problem_.empty();
  }
  bool open(const char* type) {
    const bool outermost = depth_ == 0 && type == std::string_view("an object");
    if (!outermost && !other(type)) return false;
    ++depth_;
    return true;
  }

  const std::string& field_;
  std::string text_, problem_, others_;
  int64_t depth_ = 0;
  int named_ = 0;
  bool in_field_ = false;  // the value that comes next is the field's
};

}  // namespace

TextSources find_text(const std::vector<std::string>& paths) {
  TextSources sources;
  for (const std::string& path : paths) {
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (!fs::exists(status))
      throw InputError("cannot read " + quote(path) + ": " +
                       (error ? error.message() : "it does not exist"));
    std::vector<fs::path> found;
    if (fs::is_directory(status))
      walk(path, found, sources.ignored);
    else
      found.emplace_back(path);
    std::ranges::sort(found, {},
                      [](const fs::path& p) -> const std::string& { return p.native(); });
    for (const fs::path& file : found) sources.files.push_back(describe_source(file));
  }
  std::set<fs::path> seen;
  for (const TextSource& source : sources.files)
    if (!seen.insert(fs::canonical(source.path)).second)
      throw InputError(quote(source.path.string()) + " is named twice");
  if (sources.files.empty())
    throw InputError("found no text in " + quote(paths.empty() ? "" : paths.front()) +
                     (paths.size() > 1 ? " and others" : "") +
                     ": expected .txt, .text, .md, .jsonl or .ndjson, perhaps with .gz or .zst");
  return sources;
}

std::string json_text_field(std::string_view line, const std::string& field) {
  FieldFinder finder(field);
  json::sax_parse(line.begin(), line.end(), &finder);
  return std::move(finder).result();
}

}  // namespace dp
