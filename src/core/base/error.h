// The one error type that the program tells apart from all others.
#pragma once
#include <stdexcept>

namespace dp {

/// Somebody else's mistake: a bad option, a missing or malformed file. Its text is one sentence
/// that names the file, field or tensor, what was found and what was expected; the program then
/// exits with code 2.
class InputError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace dp
