// Unicode's normal form C: composed characters where there are any, marks in a fixed order.
#pragma once
#include <string>
#include <string_view>

namespace dp {

/// Whether valid UTF-8 is in normal form without having to look closely: most text is.
bool is_surely_nfc(std::string_view text);

/// Valid UTF-8 in normal form.
std::string normalized_nfc(std::string_view text);

}  // namespace dp
