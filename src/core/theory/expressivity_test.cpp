#include "theory/expressivity.h"

#include <gtest/gtest.h>

namespace dp::theory {
namespace {

// The paper's table of expressivity, entry by entry: layers, column, claim.
constexpr const char* kPaperTable[] = {
    "1 | (Gated) DeltaNet | S_n, only 2-permutations",
    "1 | RWKV-7 | S_n, only 2-permutations",
    "1 | (Gated) DeltaProduct, n_h > 1 | S_n, only (n_h + 1)-permutations",
    "1 | (Gated) DeltaProduct, n_h > 1 | finite subgroups of O(n_h), and of SO(n_h + 1) if n_h is "
    "even",
    "2 | (Gated) DeltaNet | Z_n and D_n",
    "2 | RWKV-7 | Z_n and D_n",
    "3 | (Gated) DeltaProduct, n_h > 1 | S_n with a look-up table",
    "4 | (Gated) DeltaNet | S_n with a look-up table",
    "4 | RWKV-7 | S_n with a look-up table",
    "4 | RWKV-7 | regular languages with a look-up table",
    "f(|Q|) | Gated DeltaNet | regular languages",
    "f(|Q|) | Gated DeltaProduct, n_h > 1 | regular languages",
};

TEST(Expressivity, TheTableHasThePapersEntriesAndNoOthers) {
  std::vector<std::string> entries;
  for (const Expressed& entry : expressivity_table()) {
    entries.push_back(entry.layers + " | " + entry.model + " | " + entry.claim);
    EXPECT_FALSE(entry.examples.empty()) << entries.back();
  }
  EXPECT_EQ(entries, std::vector<std::string>(std::begin(kPaperTable), std::end(kPaperTable)));
}

// Layers and n_h of every example are those that the entry claims: at most, for languages of few states.
TEST(Expressivity, ExamplesAreAsLargeAsClaimed) {
  for (const Expressed& entry : expressivity_table())
    for (const Example& example : entry.examples) {
      SCOPED_TRACE(entry.layers + " layers, " + entry.model + ": " + entry.claim + ": " +
                   example.name);
      const Construction construction = example.compile().construction;
      const int64_t n = construction.num_householder, layers = construction.network.num_layers();
      if (entry.model.find("n_h > 1") != std::string::npos)
        EXPECT_GT(n, 1);
      else
        EXPECT_EQ(n, 1);
      if (entry.layers == "f(|Q|)") continue;
      if (entry.claim.find("regular") == std::string::npos)
        EXPECT_EQ(layers, std::stoll(entry.layers));
      else
        EXPECT_LE(layers, std::stoll(entry.layers));
    }
}

}  // namespace
}  // namespace dp::theory
