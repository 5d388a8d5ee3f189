// Python's methods of str that chat templates use. Letters are those of ASCII: others keep their case.
#pragma once
#include <string>

#include "chat/builtins.h"

namespace dp::chat {

inline constexpr const char* kBlank = " \t\n\r\v\f";
inline constexpr int64_t kLargestIndent = 64;

std::string strip(const std::string& text, std::string_view letters, bool left, bool right);
std::string change_case(std::string text, bool upper);
std::string title(const std::string& text);
std::string capitalize(const std::string& text);
/// most < 0: all of them.
std::string replace(const std::string& text, const std::string& from, const std::string& to,
                    int64_t most, Budget& budget);
/// At blanks without a separator, else at each; most < 0: all of them.
Value split(const std::string& text, const Value* separator, int64_t most);
std::string indent(const std::string& text, int64_t width, bool first, bool blank);

}  // namespace dp::chat
