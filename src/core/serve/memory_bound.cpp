#include "serve/memory_bound.h"

#include <algorithm>

#include "serve/memory.h"

namespace dp::serve {

ServerMemory memory_bound(const runtime::Model& model, const ServerOptions& options) {
  const ModelConfig& config = model.config();
  const auto state = static_cast<int64_t>(model.new_state().bytes());
  const int64_t tokens = std::max<int64_t>(options.engine.most_rows, options.engine.prompt_tokens);
  ServerMemory memory;
  memory.weights =
      static_cast<int64_t>(model.bytes_per_token()) + config.vocab_size * config.hidden_size * 4;
  memory.states = most_states(options.engine) * state;
  memory.cache = static_cast<int64_t>(options.engine.cache_bytes);
  memory.requests = options.request_bytes;
  constexpr int64_t kThread = 1 << 20;  // of a connection: its stack and what it reads
  memory.buffers =
      options.max_connections * (kThread + options.max_body_bytes +
                                 static_cast<int64_t>(kSmallRequest) * kParsedBytesPerByte) +
      kMostParsers * options.max_body_bytes * kParsedBytesPerByte +
      tokens * 4 * (config.vocab_size + 32 * config.hidden_size);
  return memory;
}

}  // namespace dp::serve
