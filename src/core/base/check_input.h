// The check of a caller's arguments.
#pragma once
#include <sstream>

#include "base/error.h"

namespace dp {

/// Throws InputError with all parts of the message in a row.
template <class... Parts>
[[noreturn]] void throw_input_error(const Parts&... parts) {
  std::ostringstream message;
  (message << ... << parts);
  throw InputError(message.str());
}

}  // namespace dp

/// Throws InputError unless the condition holds; only then are the parts of the message evaluated.
#define DP_CHECK_INPUT(condition, ...)                      \
  do {                                                      \
    if (!(condition)) ::dp::throw_input_error(__VA_ARGS__); \
  } while (false)
