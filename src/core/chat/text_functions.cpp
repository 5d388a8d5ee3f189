#include "chat/text_functions.h"

#include <algorithm>

namespace dp::chat {

std::string strip(const std::string& text, std::string_view letters, bool left, bool right) {
  const size_t first = left ? text.find_first_not_of(letters) : 0;
  if (first == text.npos) return "";
  const size_t last = right ? text.find_last_not_of(letters) : text.size() - 1;
  return last == text.npos ? "" : text.substr(first, last + 1 - first);
}

std::string change_case(std::string text, bool upper) {
  for (char& c : text) {
    if (upper && c >= 'a' && c <= 'z') c = static_cast<char>(c - 32);
    if (!upper && c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  }
  return text;
}

std::string title(const std::string& text) {
  std::string out = change_case(text, false);
  bool begins = true;
  for (char& c : out) {
    const bool letter = (c >= 'a' && c <= 'z') || static_cast<unsigned char>(c) >= 0x80;
    if (begins && c >= 'a' && c <= 'z') c = static_cast<char>(c - 32);
    begins = !letter;
  }
  return out;
}

std::string capitalize(const std::string& text) {
  return change_case(text.substr(0, 1), true) +
         change_case(text.substr(std::min<size_t>(1, text.size())), false);
}

std::string replace(const std::string& text, const std::string& from, const std::string& to,
                    int64_t most, Budget& budget) {
  if (from.empty()) throw TemplateError("'replace' has nothing to look for");
  std::string out;
  size_t at = 0;
  for (size_t found; most-- != 0 && (found = text.find(from, at)) != text.npos;
       at = found + from.size()) {
    out.append(text, at, found - at).append(to);
    budget.spend(to.size());
  }
  return out.append(text, at);
}

Value split(const std::string& text, const Value* separator, int64_t most) {
  Value::List parts;
  if (!separator || separator->is_none()) {
    for (size_t at = text.find_first_not_of(kBlank); at != text.npos;) {
      const size_t end = most == 0 ? text.find_last_not_of(kBlank) + 1
                                   : std::min(text.find_first_of(kBlank, at), text.size());
      --most;
      parts.emplace_back(text.substr(at, end - at));
      at = text.find_first_not_of(kBlank, end);
    }
    return parts;
  }
  const std::string& mark = separator->string();
  if (mark.empty()) throw TemplateError("'split' has an empty separator");
  size_t at = 0;
  for (size_t found; most-- != 0 && (found = text.find(mark, at)) != text.npos;
       at = found + mark.size())
    parts.emplace_back(text.substr(at, found - at));
  parts.emplace_back(text.substr(at));
  return parts;
}

std::string indent(const std::string& text, int64_t width, bool first, bool blank) {
  if (width < 0 || width > kLargestIndent)
    throw TemplateError("'indent' is expected to be 0 to 64 wide");
  const std::string space(static_cast<size_t>(width), ' ');
  std::string out = first ? space : "";
  for (size_t i = 0; i < text.size(); ++i) {
    out += text[i];
    if (text[i] == '\n' && (blank || (i + 1 < text.size() && text[i + 1] != '\n'))) out += space;
  }
  return out;
}

}  // namespace dp::chat
