// Ranks as threads of one process; tests/distributed_test.py has them as processes, and kills them.
#include "dist/world.h"

#include <ATen/ATen.h>
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <thread>

#include "base/error.h"

namespace dp {
namespace {

using std::chrono::milliseconds;

uint16_t free_port() {
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

// What each rank's function ended with: "done" or the text of its exception.
std::vector<std::string> run_ranks(int size, milliseconds timeout,
                                   const std::function<void(World&)>& work,
                                   const std::function<std::string(int)>& program) {
  Ranks ranks{.size = size, .port = free_port()};
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

std::string one_program(int) { return "a"; }

TEST(World, SumsExchangesAndGathers) {
  for (const int size : {2, 3}) {
    const auto ends = run_ranks(
        size, milliseconds(20000),
        [&](World& world) {
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
        },
        one_program);
    for (const std::string& end : ends) EXPECT_EQ(end, "done");
  }
}

TEST(World, AnotherProgramIsNamed) {
  const auto ends = run_ranks(
      3, milliseconds(20000), [](World&) {}, [](int rank) { return rank == 1 ? "dp 2" : "dp 1"; });
  for (const std::string& end : ends)
    EXPECT_EQ(end, "rank 1 runs dp 2, rank 0 runs dp 1, expected the same program on all ranks");
}

TEST(World, AReasonToLeaveReachesTheOthers) {
  const auto ends = run_ranks(
      3, milliseconds(20000),
      [](World& world) {
        world.barrier();
        if (world.rank() == 1) {
          world.leave("the disk is full");
          throw std::runtime_error("left");
        }
        world.barrier();
      },
      one_program);
  EXPECT_EQ(ends, (std::vector<std::string>{"rank 1 stopped: the disk is full", "left",
                                            "rank 1 stopped: the disk is full"}));
}

TEST(World, WhoDoesNotComeIsNamed) {
  const Ranks alone{.rank = 0, .size = 2, .port = free_port()};
  try {
    World(alone, milliseconds(1000), "a");
    FAIL() << "went on";
  } catch (const RankLost& error) {
    EXPECT_STREQ(error.what(), "rank 1 is not there: nothing from it within 1 s");
  }
}

}  // namespace
}  // namespace dp
