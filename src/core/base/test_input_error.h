// For tests: what users are told.
#pragma once
#include <string>

#include "base/error.h"

namespace dp {

/// The message of the InputError that a call throws, or "no error".
template <class F>
std::string input_error(const F& call) {
  try {
    call();
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace dp
