// The one error type that the program tells apart from all others.
#pragma once
#include <stdexcept>

namespace dp {

/// Somebody else's mistake: a bad option, a missing or malformed file. Its text is one sentence
/// that names the file, field or tensor, what was found and what was expected; the program then
/// exits with code 2. In Python it is a ValueError, which pybind11 makes of any std::invalid_argument.
class InputError : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

}  // namespace dp
