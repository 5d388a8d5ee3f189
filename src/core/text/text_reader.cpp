#include "text/text_reader.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/quote.h"
#include "base/utf8.h"

namespace dp {
namespace {

constexpr std::string_view kBlank = " \t\r\n\v\f";
constexpr size_t kBlock = 1 << 16;  // bytes read at a time
constexpr size_t kLongestSeparator = 4096;  // with its line end; a longer line is none

bool is_blank(std::string_view line) { return line.find_first_not_of(kBlank) == line.npos; }

std::string_view without_line_end(std::string_view line) {
  if (line.ends_with('\n')) line.remove_suffix(1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

struct Lines {
  size_t begin, end;
};

// The first separator among the whole lines of `text` from `scanned` on, where a line begins; moves `scanned`
// behind the lines that are none.
std::optional<Lines> find_separator(std::string_view text, const std::string& separator, bool last,
                                    size_t& scanned) {
  while (scanned < text.size()) {
    size_t end = text.find('\n', scanned);
    if (end == text.npos && !last) return {};
    end = std::min(end, text.size() - 1) + 1;
    const std::string_view line = text.substr(scanned, end - scanned);
    if (separator.empty() ? is_blank(line) : without_line_end(line) == separator)
      return Lines{scanned, end};
    scanned = end;
  }
  return {};
}

}  // namespace

std::string describe_place(const TextSource& source, uint64_t line) {
  return quote(source.path.string()) + " line " + std::to_string(line);
}

size_t cut_text(std::string_view text, size_t limit) {
  // Tokenizers take white space together with what follows it or with more of its kind, but never a newline with
  // the word behind it, nor a space with what is before it.
  size_t newline = 0;
  for (size_t at = limit; at > 0; --at) {
    if (text[at - 1] != '\n') continue;
    if (kBlank.find(text[at]) == kBlank.npos) return at;
    newline = std::max(newline, at);
  }
  for (size_t at = limit; at > 1; --at)
    if (text[at] == ' ' && kBlank.find(text[at - 1]) == kBlank.npos) return at;
  if (newline > 0) return newline;
  for (size_t at = limit; at > 0 && at + 4 > limit; --at)
    if (!utf8_continues(text[at])) return at;
  return limit;
}

TextReader::TextReader(const std::vector<TextSource>& sources, TextReaderOptions options,
                       const TextPosition& start)
    : sources_(sources), options_(std::move(options)), position_(start) {
  for (size_t i = 0; i < std::min<size_t>(start.file, sources.size()); ++i)
    bytes_of_files_ += sources[i].bytes;
}

std::optional<TextPiece> TextReader::next() {
  while (position_.file < sources_.size()) {
    if (!stream_) open_file();
    const TextSource& source = sources_[position_.file];
    if (std::optional<TextPiece> piece = source.jsonl ? next_line() : next_text()) return piece;
    // The file is used up; what is wrong with its end comes last.
    const std::string damage = stream_->damage();
    const uint64_t line = position_.lines + 1;
    stream_.reset();
    bytes_of_files_ += source.bytes;
    position_ = {position_.file + 1};
    if (damage.empty()) continue;
    TextPiece piece = broken_piece(damage);
    piece.source = &source;
    piece.line = line;
    return piece;
  }
  return {};
}

void TextReader::open_file() {
  const TextSource& source = sources_[position_.file];
  stream_ = open_stream(source.path, source.compression);
  if (!stream_->skip(position_.offset))
    throw InputError(quote(source.path.string()) + " has become shorter than the " +
                     std::to_string(position_.offset) + " bytes that were read of it before");
  buffer_.clear();
  scanned_.reset();
  begin_ = 0;
  at_end_ = false;
}

// Reads until `size` bytes are there. False when there were no more.
bool TextReader::fill(size_t size) {
  buffer_.erase(0, std::exchange(begin_, 0));
  const size_t before = buffer_.size();
  if (size <= before || at_end_) return false;
  buffer_.resize(size);
  const size_t got = stream_->read(buffer_.data() + before, size - before);
  buffer_.resize(before + got);
  at_end_ = before + got < size;
  return got > 0;
}

void TextReader::consume(size_t size) {
  const std::string_view bytes = rest().substr(0, size);
  position_.offset += size;
  position_.lines += static_cast<uint64_t>(std::ranges::count(bytes, '\n'));
  if (!bytes.empty()) position_.mid_line = !bytes.ends_with('\n');
  begin_ += size;
  if (scanned_ && *scanned_ < size)
    scanned_.reset();
  else if (scanned_)
    *scanned_ -= size;
}

TextPiece TextReader::broken_piece(std::string what) {
  TextPiece piece;
  if (position_.file < sources_.size()) piece.source = &sources_[position_.file];
  piece.line = position_.lines + 1;
  piece.broken = std::move(what);
  piece.after = position_;
  piece.source_bytes = bytes_of_files_ + (stream_ ? stream_->file_bytes() : 0);
  return piece;
}

// The next `text` bytes as a piece of the same document as the last, and then to go on after `all`.
TextPiece TextReader::take(size_t text, size_t all) {
  TextPiece piece;
  piece.source = &sources_[position_.file];
  piece.line = position_.lines + 1;
  piece.text = rest().substr(0, text);
  piece.begins_document = !position_.inside;
  consume(all);
  piece.source_bytes = bytes_of_files_ + stream_->file_bytes();
  return piece;
}

void TextReader::skip_line() {
  for (;;) {
    const size_t newline = rest().find('\n');
    if (newline != std::string_view::npos) return consume(newline + 1);
    consume(rest().size());
    if (!fill(kBlock)) return;
  }
}

std::optional<TextPiece> TextReader::next_line() {
  for (size_t searched = 0;;) {
    size_t end = rest().find('\n', searched);
    if (end == std::string_view::npos && rest().size() <= options_.longest_line) {
      searched = rest().size();
      if (fill(std::max(kBlock, 2 * searched))) continue;
      if (!stream_->damage().empty()) consume(searched);  // the beginning of a line
      if (rest().empty()) return {};
      end = rest().size() - 1;
    }
    if (std::min(end, rest().size()) > options_.longest_line) {
      TextPiece piece =
          broken_piece("has more than " + std::to_string(options_.longest_line) + " bytes");
      skip_line();
      piece.after = position_;
      return piece;
    }
    searched = 0;
    if (is_blank(rest().substr(0, end + 1))) {
      consume(end + 1);
      continue;
    }
    TextPiece piece = take(end + 1, end + 1);
    position_.mid_line = false;
    piece.after = position_;
    return piece;
  }
}

std::optional<TextPiece> TextReader::next_text() {
  const size_t limit = options_.piece_bytes;
  const auto finish = [&](TextPiece piece, bool ends) {
    piece.ends_document = ends;
    position_.inside = !ends;
    piece.after = position_;
    return piece;
  };
  // What a piece is depends on its position and the bytes after it alone, never on how many of them happen to be in
  // the buffer: or it would be another one after an interruption.
  const size_t visible = options_.separator ? limit + kLongestSeparator : limit;
  for (;;) {
    std::optional<Lines> found;
    if (options_.separator) {
      const std::string_view text = rest().substr(0, visible);
      const bool last = at_end_ && text.size() == rest().size();
      if (!scanned_ && position_.mid_line) {
        const size_t newline = text.find('\n');
        if (newline != std::string_view::npos) scanned_ = newline + 1;
      } else if (!scanned_) {
        scanned_ = 0;
      }
      if (scanned_) found = find_separator(text, *options_.separator, last, *scanned_);
      if (found && found->begin > limit) found.reset();
    }
    if (found && found->begin == 0 && !position_.inside) {
      consume(found->end);
    } else if (found) {
      return finish(take(found->begin, found->end), true);
    } else if (rest().size() <= visible && !at_end_) {
      fill(std::max(kBlock, std::min(4 * rest().size(), 2 * visible)));
    } else if (rest().size() > limit) {
      const size_t cut = cut_text(rest(), limit);
      return finish(take(cut, cut), false);
    } else {
      if (rest().empty() && !position_.inside) return {};
      return finish(take(rest().size(), rest().size()), true);
    }
  }
}

}  // namespace dp
