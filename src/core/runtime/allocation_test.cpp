// A step like one before it allocates nothing: checked by counting, in a program of its own.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "runtime/batch.h"
#include "runtime/session.h"
#include "runtime/test_models.h"

namespace {
std::atomic<int> allocations = 0;
}

void* operator new(size_t size) {
  ++allocations;
  if (void* p = std::malloc(size)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }

namespace dp::runtime {
namespace {

TEST(Allocation, StepsNeedNoneAfterTheFirst) {
  for (const ModelConfig& config : some_configs()) {
    SCOPED_TRACE(describe(config));
    ThreadPool pool(2);
    Runner runner(random_model(config), pool);
    Session session(runner);
    Batch batch(runner);
    for (int i = 0; i < 12; ++i) batch.join(runner.model().new_state());
    const std::vector<int64_t> tokens(12, 3);
    session.feed(1), batch.step(tokens);
    allocations = 0;
    for (int i = 0; i < 3; ++i) session.feed(2), batch.step(tokens);
    EXPECT_EQ(allocations, 0);
  }
}

}  // namespace
}  // namespace dp::runtime
