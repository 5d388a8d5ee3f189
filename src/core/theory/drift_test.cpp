// What happens to a model's state in the long run. Where states are permuted it loses nothing, to the last bit, on every
// SIMD target, whether tokens come one by one or in chunks: words may be of any length. Angles of rotations drift slowly.
#include <gtest/gtest.h>
#include <hwy/highway.h>
#include <hwy/targets.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numbers>
#include <random>

#include "base/executor.h"
#include "runtime/runner.h"
#include "theory/compile.h"

namespace dp::theory {
namespace {

constexpr int64_t kSymbols = 6000;

// All permutations of five states, made of two of them, and nothing that would begin anew.
Automaton five_points() {
  Automaton automaton;
  automaton.alphabet = {"s", "c"};
  automaton.moves = {{1, 0, 2, 3, 4}, {1, 2, 3, 4, 0}};
  automaton.accepting = {true, false, false, false, false};
  for (int q = 0; q < 5; ++q) automaton.state_names.push_back(std::to_string(q));
  return automaton;
}

Compiled five_points(CompileOptions options) {
  return compile_automaton(five_points(), "five points", options);
}

Compiled symmetric_group(CompileOptions options) {
  return compile_group("S5", {"(1 2)", "(1 2 3 4 5)"}, options);
}

struct Permuting {
  const char* name;
  Compiled compiled;
};

std::vector<Permuting> permuting_models() {
  constexpr Architecture kRwkv7 = Architecture::kRwkv7;
  std::vector<Permuting> models;
  models.push_back({"a level in one layer", five_points({0, 4})});
  models.push_back({"a level by delayed factors", five_points({0, 1})});
  models.push_back({"a level of RWKV-7", five_points({0, 4, kRwkv7})});
  models.push_back({"a delayed level of RWKV-7", five_points({0, 1, kRwkv7})});
  models.push_back({"S5 in one layer", symmetric_group({1, 4})});
  models.push_back({"S5 by delayed factors", symmetric_group({4, 1})});
  models.push_back({"S5 of RWKV-7 by delayed factors", symmetric_group({4, 1, kRwkv7})});
  for (const int64_t d : {3, 6})
    models.push_back({"counting with two reflections", compile_counting(d, {0, 2})});
  for (const int64_t d : {3, 4, 6, 12})
    models.push_back({"counting with one reflection", compile_counting(d, {0, 1})});
  return models;
}

// The sizes of a state's entries, the smallest first. Those below a billionth of the largest are left out: a feature that is
// off is not quite 0, but some 1e-15.
std::vector<float> sizes(const std::vector<float>& state) {
  float most = 0;
  for (const float x : state) most = std::max(most, std::abs(x));
  std::vector<float> sizes;
  for (const float x : state)
    if (std::abs(x) > 1e-9f * most) sizes.push_back(std::abs(x));
  std::ranges::sort(sizes);
  return sizes;
}

// A model, and the state of its last layer as it reads.
class Reader {
 public:
  explicit Reader(const Compiled& compiled)
      : model_(compiled.weights().model()), runner_(model_, executor_) {
    read({compiled.problem.bos});
  }
  void read(const std::vector<int64_t>& tokens) { runner_.features({tokens, &state_}); }
  const std::vector<float>& state() const { return state_.layers.back(); }
  /// The angle of the first column of the first head's state, which has two rows.
  double angle() const {
    const auto& shape = model_->blocks().back().mixer->state_parts().front().shape;  // [H,K,V]
    return std::atan2(state()[static_cast<size_t>(shape[2])], state()[0]);
  }

 private:
  std::shared_ptr<const runtime::Model> model_;
  SerialExecutor executor_;
  runtime::Runner runner_;
  runtime::State state_;
};

class Drift : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }
};

TEST_P(Drift, PermutedStatesLoseNothing) {
  for (const auto& [name, compiled] : permuting_models())
    for (const size_t at_once : {size_t{1}, size_t{500}}) {
      SCOPED_TRACE(std::string(name) + ": " + compiled.problem.name + ", " +
                   std::to_string(at_once) + " tokens at a time");
      Reader reader(compiled);
      const std::vector<float> begun = sizes(reader.state());
      ASSERT_FALSE(begun.empty());
      std::mt19937 random(1);
      for (int64_t read = 0; read < kSymbols; read += static_cast<int64_t>(at_once)) {
        std::vector<int64_t> tokens;
        for (size_t i = 0; i < at_once; ++i)
          tokens.push_back(
              compiled.problem.symbol_tokens[random() % compiled.problem.symbol_tokens.size()]);
        reader.read(tokens);
      }
      const std::vector<float> ended = sizes(reader.state());
      EXPECT_EQ(begun, ended) << "from " << begun.front() << " .. " << begun.back() << " to "
                              << ended.front() << " .. " << ended.back();
    }
}

// Where a cycle is a rotation of the plane, angles add up rounding errors. A million tokens may use up an eighth of the
// angle between neighbouring points, which lines divide in the middle, or at a quarter if there is an odd number of them.
TEST_P(Drift, MillionsOfTurnsStayApart) {
  struct Turning {
    int64_t d, points;  // to be told apart
    Compiled compiled;
  };
  std::vector<Turning> cases;
  for (const int64_t d : {5, 7, 8, 10, 14, 16})
    cases.push_back({d, d % 2 == 0 ? d / 2 : d, compile_counting(d, {0, 1})});
  for (const int64_t d : {4, 5, 7, 8, 16}) cases.push_back({d, d, compile_counting(d, {0, 2})});
  for (const int64_t d : {5, 7, 8}) {
    Automaton cycle = counting_automaton(d);
    cycle.accepting[0] = true;
    cases.push_back({d, d, compile_automaton(cycle, "polygon", {})});
  }
  for (const auto& [d, points, compiled] : cases) {
    SCOPED_TRACE(compiled.problem.name + ", " + compiled.construction.theorem);
    Reader reader(compiled);
    const double begun = reader.angle();
    const int64_t round = 2 * d, rounds = 20000 / round;
    const std::vector<int64_t> tokens(static_cast<size_t>(round),
                                      compiled.problem.symbol_tokens[0]);
    for (int64_t i = 0; i < rounds; ++i) reader.read(tokens);
    const double between = 2 * std::numbers::pi / static_cast<double>(points);
    EXPECT_LE(std::abs(reader.angle() - begun) / static_cast<double>(rounds * round) * 1e6,
              between / 8);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Drift, testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         [](const auto& info) { return hwy::TargetName(info.param); });

}  // namespace
}  // namespace dp::theory
