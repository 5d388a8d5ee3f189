#include "report/text_runs.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "report/report_page.h"
#include "train/run.h"

namespace dp::report {
namespace {
namespace fs = std::filesystem;

RunConfig text_config(int64_t n, uint64_t seed = 0) {
  RunConfig config;
  config.task = TextOptions{.data = "data/corpus"};
  config.model.num_householder = n;
  config.model.allow_neg_eigval = true;
  config.training.length = 512;
  config.training.seed = seed;
  return config;
}

// A loss of 4 at the training length that has become 4 + rise at 8192.
Run text_run(int64_t n, double perplexity, double rise, uint64_t seed = 0) {
  Run run;
  run.kind = TaskKind::kText;
  run.name = "runs/" + std::to_string(n) + "-" + std::to_string(seed);
  run.group = "data/corpus";
  run.num_householder = n;
  run.seed = seed;
  run.training_length = 512;
  run.traits = traits(text_config(n, seed));
  run.model = run.traits[kTraitModel];
  run.tested = true;
  run.text.data = "data/corpus/validation";
  run.text.perplexity = perplexity;
  run.text.lengths = {{512, 4}, {1024, 4 + rise / 2}, {8192, 4 + rise}};
  return run;
}

// One layer of two heads: `first` on average up to the training length, `last` at the end of 4096 tokens.
void add_ranks(Run& run, double first, double last) {
  EffectiveRanks& ranks = run.text.ranks;
  ranks.layers = {{{}, {}}};
  for (int64_t at = 128; at <= 4096; at += 128) {
    ranks.positions.push_back(at);
    const double rank = at <= 512 ? first : last;
    ranks.layers[0][0].push_back(rank - 1);
    ranks.layers[0][1].push_back(rank + 1);
  }
}

Group only_group(const std::vector<Run>& runs) { return group_runs(runs, TaskKind::kText).at(0); }

TEST(TextVerdict, SaysHowLossAndRankGoOn) {
  std::vector<report::Run> runs = {text_run(1, 61.5, 0.8), text_run(3, 58.125, 0.0249)};
  add_ranks(runs[0], 12, 18);
  add_ranks(runs[1], 10, 9.5);
  const std::vector<std::string> sentences = text_verdicts(only_group(runs));
  ASSERT_EQ(sentences.size(), 3u);
  EXPECT_EQ(sentences[0],
            "Trained on data/corpus: DeltaProduct_3 [-1,1] has the lowest perplexity on "
            "data/corpus/validation, 58.12; DeltaProduct_1 [-1,1] 61.50.");
  EXPECT_EQ(
      sentences[1],
      "On data/corpus/validation, from 512 tokens, the training length, to 8192, 16 times that, "
      "the loss of DeltaProduct_3 [-1,1] rises by 0.02, that of DeltaProduct_1 [-1,1] by 0.80.");
  EXPECT_EQ(sentences[2],
            "Between the end of the training length and that of 4096 tokens, the mean effective "
            "rank of the states of DeltaProduct_3 [-1,1] goes from 10.0 to 9.5 (-5 %), that of "
            "DeltaProduct_1 [-1,1] from 12.0 to 18.0 (+50 %).");
}

TEST(TextVerdict, HoldsWhicheverWayItGoes) {
  const std::vector<report::Run> runs = {text_run(1, 50, -0.31), text_run(2, 60, 0.004),
                                         text_run(3, 70, 1.5)};
  EXPECT_EQ(text_verdicts(only_group(runs))[1],
            "On data/corpus/validation, from 512 tokens, the training length, to 8192, 16 times "
            "that, the loss of DeltaProduct_1 [-1,1] falls by 0.31, that of DeltaProduct_2 [-1,1] "
            "changes by less than 0.01, that of DeltaProduct_3 [-1,1] rises by 1.50.");
}

TEST(TextVerdict, ANegligibleChangeHasNoSign) {
  std::vector<report::Run> runs = {text_run(1, 50, 0)};
  add_ranks(runs[0], 20, 19.95);
  const std::string sentence = text_verdicts(only_group(runs)).back();
  EXPECT_NE(sentence.find("goes from 20.0 to 19.9 (±0 %)."), std::string::npos) << sentence;
}

TEST(TextVerdict, TakesTheMedianOfSeeds) {
  const std::vector<report::Run> runs = {text_run(2, 60, 0.1, 0), text_run(2, 64, 0.5, 1),
                                         text_run(2, 61, 0.2, 2)};
  const std::vector<std::string> sentences = text_verdicts(only_group(runs));
  EXPECT_NE(sentences[0].find("has a perplexity of 61.00 (median of 3 seeds, from 60.00 to 64.00)"),
            std::string::npos)
      << sentences[0];
  EXPECT_NE(sentences[1].find("rises by 0.20 (median of 3 seeds, from 0.10 to 0.50)"),
            std::string::npos)
      << sentences[1];
}

TEST(TextVerdict, ComparesOnlyWhatIsComparable) {
  std::vector<report::Run> runs = {text_run(1, 61, 0.8), text_run(2, 58, 0.1), text_run(3, 1, 0.2)};
  runs[1].text.lengths.pop_back();  // tested up to 1024
  runs[2].text.data = "data/easy";
  const std::vector<std::string> sentences = text_verdicts(only_group(runs));
  ASSERT_EQ(sentences.size(), 4u);
  EXPECT_NE(sentences[0].find(
                "DeltaProduct_2 [-1,1] has the lowest perplexity on data/corpus/validation, 58.00"),
            std::string::npos);
  EXPECT_NE(sentences[1].find("DeltaProduct_3 [-1,1] has a perplexity of 1.00 on data/easy"),
            std::string::npos);
  EXPECT_NE(sentences[2].find("to 1024, 2 times that, the loss of DeltaProduct_2 [-1,1] rises by "
                              "0.05, that of DeltaProduct_1 [-1,1] by 0.40"),
            std::string::npos)
      << sentences[2];
}

TEST(TextVerdict, KnowsRunsWithoutAnEvaluation) {
  std::vector<report::Run> runs = {text_run(2, 60, 0)};
  runs[0].text = {};
  EXPECT_EQ(text_verdicts(only_group(runs)).at(0), "Trained on data/corpus: no run was evaluated.");
  runs[0].text.validation = {{1000, 6}, {2000, std::log(55.0)}};
  EXPECT_EQ(text_verdicts(only_group(runs)).at(0),
            "Trained on data/corpus: DeltaProduct_2 [-1,1] has a perplexity of 55.00 on validation "
            "data during training.");
}

TEST(TextTable, MarksTheBestOfEachColumn) {
  std::vector<report::Run> runs = {text_run(1, 61.5, 0.8), text_run(2, 58.1, -0.1),
                                   text_run(3, 1, 9)};
  runs[2].text.data = "data/easy";
  runs[0].text.choices = {{"tests/hellaswag.jsonl", 500, 0.312, 0.355}};
  runs[1].text.choices = {{"tests/hellaswag.jsonl", 500, 0.3, 0.4}};
  runs[1].text.last_words = {{"lambada.jsonl.gz", 100, 0.25, {}, 41.0}};
  runs[0].text.tokens_per_second = 2500;
  const std::string table = text_table(group_runs(runs, TaskKind::kText), runs);
  EXPECT_EQ(table.find("trained on</th><th>trained"), std::string::npos) << "one data set";
  EXPECT_EQ(table.find("effective rank"), std::string::npos) << "nobody has one";
  EXPECT_NE(
      table.find("<th>loss at 8192</th><th>difference</th><th>hellaswag</th><th>lambada</th>"),
      std::string::npos)
      << table;
  EXPECT_NE(table.find(">61.50</td>"), std::string::npos);
  EXPECT_NE(table.find("<b>58.10</b></td>"), std::string::npos);
  EXPECT_NE(table.find(">1.00</td>"), std::string::npos) << "other data, nothing to compare with";
  EXPECT_NE(table.find(">4.800</td>"), std::string::npos);
  EXPECT_NE(table.find(">+0.800</td>"), std::string::npos);
  EXPECT_NE(table.find("<b>-0.100</b></td>"), std::string::npos);
  EXPECT_NE(table.find("<b>31.2 %</b> <small>35.5 % by length</small></td>"), std::string::npos);
  EXPECT_NE(table.find(">25.0 % <small>perplexity 41</small></td>"), std::string::npos);
  EXPECT_NE(table.find("<a href=\"#run-1\">DeltaProduct_2 [-1,1]</a>"), std::string::npos);
}

TEST(TextCharts, ShowRanksByLayerOnOneAxis) {
  std::vector<report::Run> runs = {text_run(1, 60, 0.8), text_run(3, 58, 0.1)};
  add_ranks(runs[0], 12, 18);
  add_ranks(runs[1], 10, 9);
  runs[1].text.ranks.layers.push_back(runs[1].text.ranks.layers[0]);
  runs[1].text.ranks.layers[1][0].assign(32, 30.0);
  runs[1].text.ranks.documents = {700, 1400};
  const Group group = only_group(runs);
  const std::vector<std::vector<Chart>> charts = rank_charts(group);
  ASSERT_EQ(charts.size(), 3u);
  ASSERT_EQ(charts[0].size(), 8u) << "all, 0, 1, and otherwise; on two axes";
  EXPECT_EQ(charts[1].size(), 6u) << "has one layer";
  EXPECT_EQ(charts[1].back().when, std::vector<std::string>{"position-linear"});
  EXPECT_EQ(charts[1][1].when, (std::vector<std::string>{"layer-0", "position-log"}));
  EXPECT_EQ(charts[1][1].lines.first_x, 128);
  EXPECT_EQ(charts[0][0].lines.series[0].runs[0].back().y, 18) << "mean of the heads";
  EXPECT_EQ(charts[0][0].lines.series[1].runs[0].back().y, (8 + 10 + 30 + 10) / 4.0);
  EXPECT_EQ(charts[2][2].lines.series[0].runs.size(), 2u) << "heads of layer 1";
  EXPECT_EQ(charts[1][0].lines.range_y, charts[2][0].lines.range_y);
  EXPECT_EQ(charts[2][0].lines.faint, (std::vector<int64_t>{700, 1400}));
  EXPECT_EQ(charts[2][0].lines.dashed, std::vector<int64_t>{512});
  EXPECT_EQ(charts[2][0].lines.series[0].colour, group.configurations[1].colour);
  const nlohmann::ordered_json data = chart_data(charts[1][1].lines);
  EXPECT_EQ(data["hover"][0]["c0"], "12") << "the thick line is the mean";
  EXPECT_FALSE(data.contains("faint"));
  EXPECT_NE(rank_choices({group}).find("value=\"layer-1\"> 1<"), std::string::npos);
  EXPECT_EQ(rank_choices({only_group({text_run(1, 60, 0)})}), "");
}

TEST(TextCharts, LossBeyondTheTrainingLength) {
  std::vector<report::Run> runs = {text_run(1, 60, 0.8), text_run(3, 58, 0.1)};
  runs[1].text.by_position = {{251, 5}, {4096, 4.5}};
  runs[1].text.window = 501;
  const std::vector<std::vector<Chart>> charts = position_charts(only_group(runs));
  ASSERT_EQ(charts.size(), 1u);
  const LineChart& chart = charts[0][0].lines;
  EXPECT_TRUE(chart.log_x);
  EXPECT_EQ(chart.first_x, 251);
  EXPECT_TRUE(chart.points) << "one run has lengths only";
  EXPECT_EQ(chart.series[0].runs[0].size(), 3u);
  EXPECT_EQ(chart.y_title, "data/corpus/validation; moving average over 501");
  EXPECT_LT(chart.range_y->first, 4);
  EXPECT_GT(chart.range_y->second, 5);
}

TEST(TextCharts, TrainingLeavesOutTheFirstFall) {
  std::vector<report::Run> runs = {text_run(2, 60, 0.1)};
  for (int64_t i = 0; i < 100; ++i)
    runs[0].steps.push_back(
        {i, 512, i < 5 ? 10.0 : 4.0 - 0.01 * static_cast<double>(i), 0.2, (i + 1) * 8192});
  runs[0].text.tokens = 819200;
  runs[0].text.validation = {{819200, 3.5}};
  const LineChart chart = text_training_charts(only_group(runs)).at(0).lines;
  EXPECT_EQ(chart.series[0].runs[0].back().x, 819200);
  EXPECT_EQ(chart.series[0].marks.size(), 1u);
  EXPECT_LT(chart.range_y->second, 4.1);
  EXPECT_LT(chart.range_y->first, 3.01);
  EXPECT_EQ(chart_data(chart)["marks"][0]["y"], 3.5);
}

TEST(TrainCommandOfText, NamesItsData) {
  RunConfig config = text_config(2);
  config.task = TextOptions{.data = "my data", .reset_at_documents = true};
  config.model.use_output_gate = false;
  config.training.recompute = true;
  const std::string command = train_command(config, "a");
  EXPECT_EQ(command.find("./dp train text --data 'my data' --reset-at-documents --num-householder"),
            0u)
      << command;
  EXPECT_NE(command.find(" --no-output-gate "), std::string::npos) << command;
  EXPECT_NE(command.find(" --recompute "), std::string::npos) << command;
}

class TextFolder : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/text_runs_test_XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const fs::path& file, const std::string& text) {
    fs::create_directories((folder_ / file).parent_path());
    std::ofstream(folder_ / file) << text;
  }
  report::Run read(const std::string& evaluation) {
    write("a/eval.json", evaluation);
    return find_runs(std::vector<fs::path>{folder_}).runs.at(0);
  }

  fs::path folder_;
};

TEST_F(TextFolder, ReadsMetricsAndEvaluation) {
  write("a/run.json", to_json(text_config(2)));
  write(
      "a/metrics.jsonl",
      R"({"step":0,"loss":9,"accuracy":0.1,"length":512,"tokens":1000,"seconds":2})"
      "\n"
      R"({"step":1,"loss":8,"accuracy":0.1,"length":512,"tokens":2000,"seconds":50,"evaluation":)"
      R"([{"length":512,"loss":7.5,"perplexity":1808,"token_accuracy":0.1},{"length":1024,"loss":7}]})"
      "\n"
      R"({"step":2,"loss":7,"accuracy":0.1,"length":512,"tokens":3000,"seconds":52})"
      "\n"
      R"({"step":3,"loss":7,"accuracy":0.1,"length":512,"seconds":52})");
  const report::Run run = read(
      R"({"task":"text","data":"d","training_length":512,)"
      R"("perplexity":{"tokens":9,"loss":4,"perplexity":54.6,"bits_per_byte":1.5},)"
      R"("lengths":[{"length":1024,"loss":5},{"length":512,"loss":4},{"length":2048,"loss":null}],)"
      R"("by_position":{"sequences":1,"length":9,"window":3,"positions":[1,5],"loss":[4,3]},)"
      R"("effective_rank":{"every":4,"sequences":1,"positions":[4,8],"documents":[5],)"
      R"("layers":[[[1,2],[3,null]],[]]},)"
      R"("choices":[{"file":"c","items":3,"accuracy":0.5,"accuracy_normalised":0.6}],)"
      R"("last_word":[{"file":"l","items":3,"accuracy":0.5,"perplexity":7}]})");
  EXPECT_EQ(run.kind, TaskKind::kText);
  EXPECT_EQ(run.group, "data/corpus");
  EXPECT_EQ(run.steps.size(), 3u);
  EXPECT_EQ(run.broken_lines, 1);
  EXPECT_EQ(run.problem, "");
  EXPECT_TRUE(run.tested);
  EXPECT_EQ(run.text.tokens, 3000);
  EXPECT_EQ(run.text.tokens_per_second, 500) << "evaluations take no time";
  ASSERT_EQ(run.text.validation.size(), 1u);
  EXPECT_EQ(run.text.validation[0].loss, 7.5);
  EXPECT_EQ(run.text.perplexity, 54.6);
  EXPECT_EQ(run.text.lengths.size(), 2u) << "not what was no number";
  EXPECT_EQ(loss_change(run)->last, 5);
  EXPECT_EQ(run.text.by_position.back().at, 5);
  EXPECT_EQ(run.text.ranks.mean(), (std::vector<double>{2, 2}));
  EXPECT_EQ(run.text.choices[0].normalised, 0.6);
  EXPECT_EQ(run.text.last_words[0].perplexity, 7);
}

TEST_F(TextFolder, LeavesOutEvaluationsThatMakeNoSense) {
  write("a/run.json", to_json(text_config(2)));
  for (const std::string broken :
       {R"({"task":"parity"})", R"({"lengths":[]})", R"({"task":"text","perplexity":{}})",
        R"({"task":"text","by_position":{"positions":[1,2],"loss":[1]}})",
        R"({"task":"text","effective_rank":{"positions":[1,2],"layers":[[[1]]]}})",
        R"({"task":"text","effective_rank":{"positions":[2,1],"layers":[]}})"}) {
    const report::Run run = read(broken);
    EXPECT_FALSE(run.tested) << broken;
    EXPECT_NE(run.problem.find("eval.json: "), std::string::npos) << run.problem;
    EXPECT_NE(run.problem.find("so it was left out"), std::string::npos) << run.problem;
  }
  const report::Run run = read(R"({"task":"text","training_length":512})");
  EXPECT_TRUE(run.tested);
  EXPECT_EQ(run.problem, "");
}

TEST(TextPage, HasATitleOfItsOwn) {
  const auto title = [](const std::vector<report::Run>& runs) {
    Runs all;
    all.runs = runs;
    return make_page(all, {"{{title}}, {{heading}}{{no_texts}}", "", "", "x"});
  };
  report::Run language = text_run(2, 60, 0), word = language;
  language.kind = TaskKind::kFormalLanguage;
  word.kind = TaskKind::kWordProblem;
  EXPECT_EQ(title({text_run(2, 60, 0)}), "DeltaProduct: language models, Language models");
  EXPECT_EQ(title({language}), "DeltaProduct: formal languages, Formal languages hidden");
  EXPECT_EQ(title({word, text_run(2, 60, 0)}),
            "DeltaProduct: state tracking, State tracking with DeltaProduct");
}

}  // namespace
}  // namespace dp::report
