// The page of a compiled model over HTTP.
#pragma once
#include <filesystem>

#include "serve/server.h"

namespace dp::cli {

/// Serves the page that `dp report` would write, until SIGINT or SIGTERM. Of the options, only where to listen and which
/// names to answer to matter.
int serve_compiled(const std::filesystem::path& model, const serve::ServerOptions& options, int port);

}  // namespace dp::cli
