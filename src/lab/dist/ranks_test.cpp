#include "dist/ranks.h"

#include <gtest/gtest.h>

#include <map>

#include "base/test_input_error.h"

namespace dp {
namespace {

using Variables = std::map<std::string, std::string>;

std::optional<Ranks> parse_ranks(const Variables& variables) {
  return ranks_from([&](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

std::string ranks_refusal(const Variables& variables) {
  return input_error([&] { parse_ranks(variables); });
}

void expect_place(const Variables& variables, int rank, int size, const std::string& address,
                  int port) {
  const std::optional<Ranks> ranks = parse_ranks(variables);
  ASSERT_TRUE(ranks);
  EXPECT_EQ(ranks->rank, rank);
  EXPECT_EQ(ranks->size, size);
  EXPECT_EQ(ranks->address, address);
  EXPECT_EQ(ranks->port, port);
}

TEST(Ranks, FromEachLauncher) {
  expect_place(
      {{"RANK", "3"}, {"WORLD_SIZE", "8"}, {"MASTER_ADDR", "10.0.0.1"}, {"MASTER_PORT", "4000"}}, 3,
      8, "10.0.0.1", 4000);
  expect_place({{"OMPI_COMM_WORLD_RANK", "1"},
                {"OMPI_COMM_WORLD_SIZE", "2"},
                {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}},
               1, 2, "127.0.0.1", 29500);
  expect_place({{"SLURM_PROCID", "5"},
                {"SLURM_NTASKS", "16"},
                {"SLURM_STEP_NODELIST", "node[07-09,12]"},
                {"SLURM_JOB_ID", "40123"}},
               5, 16, "node07", 20123);
  EXPECT_EQ(first_node("gpu1,gpu2"), "gpu1");
  EXPECT_EQ(first_node("a,b[1-3]"), "a");
  EXPECT_EQ(first_node("rack2[3,5]"), "rack23");
}

// torchrun may keep the store itself.
TEST(Ranks, AStoreOfTheAgent) {
  Variables variables = {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}};
  EXPECT_EQ(parse_ranks(variables)->agent_attempt, "");
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  variables["TORCHELASTIC_RESTART_COUNT"] = "2";
  EXPECT_EQ(parse_ranks(variables)->agent_attempt, "2");
}

// What sets these variables need not have started several processes.
TEST(Ranks, AProcessAlone) {
  EXPECT_FALSE(parse_ranks({}));
  EXPECT_FALSE(parse_ranks({{"RANK", "0"}, {"WORLD_SIZE", "1"}}));
  EXPECT_FALSE(parse_ranks({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "16"}}));  // a batch script
}

TEST(Ranks, Mistakes) {
  EXPECT_EQ(ranks_refusal({{"RANK", "x"}, {"WORLD_SIZE", "2"}}),
            "the environment has RANK = 'x', expected a number from 0 to 1");
  EXPECT_EQ(ranks_refusal({{"RANK", "2"}, {"WORLD_SIZE", "2"}}),
            "the environment has RANK = '2', expected a number from 0 to 1");
  EXPECT_EQ(ranks_refusal({{"RANK", "0"}}),
            "the environment has RANK but no WORLD_SIZE, expected both or neither");
  EXPECT_EQ(ranks_refusal({{"RANK", "0"}, {"WORLD_SIZE", "2"}}),
            "the environment has no MASTER_ADDR, expected the name or address of rank 0's machine");
  EXPECT_EQ(
      ranks_refusal(
          {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "70000"}}),
      "the environment has MASTER_PORT = '70000', expected a number from 1 to 65535");
}

}  // namespace
}  // namespace dp
