// For tests: ranks as threads of one process.
#pragma once
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "dist/world.h"

namespace dp {

inline uint16_t free_test_port() {
  const int file = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  EXPECT_EQ(bind(file, reinterpret_cast<sockaddr*>(&address), size), 0);
  getsockname(file, reinterpret_cast<sockaddr*>(&address), &size);
  close(file);
  return ntohs(address.sin_port);
}

/// Returns for each rank "done" or the text of its exception.
inline std::vector<std::string> run_ranks(
    int size, const std::function<void(World&)>& work,
    const std::function<std::string(int)>& program = [](int) { return "a"; }, Ranks ranks = {},
    std::chrono::milliseconds timeout = std::chrono::seconds(20)) {
  ranks.size = size;
  if (ranks.agent_attempt.empty()) ranks.port = free_test_port();
  std::vector<std::string> ends(static_cast<size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      Ranks own = ranks;
      own.rank = rank;
      std::string& end = ends[static_cast<size_t>(rank)];
      try {
        World world(own, timeout, program(rank));
        work(world);
        end = "done";
      } catch (const std::exception& error) {
        end = error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return ends;
}

}  // namespace dp
