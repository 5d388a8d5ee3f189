// Regular expressions that cut text into words, as tokenizer files have them.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/utf8.h"

namespace dp {

/// A Perl-compatible expression over UTF-8 in which \s, \w and \d know Unicode. Callable from several threads.
class SplitPattern {
 public:
  struct Match {
    size_t begin = 0, end = 0;
  };

  /// Throws InputError "WHERE: ..." for anything that is not a regular expression.
  SplitPattern(const std::string& expression, const std::string& where);

  /// The first match at or behind `from`; perhaps an empty one. `text` must be valid UTF-8. Throws InputError when the
  /// expression needs too many steps: some take exponentially many.
  std::optional<Match> find(std::string_view text, size_t from) const;

  /// Calls piece(text, is_match) for matches and for what lies between them, in order; none is empty.
  template <class Piece>
  void split(std::string_view text, const Piece& piece) const;

 private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;
};

template <class Piece>
void SplitPattern::split(std::string_view text, const Piece& piece) const {
  size_t done = 0, from = 0;
  while (from < text.size()) {
    const std::optional<Match> match = find(text, from);
    if (!match) break;
    if (match->begin > done) piece(text.substr(done, match->begin - done), false);
    if (match->end > match->begin)
      piece(text.substr(match->begin, match->end - match->begin), true);
    done = match->end;
    from = match->end;
    // An empty match cuts, too; the next one lies at least a character further.
    if (match->end == match->begin) do
        ++from;
      while (from < text.size() && utf8_continues(text[from]));
  }
  if (done < text.size()) piece(text.substr(done), false);
}

}  // namespace dp
