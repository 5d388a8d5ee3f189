// What the public classes of include/deltaproduct/ are made of.
#pragma once
#include <utility>

#include "base/error.h"
#include "base/executor.h"
#include "deltaproduct/error.h"
#include "deltaproduct/model.h"
#include "runtime/model.h"

namespace deltaproduct {

struct Internals {
  static const std::shared_ptr<const dp::runtime::Model>& model(const Model& model);
  static dp::Executor& executor(const Threads& threads);
};

/// What the library throws about its input, as the public exception.
template <class F>
decltype(auto) with_public_errors(F&& f) {
  try {
    return std::forward<F>(f)();
  } catch (const dp::InputError& error) {
    throw Error(error.what());
  }
}

}  // namespace deltaproduct
