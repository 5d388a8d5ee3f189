// Ranks as threads of one process; tests/distributed_test.py has them as processes, and kills them.
#include "dist/world.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "dist/liveness.h"
#include "dist/test_ranks.h"

namespace dp {
namespace {

TEST(World, SumsExchangesAndGathers) {
  for (const int size : {2, 3}) {
    const auto ends = run_ranks(size, [&](World& world) {
      const double r = world.rank();
      EXPECT_EQ(world.sum({r, 1}), (std::vector<double>{size * (size - 1) / 2.0, 1.0 * size}));
      EXPECT_TRUE(world.any(world.rank() == 1));
      EXPECT_FALSE(world.any(false));
      const at::Tensor send = at::arange(size).view({size, 1}).expand({size, 4}) + 10 * r;
      const at::Tensor sent = send.to(at::kFloat).contiguous(), received = at::empty_like(sent);
      world.exchange(sent, received).wait();
      for (int from = 0; from < size; ++from)
        EXPECT_EQ(received[from][3].item<float>(), r + 10 * from);
      const at::Tensor all = at::zeros({size, 2});
      all[world.rank()].fill_(r + 1);
      world.gather(all[world.rank()], all).wait();
      for (int from = 0; from < size; ++from) EXPECT_EQ(all[from][1].item<float>(), from + 1);
      EXPECT_EQ(world.all_texts("t", std::to_string(world.rank())).back(),
                std::to_string(size - 1));
      world.barrier();
    });
    for (const std::string& end : ends) EXPECT_EQ(end, "done");
  }
}

// As under torchrun, which keeps its store through several attempts.
TEST(World, MeetsInTheStoreOfAnAgent) {
  c10d::TCPStoreOptions options;
  use_plain_sockets(options);
  options.port = free_test_port();
  options.isServer = true;
  options.waitWorkers = false;
  const c10d::TCPStore agent("127.0.0.1", options);
  for (const char* attempt : {"0", "1"}) {
    const auto ends = run_ranks(
        2, [](World& world) { EXPECT_EQ(world.sum({1})[0], 2); },
        [&](int) { return std::string("attempt ") + attempt; },
        {.port = options.port, .agent_attempt = attempt});
    EXPECT_EQ(ends, (std::vector<std::string>{"done", "done"}));
  }
}

TEST(World, AnotherProgramIsNamed) {
  const auto ends = run_ranks(
      3, [](World&) {}, [](int rank) { return rank == 1 ? "dp 2" : "dp 1"; });
  for (const std::string& end : ends)
    EXPECT_EQ(end, "rank 1 runs dp 2, rank 0 runs dp 1, expected the same program on all ranks");
}

TEST(World, AReasonToLeaveReachesTheOthers) {
  const auto ends = run_ranks(3, [](World& world) {
    world.barrier();
    if (world.rank() == 1) {
      world.leave("the disk is full");
      throw std::runtime_error("left");
    }
    world.barrier();
  });
  EXPECT_EQ(ends, (std::vector<std::string>{"rank 1 stopped: the disk is full", "left",
                                            "rank 1 stopped: the disk is full"}));
}

TEST(World, WhoDoesNotKeepUpIsNamed) {
  const auto ends = run_ranks(
      3,
      [](World& world) {
        world.barrier();
        if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(8));
        world.barrier();
      },
      [](int) { return "a"; }, {}, std::chrono::seconds(4));
  for (const size_t rank : {0, 2})
    EXPECT_EQ(ends[rank], "rank 1 is alive but does not keep up: no answer within 2 s");
}

TEST(World, WhoDoesNotComeIsNamed) {
  const Ranks alone{.rank = 0, .size = 2, .port = free_test_port()};
  try {
    World(alone, std::chrono::milliseconds(1000), "a");
    FAIL() << "went on";
  } catch (const RankLost& error) {
    EXPECT_STREQ(error.what(), "rank 1 is not there: nothing from it within 1 s");
  }
}

}  // namespace
}  // namespace dp
