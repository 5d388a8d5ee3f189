#include "base/pipeline.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>

namespace dp {
namespace {

// 0, 1, ... up to `end`.
std::function<std::optional<int>()> numbers(int end) {
  return [end, i = 0]() mutable { return i < end ? std::optional(i++) : std::nullopt; };
}

size_t one(const int&) { return 1; }

TEST(Pipeline, ResultsComeInOrder) {
  for (const int threads : {1, 2, 7}) {
    for (const size_t budget : {1u, 3u, 100u}) {
      Pipeline<int, int> squares(
          numbers(200),
          [](int& i) {
            if (i % 7 == 0) std::this_thread::sleep_for(std::chrono::microseconds(100));
            return i * i;
          },
          one, budget, threads);
      for (int i = 0; i < 200; ++i) ASSERT_EQ(squares.get(), i * i);
      EXPECT_EQ(squares.get(), std::nullopt);
      EXPECT_EQ(squares.get(), std::nullopt);
    }
  }
}

TEST(Pipeline, NothingAtAll) {
  Pipeline<int, int> none(
      numbers(0), [](int& i) { return i; }, one, 1, 2);
  EXPECT_EQ(none.get(), std::nullopt);
}

TEST(Pipeline, NeverMoreThanTheBudget) {
  std::atomic<int> made = 0;
  Pipeline<int, int> slow(
      [&]() -> std::optional<int> { return made < 1000 ? std::optional(made++) : std::nullopt; },
      [](int& i) { return i; }, [](const int&) { return size_t{3}; }, 10, 2);
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(slow.get(), i);
    // Three are admitted, and one more waits in the hands of the thread that made it.
    ASSERT_LE(made, i + 1 + 4);
  }
}

TEST(Pipeline, AnItemAboveTheBudgetGoesAlone) {
  Pipeline<int, int> large(
      numbers(5), [](int& i) { return i; }, [](const int&) { return size_t{100}; }, 10, 2);
  for (int i = 0; i < 5; ++i) ASSERT_EQ(large.get(), i);
}

TEST(Pipeline, ExceptionsComeInTheirTurn) {
  Pipeline<int, int> working(
      numbers(5), [](int& i) { return i == 2 ? throw std::runtime_error("two") : i; }, one, 10, 2);
  EXPECT_EQ(working.get(), 0);
  EXPECT_EQ(working.get(), 1);
  EXPECT_THROW(working.get(), std::runtime_error);
  EXPECT_EQ(working.get(), 3);

  Pipeline<int, int> making(
      [i = 0]() mutable -> std::optional<int> {
        return i == 2 ? throw std::runtime_error("two") : i++;
      },
      [](int& i) { return i; }, one, 10, 2);
  EXPECT_EQ(making.get(), 0);
  EXPECT_EQ(making.get(), 1);
  EXPECT_THROW(making.get(), std::runtime_error);
  EXPECT_EQ(making.get(), std::nullopt);
}

TEST(Pipeline, StopsWithWorkLeft) {
  for (int i = 0; i < 20; ++i) {
    Pipeline<int, int> endless([i = 0]() mutable { return std::optional(i++); },
                               [](int& i) { return i; }, one, 5, 3);
    EXPECT_EQ(endless.get(), 0);
  }
}

}  // namespace
}  // namespace dp
