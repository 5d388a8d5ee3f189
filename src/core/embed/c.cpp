#include "deltaproduct/c.h"

#include <algorithm>
#include <exception>
#include <string>

#include "deltaproduct/error.h"
#include "deltaproduct/session.h"

struct deltaproduct_session {
  deltaproduct::Model model;
  deltaproduct::Session session;
};

namespace {

thread_local std::string last_error;

constexpr int kMistake = 1, kFailure = 2;

int fail(const char* message, int code) noexcept {
  try {
    last_error = message;
  } catch (...) {
    last_error.clear();
  }
  return code;
}

// Runs f; what it throws becomes a code, and its text that of deltaproduct_error().
template <class F>
int guarded(const F& f) noexcept {
  try {
    f();
    return 0;
  } catch (const deltaproduct::Error& error) {
    return fail(error.what(), kMistake);
  } catch (const std::exception& error) {
    return fail(error.what(), kFailure);
  }
}

void require(bool condition, const char* message) {
  if (!condition) throw deltaproduct::Error(message);
}

void require_session(const deltaproduct_session* session) {
  require(session != nullptr, "the session is NULL, expected one of deltaproduct_open");
}

}  // namespace

deltaproduct_session* deltaproduct_open(const char* directory, int threads) {
  deltaproduct_session* opened = nullptr;
  guarded([&] {
    require(directory != nullptr, "the directory is NULL, expected the path of a model");
    const auto model = deltaproduct::Model::open(directory);
    opened = new deltaproduct_session{
        model, deltaproduct::Session(model, deltaproduct::Threads(threads))};
  });
  return opened;
}

int64_t deltaproduct_vocabulary_size(const deltaproduct_session* session) {
  return session == nullptr ? 0 : session->model.vocabulary_size();
}

int deltaproduct_prompt(deltaproduct_session* session, const int64_t* tokens, size_t count) {
  return guarded([&] {
    require_session(session);
    require(tokens != nullptr || count == 0, "the tokens are NULL, expected an array");
    session->session.feed(std::span(tokens, count));
  });
}

int deltaproduct_step(deltaproduct_session* session, int64_t token) {
  return deltaproduct_prompt(session, &token, 1);
}

const float* deltaproduct_logits(const deltaproduct_session* session) {
  if (session == nullptr || session->session.logits().empty()) return nullptr;
  return session->session.logits().data();
}

int64_t deltaproduct_most_likely(const deltaproduct_session* session) {
  if (deltaproduct_logits(session) == nullptr) return -1;
  const auto logits = session->session.logits();
  return std::ranges::max_element(logits) - logits.begin();
}

int deltaproduct_save(const deltaproduct_session* session, const char* file) {
  return guarded([&] {
    require_session(session);
    require(file != nullptr, "the file is NULL, expected a path");
    session->session.save(file);
  });
}

int deltaproduct_restore(deltaproduct_session* session, const char* file) {
  return guarded([&] {
    require_session(session);
    require(file != nullptr, "the file is NULL, expected a path");
    session->session.restore(file);
  });
}

deltaproduct_session* deltaproduct_fork(const deltaproduct_session* session) {
  deltaproduct_session* copy = nullptr;
  guarded([&] {
    require_session(session);
    copy = new deltaproduct_session{session->model, session->session.fork()};
  });
  return copy;
}

void deltaproduct_close(deltaproduct_session* session) { delete session; }

const char* deltaproduct_error(void) { return last_error.c_str(); }
