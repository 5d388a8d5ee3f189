// HTTP: completions as OpenAI has them, models, health, metrics, and a page to play with.
#pragma once
#include <memory>
#include <string>

#include "runtime/model.h"
#include "serve/server_options.h"
#include "text/tokenizer.h"

namespace dp::serve {

class Server {
 public:
  Server(std::shared_ptr<const runtime::Model> model, std::shared_ptr<const Tokenizer> tokenizer,
         const ServerOptions& options);
  /// Ends whatever runs.
  ~Server();

  /// Answers from now on. Port 0: any. Returns the port. Throws InputError if that cannot be had.
  int start(int port);
  /// No new completions: they get status 503.
  void drain();
  /// Completions that are not answered yet.
  int64_t running() const;
  /// Completions that have ended, however they did.
  int64_t ended() const;

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

/// The page at /.
std::string playground_page();

}  // namespace dp::serve
