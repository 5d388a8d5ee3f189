#include "tools/serve_compiled.h"

#include <signal.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "report/compiled_data.h"
#include "report/page.h"
#include "serve/host_check.h"
#include "serve/http_server.h"

namespace dp::cli {
namespace {

serve::HttpResponse plain(int status, const std::string& message) {
  return {status, "text/plain; charset=utf-8", message + "\n"};
}

}  // namespace

int serve_compiled(const std::filesystem::path& model, const serve::ServerOptions& options,
                   int port) {
  const std::string page = report::make_page(report::compiled_data(report::load_compiled(model)));
  const serve::HostCheck hosts(options.host, options.allowed_hosts);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  const auto check = [&](const serve::HttpRequest& request) -> std::optional<serve::HttpResponse> {
    if (const auto refusal = hosts.refusal(request)) return plain(403, *refusal);
    if (request.path != "/" && request.path != "/health")
      return plain(404, "this server has one page, /, of a compiled model, which completes no text");
    if (request.method != "GET" && request.method != "HEAD")
      return serve::HttpResponse{405, "text/plain", "expected GET\n", {{"Allow", "GET, HEAD"}}};
    return std::nullopt;
  };
  const auto answer = [&](serve::HttpRequest& request, serve::HttpExchange& exchange) {
    if (request.path == "/health")
      exchange.send({200, "application/json", "{\"status\": \"ok\"}\n"});
    else
      exchange.send({200, "text/html; charset=utf-8", page, {{"X-Content-Type-Options", "nosniff"}}});
  };
  serve::HttpServer server({}, {.check = check, .answer = answer, .error = plain,
                             .log = [](const serve::HttpRequest&, int) {}});
  const int found = server.start(options.host, port);
  const bool ipv6 = options.host.find(':') != std::string::npos;
  std::printf("serving the page of %s on http://%s%s%s:%d; Ctrl-C ends it\n", model.c_str(),
              ipv6 ? "[" : "", options.host.c_str(), ipv6 ? "]" : "", found);
  std::fflush(stdout);
  int signal = 0;
  sigwait(&signals, &signal);
  server.stop();
  return 0;
}

}  // namespace dp::cli
