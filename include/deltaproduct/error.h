// The one exception of the public interface.
#pragma once
#include <stdexcept>
#include <string>

namespace deltaproduct {

/// A file, option or token is wrong: what() is one sentence that names it, what was found and what was expected. Failures
/// that are nobody's mistake, a full disk or memory, are std::runtime_error and std::bad_alloc.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message) : std::runtime_error(message) {}
};

}  // namespace deltaproduct
