import assert from "node:assert/strict";
import test from "node:test";
import { textOf } from "../pages/elements.js";
import { experimentsPage, FIGURES, figureRuns, scalingChart, tableRuns, trackingOutcomes } from "../pages/experiments_page.js";
import { languageTable } from "../pages/formal_languages.js";
import { textTrainingChart } from "../pages/language_models.js";
import { groupRuns } from "../pages/runs.js";
import { experiments, languageRun, textRun, trackedRun, wordRun } from "./made_up.mjs";

const RESULTS = {
  "state-tracking/results/grid-s3.json": [trackedRun({ seed: 0 }), trackedRun({ seed: 1, beyond: 0.8 }), trackedRun({ seed: 2 }),
    trackedRun({ n: 1, there: 0.2, beyond: 0.1 }), trackedRun({ n: 3, beyond: 0.5 })],
  "state-tracking/results/layers-s3.json": [trackedRun({ n: 1, layers: 3, beyond: 0.3 })],
  "state-tracking/results/s3.json": [wordRun({ n: 4, accuracies: [[128, 1, 1], [512, 0.5, 0.7]] })],  // of another recipe
};
const text = (data) => experimentsPage(data).body.flat(Infinity).filter(Boolean).map(textOf).join("\n").replaceAll("\u00a0", " ");
const find = (node, tag) => (typeof node !== "object" || node === null ? [] : Array.isArray(node) ? node.flatMap((it) => find(it, tag)) :
  [...(node.tag === tag ? [node] : []), ...node.children.flatMap((it) => find(it, tag))]);
const rows = (table) => table.children[1].children.map((row) => row.children.map(textOf));

test("a figure takes the runs of its own files", () => {
  const { results } = experiments(RESULTS);
  assert.deepEqual(FIGURES.map((figure) => figureRuns(results, figure).length), [5, 2, 0, 0, 0, 1]);
});

test("outcomes are medians over seeds, at the training length and at four times that", () => {
  assert.deepEqual(trackingOutcomes(RESULTS["state-tracking/results/grid-s3.json"], (run) => run.settings.model.num_householder), [
    { value: "1", seeds: 1, trained: 0.2, longest: 0.1 }, { value: "2", seeds: 3, trained: 1, longest: 1 },
    { value: "3", seeds: 1, trained: 1, longest: 0.5 }]);
});

test("what suffices stands beside the paper's words, and what has not been run is said", () => {
  const page = experimentsPage(experiments(RESULTS)), [first, second] = find(page.body, "table").map(rows);
  assert.deepEqual(first[0], ["S3", "2", "2", "2", "1: 0.200, 2: 1.000 and 3: 1.000", "1: 0.100, 2: 1.000 and 3: 0.500", "5"]);
  assert.deepEqual(first[3], ["S5", "4", "–", "–", "not yet run", "not yet run", "0"]);
  assert.deepEqual(second[0].slice(0, 4), ["S3", "3", "3", "none"]);
  assert.match(text(experiments(RESULTS)), /Not yet run: one layer, eigenvalues in \[0,1\]; permutations that move at most m points/);
  assert.deepEqual(rows(find(page.body, "table")[2])[0].slice(1, 5), ["n_h 4, 1 layer, [-1,1]", "none",
    "n_h 4, 1 layer, [-1,1]: 1.000", "n_h 4, 1 layer, [-1,1]: 0.700"]);
  assert.match(text(experiments(RESULTS)), /state-tracking\/results\/grid-s3\.json50123456789/);
});

test("formal languages: every row of the paper's table, and the best constant answer beside a score", () => {
  const run = languageRun({ score: 0.6 });
  run.evaluation.constant_answer = { answer: 0, mean_scaled_accuracy: 0.13 };
  const table = rows(languageTable([run], { everyRow: true }));
  assert.equal(table.length, 13);
  assert.deepEqual(table.find(([model]) => model === "DeltaProduct_2 [-1,1]"), ["DeltaProduct_2 [-1,1]", "0.600 constant answer 0.130", "0.896"]);
  assert.deepEqual(table.find(([model]) => model === "sLSTM"), ["sLSTM", "–", "1.000"]);
});

test("formal languages: runs that settings were chosen by are not in the table", () => {
  const files = { "chomsky/results/choose.json": [languageRun({ score: 1 })], "chomsky/results/table.json": [languageRun({ score: 0.2 })] };
  assert.deepEqual(tableRuns(experiments(files).results).map((run) => run.evaluation.lengths[0].scaled_accuracy), [0.2]);
  const seeds = { ...files, "chomsky/results/table-seeds.json": [languageRun({ score: 0.5 })] };
  assert.deepEqual(tableRuns(experiments(seeds).results).map((run) => run.evaluation.lengths[0].scaled_accuracy), [0.5]);
});

test("scaling: a line for each number of factors and way of matching, medians over seeds", () => {
  const run = (n, headDim, parameters, perplexity) => {
    const it = textRun({ n, perplexity });
    it.settings.model.head_dim = headDim;
    return { ...it, parameters };
  };
  assert.equal(scalingChart(experiments({ "language/results/six-models.json": [run(1, 32, 5, 9)] }).results), null);
  const { csv } = scalingChart(experiments({ "language/results/scaling-1m.json":
    [run(1, 32, 1e6, 80), run(1, 32, 1e6, 90), run(1, 32, 1e6, 81), run(2, 32, 1e6, 70), run(2, 21, 1e6, 75)],
    "language/results/scaling-4m.json": [run(1, 32, 4e6, 60)] }).results);
  assert.deepEqual(csv.map((row) => [row.series, row.parameters, Object.values(row)[3]]), [["n_h = 1", 1e6, 81], ["n_h = 1", 4e6, 60],
    ["n_h = 2, fewer heads", 1e6, 70], ["n_h = 2, smaller heads", 1e6, 75]]);
});

test("language models: runs stored without a training curve have no chart of it", () => {
  const run = textRun();
  assert.notEqual(textTrainingChart(groupRuns([run], "text")[0]), null);
  run.training.curve = { width: 1, step: [], count: [], loss: [], accuracy: [], length: [], tokens: [] };
  assert.equal(textTrainingChart(groupRuns([run], "text")[0]), null);
});

test("files that could not be read are listed", () => {
  assert.match(text({ ...experiments(RESULTS), problems: ["a.json: odd"] }), /Left out: a\.json: odd/);
});
