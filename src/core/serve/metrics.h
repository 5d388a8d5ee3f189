// What /metrics tells Prometheus.
#pragma once
#include <atomic>
#include <map>
#include <mutex>
#include <string>

#include "serve/engine.h"
#include "serve/histogram.h"

namespace dp::serve {

class Metrics {
 public:
  void count_request(const std::string& path, int status);
  Histogram request_seconds{{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}};
  Histogram first_token_seconds{{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10}};

  std::string text(const EngineCounts& engine) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, int>, int64_t> requests_;  // by path and status
};

}  // namespace dp::serve
