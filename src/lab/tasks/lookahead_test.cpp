#include "tasks/lookahead.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>

namespace dp {
namespace {

using namespace std::chrono_literals;

int successor(const int& key) { return key + 1; }

/// Waits, for long if need be, until a condition holds.
template <class Condition>
bool eventually(const Condition& condition) {
  for (int i = 0; i < 10'000; ++i, std::this_thread::sleep_for(1ms))
    if (condition()) return true;
  return false;
}

TEST(Lookahead, GivesWhatTheFunctionDoesInAnyOrder) {
  Lookahead<int, std::unique_ptr<int>> squares(
      [](const int& key) { return std::make_unique<int>(key * key); }, successor, 3);
  for (int i = 0; i < 200; ++i) ASSERT_EQ(*squares.get(i), i * i);
  for (const int key : {7, 7, 8, 9, 9, 3, 10, 11, 12, 13, 14, 0, -5, -4, -3})
    ASSERT_EQ(*squares.get(key), key * key);
}

TEST(Lookahead, ComputesAheadButNoFurtherThanDepth) {
  const auto caller = std::this_thread::get_id();
  std::atomic<int> made = 0, made_by_caller = 0;
  Lookahead<int, int> keys(
      [&](const int& key) {
        ++(std::this_thread::get_id() == caller ? made_by_caller : made);
        return key;
      },
      successor, 2);
  EXPECT_EQ(keys.get(0), 0);
  EXPECT_EQ(made_by_caller, 1);
  for (int i = 1; i < 5; ++i) {
    EXPECT_TRUE(eventually([&] { return made == i + 1; })) << "two values ahead";
    std::this_thread::sleep_for(2ms);
    EXPECT_EQ(made, i + 1) << "and no more than two";
    EXPECT_EQ(keys.get(i), i);
  }
  EXPECT_EQ(made_by_caller, 1);
  EXPECT_EQ(keys.get(100), 100);
  EXPECT_EQ(made_by_caller, 2);
}

TEST(Lookahead, ExceptionsReachOnlyWhoAsksForThem) {
  Lookahead<int, int> keys(
      [](const int& key) {
        if (key % 5 == 0) throw std::runtime_error("five divides " + std::to_string(key));
        return key;
      },
      successor, 3);
  for (int i = 0; i < 50; ++i) {
    if (i % 5 != 0) {
      ASSERT_EQ(keys.get(i), i);
      continue;
    }
    try {
      keys.get(i);
      FAIL() << i;
    } catch (const std::runtime_error& error) {
      ASSERT_EQ(error.what(), "five divides " + std::to_string(i));
    }
  }
  EXPECT_EQ(keys.get(4), 4) << "looks ahead at 5, which nobody asks for";
}

TEST(Lookahead, StopsCleanlyAtAnyMoment) {
  std::atomic<int> running = 0;
  for (int i = 0; i < 100; ++i) {
    {
      Lookahead<int, int> keys(
          [&](const int& key) {
            ++running;
            std::this_thread::sleep_for(std::chrono::microseconds(key));
            --running;
            return key;
          },
          successor, 4);
      for (int key = 0; key < i % 7; ++key) ASSERT_EQ(keys.get(key), key);
    }
    ASSERT_EQ(running, 0);
  }
  EXPECT_THROW((Lookahead<int, int>(successor, successor, 0)), std::invalid_argument);
}

}  // namespace
}  // namespace dp
