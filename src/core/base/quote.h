// Quoting what came from outside, for messages and for a shell.
#pragma once
#include <string>
#include <string_view>

namespace dp {

/// 'text' for an error message: control characters become '?', and a long text is cut short.
std::string quote(std::string_view text);

/// Quoted for a POSIX shell: it's -> 'it'\''s'; words without special characters stay as they are.
std::string shell_quote(std::string_view word);

}  // namespace dp
