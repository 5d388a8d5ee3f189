#include "deltaproduct/session.h"

#include "deltaproduct/batch.h"
#include "embed/internals.h"
#include "runtime/batch.h"
#include "runtime/session.h"

namespace deltaproduct {
namespace {

/// A runner and what it needs to stay alive.
struct Engine {
  Engine(Model m, Threads t)
      : model(std::move(m)),
        threads(std::move(t)),
        runner(Internals::model(model), Internals::executor(threads)) {}
  Model model;
  Threads threads;
  dp::runtime::Runner runner;
};

}  // namespace

struct Session::Data {
  std::shared_ptr<Engine> engine;
  dp::runtime::Session session;
};

Session::Session(Model model, Threads threads) {
  auto engine = std::make_shared<Engine>(std::move(model), std::move(threads));
  dp::runtime::Session session(engine->runner);
  data_.reset(new Data{std::move(engine), std::move(session)});
}
Session::Session(std::unique_ptr<Data> data) : data_(std::move(data)) {}
Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

void Session::feed(std::span<const int64_t> tokens) {
  with_public_errors([&] { data_->session.feed(tokens); });
}
std::span<const float> Session::logits() const { return data_->session.logits(); }
int64_t Session::tokens_seen() const { return data_->session.tokens_seen(); }
Session Session::fork() const { return Session(std::make_unique<Data>(*data_)); }
void Session::save(const std::filesystem::path& file) const {
  with_public_errors([&] { data_->session.save(file); });
}
void Session::restore(const std::filesystem::path& file) {
  with_public_errors([&] { data_->session.restore(file); });
}

struct Batch::Data {
  Data(Model model, Threads threads)
      : engine(std::move(model), std::move(threads)), batch(engine.runner) {}
  Engine engine;
  dp::runtime::Batch batch;
};

Batch::Batch(Model model, Threads threads)
    : data_(std::make_unique<Data>(std::move(model), std::move(threads))) {}
Batch::~Batch() = default;
Batch::Batch(Batch&&) noexcept = default;
Batch& Batch::operator=(Batch&&) noexcept = default;

size_t Batch::size() const { return data_->batch.size(); }

void Batch::join(const Session& session) {
  if (session.data_->engine->runner.model().fingerprint() !=
      data_->engine.runner.model().fingerprint())
    throw Error("the session is of another model, expected one of the batch's own");
  data_->batch.join(session.data_->session.state());
}

std::span<const float> Batch::step(std::span<const int64_t> tokens) {
  return with_public_errors([&] { return data_->batch.step(tokens); });
}

void Batch::leave(size_t row) {
  if (row >= size())
    throw Error("there is no row " + std::to_string(row) + ", the batch has " +
                std::to_string(size()));
  data_->batch.leave(row);
}

}  // namespace deltaproduct
