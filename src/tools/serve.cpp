// dp serve: completions over HTTP.
#include <malloc.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/quote.h"
#include "base/timer.h"
#include "runtime/model.h"
#include "serve/host_check.h"
#include "serve/memory_bound.h"
#include "serve/server.h"
#include "theory/problem.h"
#include "tools/command.h"
#include "tools/serve_compiled.h"
#include "tools/tokenizer_option.h"

namespace dp::cli {
namespace {

struct ServeArguments {
  std::string model, key_file;
  int port = 8080;
  int64_t cache_mb = 256, body_mb = 1, answer_mb = 256, requests_mb = 1024, drain_seconds = 30;
  serve::ServerOptions server;
  TokenizerOption tokenizer;
  ThreadsOption threads;
};

// One line of a file, or an environment variable: neither shows up in a list of processes.
std::string find_api_key(const std::string& file) {
  if (file.empty()) {
    const char* key = std::getenv("DP_API_KEY");
    return key ? key : "";
  }
  std::ifstream stream(file);
  std::string key;
  std::getline(stream, key);
  while (!key.empty() && std::isspace(static_cast<unsigned char>(key.back()))) key.pop_back();
  if (key.empty())
    throw InputError("--api-key-file: " + quote(file) + " has no key in its first line");
  return key;
}

std::string default_model_name(const std::string& directory) {
  const auto path = std::filesystem::absolute(directory).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

// Waits at most this long; 0 if none came.
int next_signal(const sigset_t& signals, long milliseconds) {
  const timespec most{milliseconds / 1000, milliseconds % 1000 * 1'000'000};
  const int signal = sigtimedwait(&signals, nullptr, &most);
  return signal > 0 ? signal : 0;
}

// Memory of large requests goes back to the system when they are answered, and threads share what they have freed.
void keep_memory_small() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 256 << 10);
  mallopt(M_TRIM_THRESHOLD, 1 << 20);
  mallopt(M_ARENA_MAX, 4);
#endif
}

// What requests have freed lies scattered between what is still in use, where it does not go back by itself.
void return_free_memory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

int run_server(const ServeArguments& arguments) {
  if (theory::is_compiled(arguments.model))
    return serve_compiled(arguments.model, arguments.server, arguments.port);
  keep_memory_small();
  serve::ServerOptions options = arguments.server;
  options.api_key = find_api_key(arguments.key_file);
  options.max_body_bytes = arguments.body_mb << 20;
  options.limits.answer_bytes = arguments.answer_mb << 20;
  options.request_bytes = arguments.requests_mb << 20;
  options.engine.cache_bytes = static_cast<size_t>(arguments.cache_mb) << 20;
  options.limits.choices = options.engine.most_rows;
  options.engine.threads = arguments.threads.count();
  if (options.model_name.empty()) options.model_name = default_model_name(arguments.model);
  const auto model = runtime::Model::open(arguments.model);
  const std::shared_ptr<const Tokenizer> tokenizer =
      arguments.tokenizer.load(arguments.model, model->config());

  options.chat = chat::load_chat_settings(arguments.model);

  sigset_t signals;  // of this thread alone: those started from here on have them blocked too
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  serve::Server server(model, tokenizer, options);
  const int port = server.start(arguments.port);
  const bool ipv6 = options.host.find(':') != std::string::npos;
  std::printf("serving %s on http://%s%s%s:%d\n", options.model_name.c_str(), ipv6 ? "[" : "",
              options.host.c_str(), ipv6 ? "]" : "", port);
  const serve::ServerMemory memory = serve::memory_bound(*model, options);
  const auto mb = [](int64_t bytes) { return (bytes + (1 << 20) - 1) >> 20; };
  std::printf(
      "memory: at most %ld MB: weights %ld, states %ld, cache %ld, requests %ld, buffers %ld\n",
      mb(memory.all()), mb(memory.weights), mb(memory.states), mb(memory.cache),
      mb(memory.requests), mb(memory.buffers));
  if (!options.chat.chat_template &&
      options.chat.problem.find("not understood") != std::string::npos)
    std::fprintf(stderr, "warning: no chats: %s\n", options.chat.problem.c_str());
  if (std::fflush(stdout) != 0) return 0;  // main() says that nothing can be printed
  if (options.api_key.empty() && !serve::is_loopback(options.host))
    std::fprintf(
        stderr, "warning: anyone who can reach %s can use this server, which has no key (--api-key-file)\n",
        options.host.c_str());
  int64_t ended = 0;
  while (next_signal(signals, 1000) == 0) {
    if (server.running() > 0 || server.ended() == ended) continue;
    ended = server.ended();
    return_free_memory();
  }
  server.drain();
  std::fprintf(stderr, "finishing %ld requests; a second signal ends them\n", server.running());
  const Timer timer;
  while (server.running() > 0 && timer.seconds() < static_cast<double>(arguments.drain_seconds)) {
    if (const int signal = next_signal(signals, 20)) {
      std::fprintf(stderr, "ended with %ld requests unfinished\n", server.running());
      std::fflush(stderr);
      _exit(128 + signal);
    }
  }
  pthread_sigmask(SIG_UNBLOCK, &signals,
                  nullptr);  // whoever is still to be told does not hold up a second signal
  return 0;
}

}  // namespace

Run add_serve(CLI::App& app) {
  auto options = std::make_shared<ServeArguments>();
  serve::ServerOptions& server = options->server;
  app.add_option("model", options->model,
                 "a model directory; of a compiled model (dp compile), the page of dp report is served")
      ->type_name("DIR")
      ->required();
  const auto add = [&](const char* name, auto& value, const char* help, auto check) {
    app.add_option(name, value, help)->check(check)->capture_default_str();
  };
  const auto from = [](int64_t least, int64_t most) { return CLI::Range(least, most); };
  app.add_option("--host", server.host, "address to listen on; 0.0.0.0: all addresses of this machine")
      ->capture_default_str();
  app.add_option("--allow-host", server.allowed_hosts,
                 "also accept this name in the Host and Origin headers of requests; repeatable "
                 "(default: the names of "
                 "the loopback address, or any name if --host is another address)")
      ->type_name("NAME");
  add("--port", options->port, "port to listen on; 0: any that is free", CLI::Range(0, 65535));
  app.add_option("--name", server.model_name,
                 "what clients call the model (default: the directory's name)");
  options->tokenizer.add_to(app);
  app.add_flag("--bos", server.bos,
               "put the tokenizer's first token before every prompt that is text");
  app.add_option("--api-key-file", options->key_file,
                 "a file whose first line clients must send as their key (or DP_API_KEY)")
      ->type_name("FILE");
  add("--parallel,--max-sequences", server.engine.most_rows, "sequences decoded together",
      from(1, 4096));
  add("--max-queue", server.engine.most_waiting, "sequences that may wait; further ones get status 429",
      from(0, 1 << 20));
  add("--max-prompt", server.limits.prompt_tokens, "longest prompt, in tokens", from(1, 1 << 30));
  add("--max-tokens", server.limits.max_tokens, "longest continuation, in tokens", from(1, 1 << 30));
  add("--max-seconds", server.max_seconds, "time limit of a request, including waiting", from(1, 1 << 30));
  add("--max-body-mb", options->body_mb, "largest request", from(1, 1 << 10));
  add("--max-requests-mb", options->requests_mb,
      "memory of all requests and answers under way; more get status 429", from(1, 1 << 20));
  add("--max-answer-mb", options->answer_mb, "largest answer", from(1, 1 << 20));
  add("--drain-seconds", options->drain_seconds, "time that running requests have after SIGTERM or Ctrl-C",
      from(0, 1 << 20));
  add("--max-connections", server.max_connections, "connections at a time; further ones get status 503", from(1, 900));
  add("--receive-seconds", server.receive_seconds, "time limit for a request to arrive", from(1, 3600));
  add("--cache-mb", options->cache_mb, "memory for the states of recent prompts, which are reused",
      from(0, 1 << 20));
  add("--prompt-tokens-per-step", server.engine.prompt_tokens,
      "tokens of new prompts to read between two decoding steps", from(1, 1 << 16));
  options->threads.add_to(app);
  return [options] { return run_server(*options); };
}

}  // namespace dp::cli
