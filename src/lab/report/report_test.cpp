#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "report/chart.h"
#include "report/languages.h"
#include "report/report.h"
#include "report/report_page.h"
#include "report/verdict.h"
#include "train/run.h"

namespace dp::report {
namespace {
namespace fs = std::filesystem;

Run run_of(const std::string& group, int64_t n, uint64_t seed,
           std::vector<LengthAccuracy> lengths) {
  RunConfig config;
  config.task = WordProblemOptions{.group = group};
  config.model.num_householder = n;
  config.model.num_hidden_layers = 1;
  config.training.seed = seed;
  Run run;
  run.name = group + "/" + std::to_string(n) + "/" + std::to_string(seed);
  run.group = group;
  run.num_householder = n;
  run.seed = seed;
  run.training_length = 128;
  run.traits = traits(config);
  run.lengths = std::move(lengths);
  return run;
}

Run language_run(const std::string& task, const std::string& model, uint64_t seed, double at_40,
                 double at_256) {
  Run run = run_of(task, 1, seed, {{40, 0.5, 0.5, at_40}, {256, 0.5, 0.5, at_256}});
  run.kind = TaskKind::kFormalLanguage;
  run.model = run.traits[kTraitModel] = model;
  run.traits[kTraitEigenvalues] = "";
  run.training_length = 40;
  return run;
}

std::string only_verdict(const std::vector<Run>& runs) { return verdict(group_runs(runs).at(0)); }

class Folder : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/report_test_XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const fs::path& file, const std::string& text) {
    fs::create_directories((folder_ / file).parent_path());
    std::ofstream(folder_ / file) << text;
  }

  fs::path folder_;
};
using FindRuns = Folder;

TEST(TrainCommand, SpellsOutWhatTheRunWasMadeWith) {
  RunConfig config;
  config.task = WordProblemOptions{.group = "S3xZ2"};
  config.model.num_householder = 3;
  config.model.allow_neg_eigval = true;
  config.model.use_output_gate = false;
  config.model.use_short_conv = false;
  config.model.num_hidden_layers = 2;
  config.model.hidden_size = 64;
  config.model.num_heads = 4;
  config.model.head_dim = 16;
  config.model.intermediate_size = 256;
  config.training.schedule.peak = 3e-3;
  config.training.curriculum.first_length = 4;
  config.training.seed = 7;
  config.eval_lengths = {128, 512};
  EXPECT_EQ(
      train_command(config, "my runs/a"),
      "./dp train word-problem --group S3xZ2 --num-householder 3 --eigenvalues=-1,1 --layers 2 "
      "--hidden 64 --heads 4 --head-dim 16 --mlp 256 --length 128 --steps 1000 --batch 64 "
      "--lr 0.003 --min-lr 0.0 --warmup 50 --weight-decay " +
          nlohmann::json(config.training.optimiser.weight_decay).dump() +
          " --clip 1.0 --curriculum 4 --curriculum-loss 0.1 --seed 7 --eval-lengths 128,512 "
          "--eval-every 100 --eval-sequences 128 --checkpoint-every 200 --keep 2 "
          "--out 'my runs/a'");
}

TEST(TrainCommand, NamesTaskAndModel) {
  RunConfig config;
  config.task = ParityOptions{.every_token = true};
  config.model.model_type = "mamba";
  config.model.use_short_conv = false;
  const std::string command = train_command(config, "a");
  EXPECT_EQ(command.find("./dp train parity --min-length 3 --answers every --model mamba "
                         "--num-householder 1 "),
            0u)
      << command;
  EXPECT_NE(command.find(" --conv 0 --state-size 16 --expand 2.0 "), std::string::npos) << command;
}

TEST(TrainCommand, QuotesForTheShell) {
  EXPECT_EQ(shell_quote("runs/S3_n-2.0"), "runs/S3_n-2.0");
  EXPECT_EQ(shell_quote(""), "''");
  EXPECT_EQ(shell_quote("it's $HOME"), "'it'\\''s $HOME'");
}

TEST(Verdict, ComparesAtTheLongestCommonLength) {
  EXPECT_EQ(only_verdict({run_of("S3", 1, 0, {{128, 0, 0.2}, {512, 0, 0.2}, {1024, 0, 0.1}}),
                          run_of("S3", 2, 0, {{128, 1, 1}, {512, 0.992, 1}})}),
            "S3: n = 2 is right on 99.2 % of the sequences of length 512, four times the training "
            "length; n = 1 on none.");
}

TEST(Verdict, GivesTheRangeOfSeeds) {
  EXPECT_EQ(
      only_verdict({run_of("S4", 2, 0, {{256, 0.5, 1}}), run_of("S4", 2, 1, {{256, 1, 1}}),
                    run_of("S4", 2, 2, {{256, 0.9, 1}}), run_of("S4", 3, 0, {})}),
      "S4: n = 2 is right on 90.0 % (median of 3 seeds, from 50.0 % to all) of the sequences of "
      "length 256, twice the training length; not evaluated: n = 3.");
}

TEST(Verdict, FallsBackToTheTrainingLengthWhereAllFail) {
  EXPECT_EQ(
      only_verdict({run_of("A5", 1, 0, {{128, 0.25, 0.9}, {192, 0, 0.2}})}),
      "A5: n = 1 is right on none of the sequences of length 192, 1.5 times the training "
      "length. And n = 1 is right on 25.0 % of the sequences of length 128, the training length.");
  EXPECT_EQ(
      only_verdict({run_of("A5", 1, 0, {{128, 0, 0.9}, {256, 0, 0.2}})}),
      "A5: n = 1 is right on none of the sequences of length 256, twice the training length.");
  EXPECT_EQ(only_verdict({run_of("A5", 1, 0, {})}),
            "A5: no two runs were evaluated at the same length, or none at all.");
}

TEST(Verdict, SaysAllAndNoneOfExactlyThese) {
  EXPECT_EQ(percent(0), "none");
  EXPECT_EQ(percent(1e-5), "fewer than 0.1 %");
  EXPECT_EQ(percent(0.99996), "more than 99.9 %");
  EXPECT_EQ(percent(1), "all");
}

TEST(Configurations, NameWhatDiffersAndKeepColours) {
  std::vector<report::Run> runs = {run_of("S3", 1, 0, {}), run_of("S3", 1, 0, {}),
                                   run_of("S3", 2, 0, {}), run_of("S4", 2, 0, {}),
                                   run_of("S4", 2, 1, {})};
  runs[1].traits[kTraitLayers] = "3 layers";
  const std::vector<Group> groups = group_runs(runs);
  ASSERT_EQ(groups.size(), 2u);
  ASSERT_EQ(groups[0].configurations.size(), 3u);
  EXPECT_EQ(groups[0].configurations[1].label, "n = 1, 3 layers");
  EXPECT_EQ(groups[0].configurations[2].label, "n = 2, 1 layer");
  ASSERT_EQ(groups[1].configurations.size(), 1u);
  EXPECT_EQ(groups[1].configurations[0].runs.size(), 2u);
  EXPECT_EQ(groups[1].configurations[0].colour, groups[0].configurations[2].colour);
  EXPECT_NE(groups[0].configurations[0].colour, groups[0].configurations[1].colour);
}

TEST(Charts, HaveThinLinesForSeedsAndAThickMedian) {
  LineChart chart;
  chart.share_y = true;
  chart.series = {{"n = 1", "#111111", {{{1, 0.25}, {2, 0.5}}}},
                  {"n = 2", "#222222", {{{1, 0}}, {{1, 1}, {2, 0.5}}, {{1, 0.75}}}}};
  const nlohmann::ordered_json data = chart_data(chart);
  std::map<int, bool> lines;  // number of the line -> thick
  for (const auto& row : data["lines"]) lines[row["run"]] = row["main"];
  EXPECT_EQ(std::ranges::count(lines, true, [](const auto& line) { return line.second; }), 2);
  EXPECT_EQ(lines.size(), 5u);
  EXPECT_EQ(data["hover"][0],
            (nlohmann::ordered_json{{"c0", "25.0 %"}, {"c1", "75.0 %"}, {"x", 1.0}}));
  EXPECT_EQ(data["hover"][1]["c1"], "50.0 %");
  chart.hold_last = true;  // 0, 0.5 and 0.75 at x = 2
  chart.series[1].runs[1][1].y = 0.25;
  EXPECT_EQ(chart_data(chart)["hover"][1]["c1"], "25.0 %");
}

TEST(Charts, TrainingIsAveragedInParts) {
  std::vector<report::Run> runs = {run_of("S3", 2, 0, {})};
  for (int64_t i = 0; i < 480; ++i) runs[0].steps.push_back({i, 8, i % 2 ? 1.0 : 3.0, 0.5});
  const std::vector<Chart> charts = training_charts(group_runs(runs).at(0));
  ASSERT_EQ(charts.size(), 2u);  // no curriculum, no chart of lengths
  const std::vector<Point>& loss = charts[0].lines.series[0].runs[0];
  ASSERT_EQ(loss.size(), 240u);
  EXPECT_EQ(loss.back().x, 480);
  EXPECT_EQ(loss.back().y, 2);
}

TEST(Languages, StandBesideThePaper) {
  const std::vector<report::Run> runs = {
      language_run("parity", "DeltaNet [-1,1]", 0, 1, 0.5),
      language_run("parity", "DeltaProduct_1 [-1,1]", 1, 1, 0.9),
      language_run("mod-arith", "DeltaNet [-1,1]", 0, 0.4, 0.2),
      language_run("mod-arith-brackets", "DeltaNet [-1,1]", 0, 0.2, 0),
      language_run("parity", "GLA", 0, 0.1, -0.2),
      run_of("S3", 2, 0, {{128, 1, 1}})};
  const std::string table = language_table(runs);
  EXPECT_EQ(std::ranges::count(table, '\n'), 14 + 1) << "13 rows, GLA, and a line in a tooltip";
  EXPECT_NE(
      table.find("<td data-value=\"DeltaNet [-1,1]\">DeltaNet [-1,1]</td><td class=\"number\" "
                 "data-value=\"0.950000\" title=\"0.950: parity/1/1\n0.750: parity/1/0\">"
                 "<small>0.750</small> <b>0.950</b></td><td class=\"number\" "
                 "data-value=\"0.982\">0.982</td>"),
      std::string::npos)
      << table;
  EXPECT_NE(table.find("data-value=\"0.450\">0.450</td><td class=\"number\" "
                       "data-value=\"0.726\">0.726</td></tr>"),
            std::string::npos)
      << "the means";
  EXPECT_NE(table.find("DeltaProduct<sub>2</sub> [0,1]</td>"), std::string::npos);

  const std::vector<Group> groups = group_runs(runs, TaskKind::kFormalLanguage);
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(group_runs(runs).size(), 1u);
  EXPECT_EQ(language_verdict(groups[2]),
            "parity, scaled accuracy: DeltaNet [-1,1] 0.950 (paper: 0.982), GLA -0.050.");
  const LineChart chart = language_chart(groups[2]).lines;
  ASSERT_EQ(chart.series.size(), 3u);
  EXPECT_EQ(chart.series[2].label, "GLA");
  EXPECT_EQ(chart.series[2].runs[0][1].y, 0) << "no better than guessing";
  EXPECT_EQ(chart.dashed, std::vector<int64_t>{40});
  EXPECT_EQ(chart_data(chart)["hover"][0]["c0"], "1.000");
}

TEST(Page, FillsPlacesOnce) {
  EXPECT_EQ(
      fill("a{{b}}c{{d}}", [](std::string_view name) { return "<{{" + std::string(name) + "}}>"; }),
      "a<{{b}}>c<{{d}}>");
}

TEST(Page, EscapesWhatCameFromOutside) {
  Runs runs;
  runs.runs = {run_of("</script><script>alert(1)</script>", 2, 0, {{128, 1, 1}})};
  runs.runs[0].settings = "<img src=x onerror=\"alert('2')\">";
  runs.problems = {"<b>\xff"};
  const std::string page = make_page(
      runs, {"{{verdicts}}{{problems}}{{runs}}{{settings}}{{data}}{{accuracy}}", "", "", "x"});
  EXPECT_EQ(page.find("<script"), std::string::npos);
  EXPECT_EQ(page.find("</script"), std::string::npos);
  EXPECT_EQ(page.find("<img"), std::string::npos);
  EXPECT_EQ(page.find("<b>"), std::string::npos);
  EXPECT_NE(page.find("\\u003c/script>"), std::string::npos);
  EXPECT_NE(page.find("&lt;img src=x onerror=&quot;alert(&#39;2&#39;)&quot;&gt;"),
            std::string::npos);
}

TEST(Page, SaysWhatIsMissingWithoutCharts) {
  EXPECT_THROW(make_page({}, {"", "", "", ""}), InputError);
}

TEST_F(FindRuns, ReadsWhatItCanAndCountsTheRest) {
  RunConfig config;
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
  write("sweep/b/run.json", to_json(config));
  write("sweep/b/eval.json",
        R"({"lengths":[{"length":2,"sequence_accuracy":0.25,"token_accuracy":0.5}],)"
        R"("by_position":{"token_accuracy":[1,0.5],"sequence_accuracy":[0.5,0.25]}})");
  write("sweep/c/run.json", "{}");
  write("sweep/d/run.json", to_json(config));
  write("sweep/d/eval.json", R"({"lengths":[{"length":-2}]})");
  const Runs found = find_runs(std::vector<fs::path>{folder_, folder_ / "sweep"});
  ASSERT_EQ(found.runs.size(), 3u);
  EXPECT_EQ(found.problems.size(), 1u);  // c, which both folders lead to
  const report::Run &b = found.runs[0], &d = found.runs[1], &a = found.runs[2];
  EXPECT_EQ(b.sequence_accuracy(1), 0.5);
  EXPECT_EQ(b.longest(), 2);
  EXPECT_TRUE(b.tested);
  EXPECT_FALSE(d.tested);
  EXPECT_NE(d.problem, "");
  EXPECT_EQ(a.steps.size(), 2u);
  EXPECT_EQ(a.broken_lines, 3);
  EXPECT_EQ(a.seconds, 9);
  EXPECT_EQ(a.sequence_accuracy(16), 0.5);
  EXPECT_EQ(a.sequence_accuracy(17), std::nullopt);
}

TEST_F(FindRuns, RefusesFoldersWithoutRuns) {
  write("empty/file", "");
  write("broken/run.json", "{");
  const auto message = [&](const char* name) {
    try {
      find_runs(std::vector<fs::path>{folder_ / name});
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(message("empty").find("found no training run in"), std::string::npos);
  EXPECT_NE(message("absent").find("is no directory"), std::string::npos);
  EXPECT_NE(message("broken").find("run.json: not valid JSON"), std::string::npos);
}

}  // namespace
}  // namespace dp::report
