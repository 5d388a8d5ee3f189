#include "analysis/verdict.h"

#include <gtest/gtest.h>

namespace dp::analysis {
namespace {

// 20 elements and two factors whose betas are 2, but for `small` elements of the second factor.
// None of them is the identity.
std::vector<Element> elements() { return std::vector<Element>(20, {"", 2}); }

Head head_with(size_t small, std::vector<double> explained) {
  Head head;
  head.beta.assign(20, {2, 1.95});
  for (size_t e = 0; e < small; ++e) head.beta[e][1] = 1.89;
  head.factor_keys.resize(2);
  head.keys.centred = std::move(explained);
  return head;
}

TEST(Verdict, WantsReflectionsAndThreeDimensions) {
  const Verdict yes = judge(head_with(1, {0.5, 0.8, 0.96, 1}), elements());
  EXPECT_EQ(yes.near_two, (std::vector<int64_t>{20, 19}));
  EXPECT_TRUE(yes.reflections);
  EXPECT_TRUE(yes.as_in_paper);
  EXPECT_EQ(yes.dimensions, 3);
  EXPECT_EQ(
      yes.words,
      "both factors are reflections (beta of 1.9 or more for 20 and 19 of 20 elements), and three "
      "principal components hold 96.0 % of its keys' variance: it turns a space of 3 dimensions by "
      "rotations");
  const Verdict wide = judge(head_with(0, {0.5, 0.8, 0.94, 1}), elements());
  EXPECT_TRUE(wide.reflections);
  EXPECT_FALSE(wide.as_in_paper);
  EXPECT_EQ(wide.dimensions, 4);
  const Verdict weak = judge(head_with(2, {0.5, 0.8, 0.96, 1}), elements());
  EXPECT_FALSE(weak.reflections);
  EXPECT_FALSE(weak.as_in_paper);
  EXPECT_EQ(weak.words.find("every element reflects, 2 with one factor, 18 with two (beta of 1.9 "
                            "or more for 20 and 18 of 20 elements)"),
            0u)
      << weak.words;
}

// A head that was right: the identity alone had small betas, 5 and 5 of 6 elements.
TEST(Verdict, DoesNotCountTheIdentity) {
  Head head;
  head.beta = {{0.1, 0.2}, {2, 2}, {2, 2}, {2, 2}, {2, 2}, {2, 2}};
  head.factor_keys.resize(2);
  head.keys.centred = {0.7, 1};
  const std::vector<Element> s3 = {{"()", 1}, {"", 2}, {"", 2}, {"", 2}, {"", 3}, {"", 3}};
  const Verdict verdict = judge(head, s3);
  EXPECT_TRUE(verdict.reflections);
  EXPECT_EQ(verdict.words.find("both factors are reflections (beta of 1.9 or more for 5 and 5 of 5 "
                               "elements other than the identity)"),
            0u)
      << verdict.words;
  head.beta[1][0] = 1;
  EXPECT_FALSE(judge(head, s3).reflections) << "an element that is missing still counts";
  EXPECT_EQ(judge(head, s3).words.find("every element reflects, 1 with one factor, 4 with two"), 0u);
  head.beta[1][1] = 1;
  EXPECT_EQ(judge(head, s3).words.find("not all its factors are reflections"), 0u);
}

TEST(Verdict, TakesKeysOfFewerThanThreeDimensions) {
  EXPECT_TRUE(judge(head_with(0, {0.7, 1}), elements()).as_in_paper);
}

TEST(Summary, NamesTheHeadThatMatters) {
  Analysis analysis;
  analysis.elements = elements();
  Head idle = head_with(20, {0.5, 0.8, 0.96, 1}), busy = head_with(0, {0.5, 0.8, 0.96, 1});
  idle.alone = {0, 0.5}, idle.cut = {0.9, 1};
  busy.alone = {0.9, 1}, busy.cut = {0, 0.1};
  busy.head = 1;
  analysis.whole = {1, 1};
  analysis.layers.resize(1);
  analysis.layers[0].heads = {idle, busy};
  EXPECT_EQ(analysis.most_important().head, 1);
  const std::vector<std::string> lines = summary(analysis);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(
      lines[0].find("Head 1 matters most: 0.900 of sequences right (1.000 of answers) with it"),
      0u);
  EXPECT_EQ(lines[2],
            "Reflections with keys in three dimensions, as the paper found for S4, are in 1 of 2 "
            "heads: head 1.");
  analysis.whole = {0, 0.1};
  EXPECT_EQ(summary(analysis).size(), 4u);  // and that it has not learnt the task
}

}  // namespace
}  // namespace dp::analysis
