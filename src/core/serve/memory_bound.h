// How much memory a server takes at most, as it says at its start (docs/reliability.md).
#pragma once
#include "runtime/model.h"
#include "serve/server_options.h"

namespace dp::serve {

/// In bytes.
struct ServerMemory {
  int64_t weights = 0;   // mapped from their file
  int64_t states = 0;    // of sequences that are decoded, put aside or taken in
  int64_t cache = 0;     // of prompts
  int64_t requests = 0;  // with their answers
  int64_t buffers = 0;   // of connections, of requests being parsed, and of the model's activations
  int64_t all() const { return weights + states + cache + requests + buffers; }
};
ServerMemory memory_bound(const runtime::Model& model, const ServerOptions& options);

}  // namespace dp::serve
