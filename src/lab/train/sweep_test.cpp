#include "train/sweep.h"

#include <gtest/gtest.h>

#include <set>

#include "base/test_input_error.h"

namespace dp {
namespace {

std::string option(const SweepRun& run, const std::string& name) {
  for (const auto& [key, value] : run.options)
    if (key == name) return value;
  return "";
}

TEST(Sweep, HasARunForEveryCombination) {
  const Sweep sweep = parse_sweep(R"({
    "base": {"length": 128, "lr": 0.001, "forget-gate": true},
    "grid": {"group": ["S3", "S4"], "num-householder": [1, 2], "seed": [0, 1, 2]},
    "overrides": [{"match": {"group": ["S4"]}, "set": {"steps": 9000}},
                  {"match": {"group": "S4", "seed": 2}, "set": {"steps": 5, "lr": 0.5}}],
    "jobs": 3,
    "evaluate": {"lengths": [64], "sequences": 10, "rank-every": 16, "boundaries": 5}})",
                                  "f");
  EXPECT_EQ(sweep.runs.size(), 12u);
  std::set<std::string> names;
  for (const SweepRun& run : sweep.runs) {
    names.insert(run.name);
    EXPECT_EQ(option(run, "length"), "128");
    EXPECT_EQ(option(run, "forget-gate"), "true");
    const bool late = option(run, "group") == "S4" && option(run, "seed") == "2";
    EXPECT_EQ(option(run, "steps"), late ? "5" : option(run, "group") == "S4" ? "9000" : "");
    EXPECT_EQ(option(run, "lr"), late ? "0.5" : "0.001");
  }
  EXPECT_EQ(names.size(), 12u);
  EXPECT_TRUE(names.contains("group=S4,num-householder=2,seed=1"));
  EXPECT_EQ(sweep.eval_lengths, std::vector<int64_t>{64});
  EXPECT_EQ(sweep.eval_sequences, 10);
  EXPECT_EQ(sweep.eval_rank_every, 16);
  EXPECT_EQ(sweep.eval_boundaries, 5);
  EXPECT_EQ(sweep.jobs, 3);
}

TEST(Sweep, TasksAndModelsVary) {
  const Sweep sweep = parse_sweep(R"({
    "base": {"steps": 100},
    "grid": {"task": ["parity", "mod-arith"],
             "row": [{"model": "mamba", "eigenvalues": "0,1"}, {"num-householder": 3}]},
    "overrides": [{"match": {"task": "parity"}, "set": {"answers": "every"}},
                  {"match": {"task": "mod-arith", "model": ["deltaproduct"]}, "set": {"steps": 9}}]})",
                                  "f");
  ASSERT_EQ(sweep.runs.size(), 4u);
  EXPECT_TRUE(sweep.eval_lengths.empty()) << "those of each task";
  std::set<std::string> names;
  for (const SweepRun& run : sweep.runs) {
    names.insert(run.name);
    EXPECT_EQ(option(run, "task") + option(run, "row"), "");
    EXPECT_EQ(option(run, "answers"), run.task == "parity" ? "every" : "");
    const bool product = option(run, "num-householder") == "3";
    EXPECT_EQ(option(run, "model"), product ? "" : "mamba");
    EXPECT_EQ(option(run, "steps"), product && run.task == "mod-arith" ? "9" : "100");
  }
  EXPECT_EQ(names, (std::set<std::string>{"eigenvalues=0,1,model=mamba,task=parity",
                                          "eigenvalues=0,1,model=mamba,task=mod-arith",
                                          "num-householder=3,task=parity",
                                          "num-householder=3,task=mod-arith"}));
  EXPECT_EQ(parse_sweep(R"({"task": "parity"})", "f").runs[0].task, "parity");
  EXPECT_EQ(parse_sweep("{}", "f").runs[0].task, "word-problem");
}

TEST(Sweep, BaseServesSeveralModels) {
  const Sweep sweep = parse_sweep(R"({
    "base": {"heads": 4, "eval-lengths": [128, 512]},
    "grid": {"model": ["deltaproduct", "mamba"]}})",
                                  "f");
  EXPECT_EQ(option(sweep.runs[0], "heads"), "4");
  EXPECT_EQ(option(sweep.runs[1], "heads"), "") << "mamba has none";
  EXPECT_EQ(option(sweep.runs[1], "eval-lengths"), "128,512");
}

TEST(Sweep, NamesAreNoPaths) {
  const Sweep sweep = parse_sweep(R"({"grid": {"group": ["../x"]}})", "f");
  EXPECT_EQ(sweep.runs[0].name, "group=.._x");
}

TEST(Sweep, RefusesWrongFieldsByName) {
  const auto error_message = [](const std::string& text) -> std::string {
    return input_error([&] { parse_sweep(text, "f.json"); });
  };
  EXPECT_EQ(error_message(R"({"grid": {"group": "S3"}})"),
            "f.json: field 'grid.group' must be a list of values");
  EXPECT_EQ(error_message(R"({"grid": {"group": []}})"),
            "f.json: field 'grid.group' must be a list of values");
  EXPECT_EQ(error_message(R"({"base": {"lr": null}})"),
            "f.json: field 'base.lr' must be a text, a number, a list of numbers, true or false");
  EXPECT_EQ(error_message(R"({"grid": {"row": [{"lr": {}}]}})"),
            "f.json: field 'grid.row.lr' must be a text, a number, a list of numbers, true or false");
  EXPECT_EQ(error_message(R"({"base": {"lr": [1]}})"),
            "f.json, run 'run': option 'lr' is '[1]', expected a number above 0");
  EXPECT_EQ(error_message(R"({"grid": {"seed": [0, -1]}})"),
            "f.json, run 'seed=-1': option 'seed' is -1, expected an integer from 0 to "
            "9007199254740992");
  EXPECT_EQ(error_message(R"({"base": {"num-housholder": 2}})"),
            "f.json, run 'run': 'num-housholder' is not an option of dp train word-problem; did you "
            "mean 'num-householder'?");
  EXPECT_EQ(error_message(R"({"grid": {"row": [{"model": "mamba", "num-householder": 2}]}})"),
            "f.json, run 'model=mamba,num-householder=2': num-householder means nothing to the "
            "model mamba, expected it only with deltaproduct or rwkv7");
  EXPECT_EQ(error_message(R"({"grid": {"seed": [1, 1]}})"),
            "f.json: field 'grid' must be without repetitions: two runs would be called 'seed=1'");
  EXPECT_EQ(error_message(R"({"grid": {"task": ["parity", "arithmetic"]}})"),
            "f.json: task is 'arithmetic', expected one of 'word-problem', 'parity', 'mod-arith', "
            "'mod-arith-brackets', 'text'");
  EXPECT_EQ(error_message(R"({"gird": {}})"),
            "f.json: field 'gird' must be task, base, grid, overrides, evaluate, jobs or "
            "comment: there is no other field");
  EXPECT_EQ(error_message(R"({"evaluate": {"lengths": "all"}})"),
            "f.json: field 'evaluate' must be an object with lengths (a list of integers), "
            "sequences, rank-every and boundaries (integers)");
  EXPECT_EQ(error_message(R"({"jobs": -1})"), "f.json: field 'jobs' must be an integer from 0 on");
}

}  // namespace
}  // namespace dp
