#include "text/corpus.h"

#include <iconv.h>

#include <algorithm>
#include <array>
#include <fstream>

#include "base/closest.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/quote.h"
#include "base/read_file.h"
#include "base/utf8.h"
#include "text/byte_stream.h"
#include "text/json_place.h"

namespace dp {
namespace fs = std::filesystem;
namespace {

constexpr size_t kTinyText = 1024;  // bytes; shorter files are stubs and tables of contents
constexpr uint64_t kShortestPart = 4096;

using Names = std::vector<std::string>;

void refuse_unknown_fields(const JsonPlace& place, const Names& known) {
  if (!place.value().is_object()) place.fail_type("an object");
  for (const auto& [name, value] : place.value().items()) {
    if (std::ranges::find(known, name) != known.end()) continue;
    std::string expected;
    for (const std::string& field : known) expected += (expected.empty() ? "" : ", ") + field;
    const std::string meant = closest(name, known);
    place.fail(
        "has a field " + quote(name) + " that is not known; " +
        (meant.empty() ? "expected one of " + expected : "did you mean " + quote(meant) + "?"));
  }
}

// Debian's rule; nothing that could be an option or a path.
bool is_package_name(std::string_view name) {
  const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  return name.size() >= 2 && plain(name[0]) && std::ranges::all_of(name, [&](char c) {
           return plain(c) || c == '+' || c == '-' || c == '.';
         });
}

Names read_patterns(const JsonPlace& place) {
  Names patterns;
  for (size_t i = 0; i < place.size(); ++i) {
    const std::string pattern = place.element(i).text();
    if (pattern.empty() || pattern[0] == '/' || pattern.starts_with("./"))
      place.element(i).fail("is " + quote(pattern) +
                            ", expected a pattern such as usr/share/doc/**.txt");
    patterns.push_back(pattern);
  }
  return patterns;
}

class Converter {
 public:
  explicit Converter(const std::string& from) : handle_(iconv_open("UTF-8", from.c_str())) {}
  ~Converter() {
    if (known()) iconv_close(handle_);
  }
  Converter(const Converter&) = delete;
  Converter& operator=(const Converter&) = delete;

  bool known() const { return reinterpret_cast<intptr_t>(handle_) != -1; }

  std::optional<std::string> convert(std::string& bytes) const {
    std::string text(4 * bytes.size() + 16, '\0');  // enough: one byte is seldom more than 3
    char *from = bytes.data(), *to = text.data();
    size_t left = bytes.size(), space = text.size();
    if (iconv(handle_, &from, &left, &to, &space) == static_cast<size_t>(-1)) return std::nullopt;
    text.resize(text.size() - space);
    return text;
  }

 private:
  iconv_t handle_;
};

CorpusPackage read_package(const JsonPlace& place) {
  refuse_unknown_fields(place, {"name", "kind", "encoding", "include", "exclude"});
  CorpusPackage package;
  package.name = place.field("name").text();
  if (!is_package_name(package.name))
    place.field("name").fail("is " + quote(package.name) +
                             ", expected a Debian package's name: small letters, digits, + - .");
  if (const JsonPlace kind = place.field("kind"); !kind.is_null()) package.kind = kind.text();
  if (const JsonPlace encoding = place.field("encoding"); !encoding.is_null()) {
    package.encoding = encoding.text();
    if (!Converter(package.encoding).known())
      encoding.fail("is " + quote(package.encoding) +
                    ", expected an encoding that iconv knows, such as windows-1252");
  }
  package.include = read_patterns(place.field("include"));
  if (package.include.empty()) place.field("include").fail("is empty: nothing would be taken");
  if (const JsonPlace exclude = place.field("exclude"); !exclude.is_null())
    package.exclude = read_patterns(exclude);
  return package;
}

// Packages have compressed files under names of all sorts (.gz, .dz): their first two bytes tell.
std::string file_bytes(const fs::path& path, std::string& damage) {
  std::array<char, 2> first{};
  std::ifstream(path, std::ios::binary).read(first.data(), first.size());
  const bool gzip = first[0] == '\x1f' && first[1] == '\x8b';
  const auto stream = open_stream(path, gzip ? Compression::kGzip : Compression::kNone);
  std::string bytes;
  constexpr size_t kBlock = 1 << 18;
  for (size_t got = kBlock; got == kBlock;) {
    const size_t before = bytes.size();
    bytes.resize(before + kBlock);
    got = stream->read(bytes.data() + before, kBlock);
    bytes.resize(before + got);
  }
  damage = stream->damage();
  return bytes;
}

}  // namespace

Corpus read_corpus(const std::string& file) {
  const std::optional<std::string> text = read_file(file);
  if (!text) throw InputError("cannot read the corpus " + quote(file));
  const nlohmann::json json = parse_json(*text, file, "the corpus");
  const JsonPlace root(json, file);
  refuse_unknown_fields(root, {"part_bytes", "packages"});
  Corpus corpus;
  corpus.file = file;
  if (const JsonPlace part = root.field("part_bytes"); !part.is_null()) {
    if (!part.value().is_number_unsigned() || part.value().get<uint64_t>() < kShortestPart)
      part.fail_type("a whole number of at least 4096");
    corpus.part_bytes = part.value().get<uint64_t>();
  }
  const JsonPlace packages = root.field("packages");
  for (size_t i = 0; i < packages.size(); ++i) {
    CorpusPackage package = read_package(packages.element(i));
    if (std::ranges::find(corpus.packages, package.name, &CorpusPackage::name) !=
        corpus.packages.end())
      packages.element(i).field("name").fail("is " + quote(package.name) +
                                             ", which is in the list already");
    corpus.packages.push_back(std::move(package));
  }
  if (corpus.packages.empty()) packages.fail("is empty: expected at least one package");
  return corpus;
}

bool pattern_matches(std::string_view pattern, std::string_view path) {
  // reached[i]: the pattern so far can stand for the first i bytes of the path.
  std::vector<char> reached(path.size() + 1);
  reached[0] = 1;
  for (size_t p = 0; p < pattern.size(); ++p) {
    const bool star = pattern[p] == '*';
    const bool everything = star && p + 1 < pattern.size() && pattern[p + 1] == '*';
    if (everything) ++p;
    if (star) {
      for (size_t i = 0; i < path.size(); ++i)
        if (reached[i] && (everything || path[i] != '/')) reached[i + 1] = 1;
    } else {
      for (size_t i = path.size(); i > 0; --i)
        reached[i] =
            reached[i - 1] && (pattern[p] == '?' ? path[i - 1] != '/' : path[i - 1] == pattern[p]);
      reached[0] = 0;
    }
  }
  return reached[path.size()];
}

std::vector<std::string> pick_files(const Corpus& corpus, size_t package, const fs::path& root) {
  Names files;
  for (const auto& entry : fs::recursive_directory_iterator(root))
    if (!entry.is_symlink() && entry.is_regular_file())
      files.push_back(entry.path().lexically_relative(root).generic_string());
  std::ranges::sort(files);
  std::vector<char> picked(files.size());
  const CorpusPackage& wanted = corpus.packages[package];
  const auto mark = [&](const Names& patterns, const char* field, char value) {
    for (size_t k = 0; k < patterns.size(); ++k) {
      bool any = false;
      for (size_t i = 0; i < files.size(); ++i) {
        if (!pattern_matches(patterns[k], files[i])) continue;
        picked[i] = value;
        any = true;
      }
      if (!any)
        throw InputError(corpus.file + ": packages[" + std::to_string(package) + "]." + field +
                         "[" + std::to_string(k) + "] " + quote(patterns[k]) +
                         " matches none of the " + std::to_string(files.size()) +
                         " files of the package " + quote(wanted.name));
    }
  };
  mark(wanted.include, "include", 1);
  mark(wanted.exclude, "exclude", 0);
  Names kept;
  for (size_t i = 0; i < files.size(); ++i)
    if (picked[i]) kept.push_back(files[i]);
  return kept;
}

std::optional<std::string> decode_text(std::string bytes, const std::string& encoding) {
  if (utf8_prefix(bytes) != bytes.size()) {
    if (encoding.empty()) return std::nullopt;
    std::optional<std::string> converted = Converter(encoding).convert(bytes);
    if (!converted) return std::nullopt;
    bytes = std::move(*converted);
  }
  if (bytes.find('\0') != std::string::npos) return std::nullopt;
  if (bytes.starts_with("\xef\xbb\xbf")) bytes.erase(0, 3);
  size_t kept = 0;
  for (size_t i = 0; i < bytes.size(); ++i)
    if (bytes[i] != '\r' || i + 1 == bytes.size() || bytes[i + 1] != '\n') bytes[kept++] = bytes[i];
  bytes.resize(kept);
  return bytes;
}

std::vector<std::string_view> split_document(std::string_view text, uint64_t part_bytes) {
  const uint64_t count = part_bytes == 0 ? 1 : (text.size() + part_bytes - 1) / part_bytes;
  std::vector<std::string_view> parts;
  size_t begin = 0;
  for (uint64_t i = 1; i < count; ++i) {
    const size_t from = text.size() * i / count, to = text.size() * (i + 1) / count;
    if (from < begin) continue;
    const std::string_view here = text.substr(from, to - from);
    size_t cut = here.find("\n\n"), length = 2;
    if (cut == std::string_view::npos) cut = here.find('\n'), length = 1;
    if (cut == std::string_view::npos || from + cut + length == text.size()) continue;
    parts.push_back(text.substr(begin, from + cut + length - begin));
    begin = from + cut + length;
  }
  parts.push_back(text.substr(begin));
  return parts;
}

std::string CorpusDocuments::document_lines(size_t package, const fs::path& root, CorpusCounts& counts) {
  const CorpusPackage& wanted = corpus_->packages[package];
  std::string lines;
  for (const std::string& file : pick_files(*corpus_, package, root)) {
    std::string damage;
    std::string bytes = file_bytes(root / file, damage);
    const std::optional<std::string> text =
        damage.empty() ? decode_text(std::move(bytes), wanted.encoding) : std::nullopt;
    if (!text) {
      ++counts.not_text;
      continue;
    }
    if (text->size() < kTinyText) {
      ++counts.tiny;
      continue;
    }
    if (!seen_.emplace(xxh64(*text), text->size()).second) {
      ++counts.duplicates;
      continue;
    }
    ++counts.files;
    counts.bytes += text->size();
    const std::vector<std::string_view> parts = split_document(*text, corpus_->part_bytes);
    counts.documents += parts.size();
    for (size_t i = 0; i < parts.size(); ++i) {
      std::string source = wanted.name + "/" + file;
      if (parts.size() > 1)
        source += " (part " + std::to_string(i + 1) + " of " + std::to_string(parts.size()) + ")";
      lines += nlohmann::ordered_json{{"text", parts[i]}, {"source", source}}.dump(
          -1, ' ', false,
          nlohmann::json::error_handler_t::replace);  // a file's name need not be UTF-8
      lines += '\n';
    }
  }
  return lines;
}

}  // namespace dp
