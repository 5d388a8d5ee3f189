import assert from "node:assert/strict";
import test from "node:test";
import { textOf } from "../pages/elements.js";
import { languageNotes, languageTable, languageVerdict } from "../pages/formal_languages.js";
import { boundaryTable, textTable, textVerdicts } from "../pages/language_models.js";
import { reportPage } from "../pages/report_page.js";
import { commonWidth, groupRuns, trainingLine } from "../pages/runs.js";
import { accuracyCell, accuracyVerdict, samplePositions } from "../pages/state_tracking.js";
import { languageRun, report, textRun, wordRun } from "./made_up.mjs";

const only = (runs, kind = "word-problem") => {
  const groups = groupRuns(runs, kind);
  assert.equal(groups.length, 1);
  return groups[0];
};
const pageText = (runs) => {
  const { title, body } = reportPage(report(runs));
  return { title, text: body.flat(Infinity).filter(Boolean).map(textOf).join("\n").replaceAll("\u00a0", " ") };
};
const cells = (table, row) => table.children[1].children[row].children.map(textOf).map((text) => text.replaceAll("\u00a0", " "));
const heads = (table) => table.children[0].children[0].children.map(textOf);

test("configurations are named by what differs, and keep their colours", () => {
  const groups = groupRuns(
    [wordRun({ seed: 1 }), wordRun(), wordRun({ n: 1, layers: 3 }), wordRun({ n: 1 }), wordRun({ group: "S4", layers: 3 })],
    "word-problem");
  assert.deepEqual(groups.map((group) => group.configurations.map((it) => it.label)),
    [["n = 1, 1 layer", "n = 1, 3 layers", "n = 2, 1 layer"], ["n = 2, 3 layers"]]);
  assert.equal(groups[0].configurations[2].runs.length, 2);
  assert.deepEqual(groups[0].configurations[2].runs.map((run) => run.settings.training.seed), [0, 1]);
  const widths = only([wordRun({ hidden: 32 }), wordRun({ hidden: 64 })]);
  assert.deepEqual(widths.configurations.map((it) => it.label), ["n = 2, width 32", "n = 2, width 64"]);
  assert.equal(new Set(widths.configurations.map((it) => it.colour)).size, 2);
  assert.deepEqual(only([wordRun({ negative: false }), wordRun()]).configurations.map((it) => it.label),
    ["n = 2, [-1,1]", "n = 2, [0,1]"]);
});

test("verdicts compare at the longest common length", () => {
  assert.equal(accuracyVerdict(
      only([wordRun({ n: 1, accuracies: [[128, 0], [512, 0], [1024, 0]] }), wordRun({ accuracies: [[128, 1], [512, 0.992]] })])),
    "S3: n = 2 gets 99.2% of sequences of length 512 right, four times the training length; n = 1 gets 0%.");
});

test("verdicts give mean and deviation of seeds", () => {
  assert.equal(accuracyVerdict(only([0.8, 0.9, 1].map((accuracy, seed) => wordRun({ seed, accuracies: [[256, accuracy]] })))),
    "S3: n = 2 gets 90.0% (mean of 3 seeds, standard deviation 10.0%) of sequences of length 256 right, twice the training " +
    "length.");
  assert.match(accuracyVerdict(only([0, 1].map((seed) => wordRun({ seed, accuracies: [[128, 1]] })))),
    /n = 2 gets 100% \(each of 2 seeds\) of sequences of length 128 right, the training length\./);
});

test("where all fail, the verdict falls back to the training length", () => {
  assert.match(accuracyVerdict(only([wordRun({ accuracies: [[128, 0.7], [512, 0]] })])),
    /n = 2 gets 0% .* At length 128: n = 2 gets 70.0% /);
  assert.match(accuracyVerdict(only([wordRun({})])), /no run has been evaluated/);
  assert.match(accuracyVerdict(only([wordRun({ accuracies: [[128, 0.99999]] }), wordRun({ n: 1 })])),
    />99.9% .*; not evaluated: n = 1\./);
});

test("accuracies have a binomial interval, or one over seeds", () => {
  assert.deepEqual(accuracyCell([1], 512), { text: "1.000", value: 1, small: "95% CI 0.993 to 1.000" });
  assert.equal(accuracyCell([0.7, 0.8, 0.9], 512).text, "0.800 ± 0.100");
  assert.equal(accuracyCell([0.7, 0.8, 0.9], 512).small, "95% CI 0.552 to 1.000");
  assert.equal(accuracyCell([0.7], null).small, null, "an unknown number of sequences gives no interval");
});

test("positions are sampled, the training length and the last among them", () => {
  const positions = samplePositions(512, 101);
  assert.deepEqual(positions.slice(0, 4), [1, 2, 3, 4]);
  assert.ok(positions.includes(101) && positions.at(-1) === 512 && positions.length < 200);
});

test("training curves of different resolution meet on one grid", () => {
  const [short, long] = [wordRun({ steps: 4 }), wordRun({ steps: 2048 })];
  assert.equal(commonWidth([short, long]), 8);
  assert.deepEqual(trainingLine(short, "loss", 8).map(({ x }) => x), [8]);
  assert.ok(Math.abs(trainingLine(short, "loss", 8)[0].y - (1 + 1 / 2 + 1 / 3 + 1 / 4) / 4) < 1e-12);
  assert.equal(trainingLine(long, "loss", 8).length, 256);
});

test("a page explains only what is on it, and has no switch without a choice", () => {
  const plain = pageText([wordRun({ accuracies: [[128, 1], [512, 0.9]] })]);
  assert.equal(plain.title, "word problem of S3");
  assert.match(plain.text, /^Word problem of S3: 1 run\n/);
  for (const absent of ["seeds and", "over seeds", "validation sequences", "Formal languages", "Effective rank", "eval.json",
      "length of training sequences"]) assert.ok(!plain.text.includes(absent), absent);
  const begun = wordRun({ steps: 600 });
  const empty = pageText([
      { ...begun, training: { ...begun.training, steps: 0, seconds: 0,
          curve: { width: 1, step: [], count: [], loss: [], accuracy: [], length: [], tokens: [] } } }]);
  for (const absent of ["Accuracy by length", "Share of", "neighbouring"]) assert.ok(!empty.text.includes(absent), absent);
  const texts = pageText([textRun()]);
  for (const absent of ["Layer", "Effective rank of the states", "bold", "Accuracy by length", "questions"])
    assert.ok(!texts.text.includes(absent), absent);
  assert.equal(pageText([wordRun(), wordRun({ group: "S4" }), languageRun()]).title,
    "word problems of S3 and S4, formal languages (parity)");
});

test("commands are shown where they are known, and problems are listed", () => {
  const run = { ...wordRun({ name: "runs/a" }), problem: "runs/a/eval.json: odd" };
  const { text } = pageText(
    [{ ...run, training: { ...run.training, broken_lines: 1 } }, { ...wordRun({ n: 1, name: "runs/b" }), command: "" }]);
  assert.equal(text.split("./dp train word-problem").length, 2);
  assert.match(text, /runs\/a\/metrics.jsonl: 1 line could not be read/);
  assert.match(text, /Left out: runs\/a\/eval.json: odd/);
  assert.match(text, /Directories below runs\//);
});

test("formal languages: only models that ran have a row, and only the paper's task its score", () => {
  const runs = [...[0.4, 0.6].map((score, seed) => languageRun({ score, seed })),
    languageRun({ model: "DeltaProduct_1 [-1,1]", score: 0.9 }), languageRun({ model: "GLA", score: 0 })];
  const table = languageTable(runs);
  assert.deepEqual(heads(table), ["model", "parity", "parity, paper"]);
  assert.deepEqual(cells(table, 0), ["DeltaNet [-1,1]", "0.900", "0.982"]);
  assert.deepEqual(cells(table, 1), ["DeltaProduct_2 [-1,1]", "0.600 mean 0.500 ± 0.141 over 2 seeds; 95% CI −0.771 to 1.000", "0.896"]);
  assert.deepEqual(cells(table, 2), ["GLA", "0.000", "–"]);
  assert.equal(languageVerdict(only(runs, "formal-language")),
    "parity, best scaled accuracy: DeltaNet [-1,1] 0.900 (paper: 0.982), DeltaProduct_2 [-1,1] 0.600 (paper: 0.896), GLA 0.000.");
});

test("formal languages: what differs from the paper is said", () => {
  const runs = [languageRun({ length: 20, lengths: [20, 64] }), languageRun({ length: 20, lengths: [20, 64], seed: 1 }),
    languageRun({ tested: false, seed: 2 })];
  assert.deepEqual(heads(languageTable(runs)), ["model", "parity"]);
  assert.ok(!languageVerdict(only(runs, "formal-language")).includes("paper"));
  const notes = languageNotes(runs).filter(Boolean).join(" ");
  assert.match(notes, /^Not compared with the paper: trained on lengths 3 to 20 \(paper: 3 to 40\) in 2 runs; tested on lengths 20 to 64 \(paper: 40 to 256\) in 2 runs; evaluated on validation sequences only in 1 run\.$/);
  assert.match(languageNotes([languageRun()]).filter(Boolean).join(" "),
    /^What was compared differs from the paper’s recipe: 1 layers .*batch 32 \(paper: 1024\)/);
});

const RISING = [[[5, 5, 5, 6, 7, 7], [7, 7, 7, 8, 9, 9]]], EVEN = [[[6, 6, 6, 6, 6, 6]]];

test("language models: perplexity, loss and rank beyond the training length", () => {
  const sentences = textVerdicts(
    only([textRun({ n: 1, perplexity: 60, losses: { 512: 4, 2048: 4.3 }, ranks: RISING }),
        textRun({ perplexity: 50, ranks: EVEN })], "text"));
  assert.equal(sentences[0], "Trained on data/corpus: DeltaProduct_2 [-1,1] has the lowest perplexity on " +
    "data/corpus/validation, 50.00; DeltaProduct_1 [-1,1] 60.00.");
  assert.equal(sentences[1], "On data/corpus/validation, from 512 tokens, the training length, to 2048, four times that, the " +
    "loss of DeltaProduct_2 [-1,1] falls by 0.10, that of DeltaProduct_1 [-1,1] rises by 0.30.");
  assert.equal(sentences[2], "Between the end of the training length and the end of a text of 2048 tokens, the mean effective " +
    "rank of the states of DeltaProduct_2 [-1,1] goes from 6.0 to 6.0 (0%), that of DeltaProduct_1 [-1,1] from 6.0 to 8.0 (+33%).");
});

test("language models: only what is comparable is compared", () => {
  const sentences = textVerdicts(only([textRun(), textRun({ n: 1, tested: false, perplexity: 40 })], "text"));
  assert.match(sentences[0], /DeltaProduct_2 \[-1,1\] has a perplexity of 50.00 on data\/corpus\/validation/);
  assert.match(sentences[1], /DeltaProduct_1 \[-1,1\] has a perplexity of .* on validation data during training/);
  assert.match(textVerdicts(only([0, 1].map((seed) => textRun({ seed, perplexity: 50 + seed })), "text"))[0],
    /50\.50 \(mean of 2 seeds, standard deviation 0\.71\)/);
  assert.match(textVerdicts(only([textRun({ losses: { 512: 4, 1024: 4.001 } })], "text"))[1], /changes by less than 0\.01/);
});

test("language models: heads that fall where documents meet are counted", () => {
  const run = textRun(), head = (before, after, half) =>
    ({ mean: [after, before], before, after, change: after - before, low: after - before - half, high: after - before + half });
  run.evaluation.boundary_ranks = { documents: 101, document_tokens: 16, every: 8,
    layers: [[head(10, 2, 1), head(10, 9, 0.5)], [head(10, 9.9, 0.5), head(4, 6, 1)]] };
  const table = boundaryTable(groupRuns([run], "text"));
  assert.deepEqual(cells(table, 0), ["DeltaProduct_2 [-1,1]", "100", "8.50", "6.72", "2 of 4", "1 of 4", "1 of 4"]);
});

test("language models: the best of a column is bold among those on the same data", () => {
  const choices = [{ file: "tests/questions.jsonl", items: 100, accuracy: 0.5 }];
  const runs = [textRun({ n: 1, perplexity: 60, choices }), textRun(), textRun({ n: 3, data: "other", perplexity: 10 })];
  const table = textTable(groupRuns(runs, "text"), () => "#"), column = heads(table).indexOf("perplexity");
  const bold = table.children[1].children.map((row) =>
    row.children[column].children[0].children.some((child) => child.tag === "b"));
  assert.deepEqual(bold, [false, true, false], "one alone is not best");
  assert.ok(heads(table).includes("questions") && !heads(table).includes("effective rank"),
    "columns without any value are left out");
  assert.match(cells(table, 0)[heads(table).indexOf("questions")], /^50\.0% 95% CI 40\.4% to 59\.6%$/);
});
