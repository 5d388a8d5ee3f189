// A chat template cut into text and the words of its tags.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace dp::chat {

struct Token {
  enum class Kind {
    kText,       // outside of tags, with the white space that tags ask for taken away
    kOpenPrint,  // {{
    kOpenBlock,  // {%
    kClose,      // }} or %}
    kName,
    kString,
    kInteger,
    kFloat,
    kSign,  // an operator or bracket
    kEnd
  };
  Kind kind = Kind::kEnd;
  std::string text;  // of a string, what it stands for
  size_t line = 1;
};

/// White space is taken away as Hugging Face renders chat templates: a newline after a block, blanks before a block at
/// the beginning of its line, and one newline at the end. Comments are gone. Throws TemplateError.
std::vector<Token> cut_template(std::string_view source);

}  // namespace dp::chat
