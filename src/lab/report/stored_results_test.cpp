#include "report/stored_results.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_folder.h"
#include "train/run.h"

namespace dp::report {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

class StoredResultsTest : public testing::Test {
 protected:
  void write(const std::string& file, const std::string& text) { folder_.file(file, text); }
  // One with `steps` lines of metrics, and tested if so said.
  void make_run(const std::string& name, int steps, bool tested) {
    write("runs/" + name + "/run.json", to_json(RunConfig()));
    std::string lines;
    for (int step = 0; step < steps; ++step)
      lines += R"({"step":)" + std::to_string(step) + R"(,"loss":2,"accuracy":0.5,"length":4,"seconds":1})" + "\n";
    write("runs/" + name + "/metrics.jsonl", lines);
    if (tested)
      write("runs/" + name + "/eval.json",
            R"({"lengths":[{"length":2,"sequence_accuracy":0.25,"token_accuracy":0.5}],)"
            R"("by_position":{"token_accuracy":[1,0.5],"sequence_accuracy":[0.5,0.25]}})");
  }
  ordered_json results() { return stored_results(std::vector{folder_ / "runs"}, "abc"); }

  TestFolder folder_;
};

TEST_F(StoredResultsTest, KeepFinishedRunsWithShortCurves) {
  make_run("seed=0", 1000, true);
  make_run("seed=1", 10, false);
  const ordered_json found = results();
  ASSERT_EQ(found["runs"].size(), 1u);
  EXPECT_EQ(found["commit"], "abc");
  EXPECT_EQ(found["runs"][0]["name"], "seed=0");
  EXPECT_EQ(found["runs"][0]["training"]["steps"], 1000);
  EXPECT_EQ(found["runs"][0]["training"]["curve"]["step"].size(), 125u);  // of 8 steps each, at most 128
  EXPECT_EQ(found["runs"][0]["evaluation"]["by_position"]["token_accuracy"].size(), 2u);
  EXPECT_EQ(ordered_json::parse(to_text(found)), found);
}

TEST_F(StoredResultsTest, AreRefusedWithoutAFinishedRun) {
  make_run("seed=1", 10, false);
  EXPECT_THROW(results(), InputError);
}

TEST_F(StoredResultsTest, BecomeOnePageFromFoldersCalledResults) {
  make_run("seed=0", 3, true);
  EXPECT_FALSE(holds_stored_results(folder_ / ""));
  write("experiments/state-tracking/results/grid-s3.json", to_text(results()));
  write("experiments/state-tracking/results/other.json", R"({"runs": 1})");  // of another kind
  write("experiments/state-tracking/grid-s3.json", to_text(results()));        // not in a folder of results
  write("experiments/chomsky/results/table.json", R"({"format": "deltaproduct results", "runs": [{"name": "a"}]})");
  ASSERT_TRUE(holds_stored_results(folder_ / "experiments"));
  const ordered_json data = experiments_data(folder_ / "experiments");
  ASSERT_EQ(data["results"].size(), 1u);
  EXPECT_EQ(data["results"][0]["file"], "state-tracking/results/grid-s3.json");
  EXPECT_EQ(data["results"][0]["commit"], "abc");
  EXPECT_EQ(data["results"][0]["runs"].size(), 1u);
  ASSERT_EQ(data["problems"].size(), 1u);
  EXPECT_NE(data["problems"][0].get<std::string>().find("table.json: a run has no text in the field 'kind'"), std::string::npos);
}

}  // namespace
}  // namespace dp::report
