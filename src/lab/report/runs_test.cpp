#include "report/runs.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_folder.h"
#include "report/metrics.h"
#include "report/page.h"
#include "train/run.h"

namespace dp::report {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

class RunsTest : public testing::Test {
 protected:
  void write(const std::string& file, const std::string& text) { folder_.file(file, text); }
  ordered_json read_text(const std::string& evaluation) {
    RunConfig config;
    config.task = TextOptions{.data = "data/corpus"};
    config.training.length = 512;
    write("a/run.json", to_json(config));
    write("a/eval.json", evaluation);
    return run_data(folder_ / "a");
  }

  TestFolder folder_;
};

TEST_F(RunsTest, ReadsWhatItCanAndCountsTheRest) {
  RunConfig config;
  config.command = "./dp train word-problem";
  write("sweep/deep/a/run.json", to_json(config));
  write("sweep/deep/a/checkpoints/step-1/run.json", to_json(config));
  write("sweep/deep/a/metrics.jsonl",
        R"({"step":0,"loss":2,"accuracy":0.1,"length":4,"seconds":1})"
        "\n{\"step\":1,\"lo\n"
        R"({"step":1.5,"loss":2,"accuracy":0.1,"length":4,"seconds":1})"
        "\n"
        R"({"step":2,"loss":null,"accuracy":0.1,"length":4,"seconds":1})"
        "\n"
        R"({"step":3,"loss":1,"accuracy":0.5,"length":8,"seconds":9,)"
        R"("evaluation":[{"length":16,"sequence_accuracy":0.5,"token_accuracy":0.75}]})");
  config.command.clear();  // as in older versions
  write("sweep/b/run.json", to_json(config));
  write("sweep/b/eval.json",
        R"({"lengths":[{"length":2,"sequence_accuracy":0.25,"token_accuracy":0.5}],"other":1,)"
        R"("by_position":{"token_accuracy":[1,0.5],"sequence_accuracy":[0.5,0.25]}})");
  write("sweep/c/run.json", "{}");
  write("sweep/d/run.json", to_json(config));
  write("sweep/d/eval.json", R"({"lengths":[{"length":-2}]})");
  const ordered_json data = report_data(std::vector<fs::path>{folder_ / "", folder_ / "sweep"});
  ASSERT_EQ(data["runs"].size(), 3u);
  EXPECT_EQ(data["problems"].size(), 1u);  // c, which both folders lead to
  const ordered_json &b = data["runs"][0], &d = data["runs"][1], &a = data["runs"][2];
  EXPECT_EQ(b["kind"], "word-problem");
  EXPECT_EQ(b["command"], "");
  EXPECT_EQ(b["evaluation"]["by_position"]["sequence_accuracy"][0], 0.5);
  EXPECT_FALSE(b["evaluation"].contains("other"));
  EXPECT_FALSE(d.contains("evaluation"));
  EXPECT_NE(d["problem"].get<std::string>().find("d/eval.json: not what ./dp eval --json writes"),
            std::string::npos);
  EXPECT_EQ(a["command"], "./dp train word-problem");
  EXPECT_FALSE(a["settings"].contains("command"));
  EXPECT_EQ(a["training"]["broken_lines"], 3);
  EXPECT_EQ(a["training"]["steps"], 4);
  EXPECT_EQ(a["training"]["seconds"], 9);
  EXPECT_EQ(a["training"]["curve"]["loss"], ordered_json({2.0, 1.0}));
  EXPECT_EQ(a["training"]["evaluations"][0]["lengths"][0]["sequence_accuracy"], 0.5);
}

TEST_F(RunsTest, RefusesFoldersWithoutRuns) {
  write("empty/file", "");
  write("broken/run.json", "{");
  const auto message = [&](const char* name) {
    try {
      report_data(std::vector<fs::path>{folder_ / name});
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(message("empty").find("found no training run in"), std::string::npos);
  EXPECT_NE(message("absent").find("is not a directory"), std::string::npos);
  EXPECT_NE(message("broken").find("run.json: the file is not valid JSON"), std::string::npos);
}

TEST_F(RunsTest, CurvesHaveAtMost512PointsOfAPowerOfTwoSteps) {
  std::string lines;
  for (int step = 0; step < 1500; ++step)
    lines += ordered_json({{"step", step},
                           {"loss", step},
                           {"accuracy", 0.5},
                           {"length", step},
                           {"tokens", 10 * (step + 1)},
                           {"seconds", 0.1 * (step + 1)}})
                 .dump() +
             "\n";
  write("metrics.jsonl", lines);
  const ordered_json curve = summarize_metrics(folder_ / "metrics.jsonl")["curve"];
  EXPECT_EQ(curve["width"], 4);
  ASSERT_EQ(curve["step"].size(), 375u);
  EXPECT_EQ(curve["step"][1], 8);
  EXPECT_EQ(curve["loss"][1], 5.5) << "the mean of 4 .. 7";
  EXPECT_EQ(curve["length"][1], 7) << "the last";
  EXPECT_EQ(curve["tokens"].back(), 15000);
  EXPECT_EQ(curve["count"].back(), 4);
}

TEST_F(RunsTest, ReadsEvaluationsOfText) {
  write(
      "a/metrics.jsonl",
      R"({"step":0,"loss":9,"accuracy":0.1,"length":512,"tokens":1000,"seconds":2})"
      "\n"
      R"({"step":1,"loss":8,"accuracy":0.1,"length":512,"tokens":2000,"seconds":50,"evaluation":)"
      R"([{"length":512,"loss":7.5,"perplexity":1808,"token_accuracy":0.1},{"length":1024,"loss":null}]})"
      "\n"
      R"({"step":2,"loss":7,"accuracy":0.1,"length":512,"tokens":3000,"seconds":52})");
  const ordered_json run = read_text(
      R"({"task":"text","data":"d","training_length":512,)"
      R"("perplexity":{"tokens":9,"loss":4,"perplexity":54.6,"bits_per_byte":1.5},)"
      R"("lengths":[{"length":1024,"loss":5},{"length":2048,"loss":null}],)"
      R"("by_position":{"sequences":1,"length":9,"window":3,"positions":[1,5],"loss":[4,3]},)"
      R"("effective_rank":{"every":4,"sequences":1,"positions":[4,8],"documents":[5],)"
      R"("layers":[[[1,2],[3,null]],[]]},)"
      R"("choices":[{"file":"c","items":3,"accuracy":0.5,"accuracy_normalised":0.6}],)"
      R"("last_word":[{"file":"l","items":3,"accuracy":0.5,"perplexity":7}]})");
  EXPECT_EQ(run["kind"], "text");
  EXPECT_EQ(run["task"], "data/corpus");
  EXPECT_EQ(run["training"]["tokens_per_second"], 500) << "evaluations take no time";
  const ordered_json& evaluation = run["evaluation"];
  EXPECT_EQ(evaluation["perplexity"], 54.6);
  EXPECT_EQ(evaluation["bits_per_byte"], 1.5);
  EXPECT_EQ(evaluation["by_position"]["window"], 3);
  EXPECT_EQ(evaluation["effective_rank"]["layers"], ordered_json::parse("[[[1,2],[3,null]],[]]"));
  EXPECT_EQ(evaluation["choices"][0]["accuracy_normalised"], 0.6);
  EXPECT_EQ(evaluation["last_word"][0]["perplexity"], 7);
}

TEST_F(RunsTest, LeavesOutEvaluationsThatMakeNoSense) {
  for (const std::string broken :
       {R"({"task":"parity"})", R"({"lengths":[]})", R"({"task":"text","perplexity":{}})",
        R"({"task":"text","by_position":{"positions":[1,2],"loss":[1]}})",
        R"({"task":"text","effective_rank":{"positions":[1,2],"layers":[[[1]]]}})",
        R"({"task":"text","effective_rank":{"positions":[2,1],"layers":[]}})",
        R"({"task":"text","choices":[{"file":"c"}]})", R"({"task":"text","data":1})"}) {
    const ordered_json run = read_text(broken);
    EXPECT_FALSE(run.contains("evaluation")) << broken;
    ASSERT_TRUE(run.contains("problem")) << broken;
    EXPECT_NE(run["problem"].get<std::string>().find("eval.json: "), std::string::npos) << broken;
  }
  EXPECT_TRUE(read_text(R"({"task":"text","training_length":512})").contains("evaluation"));
}

TEST(Page, PutsDataWhereNothingEndsTheScript) {
  const WebFiles files = {"<b>{{data}}</b>{{style}}{{libraries}}{{script}}", "s", "j", "l"};
  EXPECT_EQ(make_page({{"page", "</script>{{style}}"}}, files),
            "<b>{\"page\":\"\\u003c/script>{{style}}\"}</b>slj");
  EXPECT_EQ(make_page({{"page", "\xff"}}, files), "<b>{\"page\":\"\\ufffd\"}</b>slj");
  EXPECT_THROW(make_page({{"page", "x"}}, {"", "", "", ""}), InputError);
}

TEST(Page, RoundsFractionsOnly) {
  EXPECT_EQ(rounded({{"a", {1234567.89, 1234567, "1.23456789"}}, {"b", 1.0 / 3}}).dump(),
            R"({"a":[1234570.0,1234567,"1.23456789"],"b":0.333333})");
}

}  // namespace
}  // namespace dp::report
