// Documents from files of text, one after the other, in memory that does not depend on the size of the files.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/byte_stream.h"

namespace dp {

struct TextSource {
  std::filesystem::path path;
  Compression compression = Compression::kNone;
  bool jsonl = false;    // every line is a document's JSON; otherwise plain text
  uint64_t bytes = 0;    // of the file
  int64_t modified = 0;  // when, in the clock's own unit: to tell whether it is still the same
};

struct TextSources {
  std::vector<TextSource> files;
  uint64_t ignored = 0;  // files in directories whose names end in nothing known
};

/// Files and, in sorted order, those below directories: .txt, .text, .md, .jsonl and .ndjson, each perhaps with .gz or
/// .zst after it, no hidden ones. A file that is named itself is taken whatever its name. Throws InputError for
/// what is missing, unreadable or named twice, and when there is nothing.
TextSources find_text(const std::vector<std::string>& paths);

struct TextReaderOptions {
  /// Plain text: a line that is this ends a document; blank lines do if it is empty. None: a file is a document.
  std::optional<std::string> separator = {};
  size_t piece_bytes = 1 << 20;    // longer documents of plain text come in pieces
  size_t longest_line = 32 << 20;  // of JSONL; a longer one is broken
};

/// Where reading goes on.
struct TextPosition {
  uint64_t file = 0;      // in the list of sources
  uint64_t offset = 0;    // in the decompressed file
  uint64_t lines = 0;     // complete ones before it
  bool inside = false;    // a document has begun
  bool mid_line = false;  // a line has begun
  bool operator==(const TextPosition&) const = default;
};

/// A document of JSONL as its line, a document of plain text or a piece of one, or something broken.
struct TextPiece {
  std::string text;
  const TextSource* source = nullptr;
  uint64_t line = 0;  // its first, from 1
  bool begins_document = true, ends_document = true;
  std::string broken;  // instead of text, what is wrong: "is damaged: ..."
  TextPosition after;
  uint64_t source_bytes = 0;  // of all files read so far, about: for progress
};

/// "'FILE' line 3"
std::string describe_place(const TextSource& source, uint64_t line);

/// What is read before the damage in a compressed file counts, apart from a line of JSONL that it cuts. No document
/// is empty.
class TextReader {
 public:
  /// `sources` must outlive the reader and its pieces. Throws InputError when a file has no such position.
  TextReader(const std::vector<TextSource>& sources, TextReaderOptions options,
             const TextPosition& start = {});
  /// Nothing at the end. Throws InputError for a file that cannot be read any more.
  std::optional<TextPiece> next();

 private:
  void open_file();
  bool fill(size_t size);
  std::optional<TextPiece> next_line();
  std::optional<TextPiece> next_text();
  TextPiece broken_piece(std::string what);
  TextPiece take(size_t text, size_t all);
  void consume(size_t size);
  void skip_line();
  std::string_view rest() const { return std::string_view(buffer_).substr(begin_); }

  const std::vector<TextSource>& sources_;
  const TextReaderOptions options_;
  TextPosition position_;
  std::unique_ptr<ByteStream> stream_;  // of the file at position_, once something of it is wanted
  std::string buffer_;                  // what follows position_, from begin_ on
  size_t begin_ = 0;
  bool at_end_ = false;            // nothing follows the buffer
  std::optional<size_t> scanned_;  // lines of rest() before there are no separators
  uint64_t bytes_of_files_ = 0;    // of those before this one
};

/// Where to cut text of more than `limit` bytes, so that tokens are those of the whole if possible: 1 .. limit. Behind
/// a newline, or else before a space, or else between characters.
size_t cut_text(std::string_view text, size_t limit);

/// The text in a line of JSONL. Throws InputError that says what is wrong with the line: "has no field 'text'".
std::string json_text_field(std::string_view line, const std::string& field);

}  // namespace dp
