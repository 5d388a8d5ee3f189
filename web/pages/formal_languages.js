// Tasks that ask once, the paper's formal languages: a table beside the paper's, charts, words.
import { lineChart } from "./charts.js";
import { figure, grid, note, section, table } from "./elements.js";
import { counted, fixed } from "./numbers.js";
import { differencesFromPaper, PAPER_SCORES, PAPER_TASKS, paperModel, paperScore, recipeDifferences } from "./paper.js";
import { lengthRows, meanScaledAccuracy, runsOf, trainedLengths } from "./runs.js";
import { deviation, mean, seedInterval } from "./statistics.js";

export function languageChart(group) {
  return lineChart({ title: group.name, subtitle: "scaled accuracy at this length",
      description: `Scaled accuracy on ${group.name} against length`,
      x: { title: "length" }, y: { unit: true }, trained: trainedLengths(runsOf(group)), points: true,
      series: group.configurations.map(({ label, colour, runs }) => ({ label, colour,
      runs: runs.map((run) => lengthRows(run).filter((row) =>
          Number.isFinite(row.scaled_accuracy)).map((row) => ({ x: row.length, y: Math.max(0, row.scaled_accuracy) }))) })) });
}

const scoresOf = (runs) => runs.map(meanScaledAccuracy).filter((it) => it !== null).sort((a, b) => b - a);
const byModel = (runs) => {
  const models = new Map();
  for (const run of runs) {
    const name = paperModel(run.model);
    models.set(name, [...(models.get(name) ?? []), run]);
  }
  return models;
};
const comparable = (runs) => runs.filter((run) => differencesFromPaper(run).length === 0);

// "parity, best scaled accuracy: sLSTM 1.000 (paper: 1.000), Transformer 0.010 (paper: 0.022)."
export function languageVerdict(group) {
  const found = [...byModel(runsOf(group))].map(([model, runs]) => ({ model, runs, scores: scoresOf(runs) }))
    .filter((it) => it.scores.length).sort((a, b) => b.scores[0] - a.scores[0]);
  if (!found.length) return `${group.name}: no run has been evaluated.`;
  return `${group.name}, best scaled accuracy: ${found.map(({ model, runs, scores }) => {
    const theirs = comparable(runs).length ? paperScore(model, group.name) : null;
    return `${model} ${fixed(scores[0])}${theirs === null ? "" : ` (paper: ${fixed(theirs)})`}`;
  }).join(", ")}.`;
}

function scoreCell(runs) {
  const scores = scoresOf(runs);
  if (!scores.length) return null;
  const interval = seedInterval(scores, [-1, 1]);
  const constant = runs.map((run) => run.evaluation?.constant_answer?.mean_scaled_accuracy).find(Number.isFinite);
  return { text: fixed(scores[0]), value: scores[0], bold: true,
           small: [interval && `mean ${fixed(mean(scores))} ± ${fixed(deviation(scores))} over ${scores.length} seeds; ` +
             `95% CI ${fixed(interval[0])} to ${fixed(interval[1])}`,
             constant !== undefined && `constant answer ${fixed(constant)}`].filter(Boolean).join("; ") || null,
           title: runs.map((run) =>
             `${run.name}: ${meanScaledAccuracy(run) === null ? "not evaluated" : fixed(meanScaledAccuracy(run))}`).join("\n") };
}

// Models that were run have a row, with `everyRow` all of the paper's; only runs of the paper's task have its score beside them, or none.
export function languageTable(runs, { everyRow = false } = {}) {
  const tasks = PAPER_TASKS.filter((task) => runs.some((run) => run.task === task)), order = Object.keys(PAPER_SCORES);
  const place = (model) => (order.indexOf(model) + order.length + 1) % (order.length + 1);  // others come last
  const models = byModel(runs);
  if (everyRow) for (const model of order) if (!models.has(model)) models.set(model, []);
  const rows = [...models].sort(([a], [b]) => place(a) - place(b)).map(([model, own]) =>
    ({ model, own, of: (task) => own.filter((run) => run.task === task) }));
  const best = (row, task) => scoresOf(row.of(task))[0];
  const paper = (row, task) => (everyRow || comparable(row.of(task)).length ? paperScore(row.model, task) : null);
  return table([
    { head: "model", cell: ({ model }) => model, nowrap: true },
    ...tasks.flatMap((task) => [
      { head: task, cell: (row) => scoreCell(row.of(task)), number: true },
      { head: `${task}, paper`, cell: (row) => (paper(row, task) === null ? null : fixed(paper(row, task))), number: true }]),
    { head: "mean of tasks",
      cell: (row) => (tasks.length < 2 || tasks.some((task) => best(row, task) === undefined) ? null :
        fixed(mean(tasks.map((task) => best(row, task))))), number: true },
  ], rows, "beside");
}

// Sentences about what is not compared, and how the runs that are differ from the paper's.
export function languageNotes(runs) {
  const count = (words) => {
    const times = new Map();
    for (const word of words) times.set(word, (times.get(word) ?? 0) + 1);
    return [...times].map(([word, number]) => (number === runs.length ? word : `${word} in ${counted(number, "run")}`));
  };
  const different = count(runs.flatMap(differencesFromPaper)), recipe = count(comparable(runs).flatMap(recipeDifferences));
  return [
    different.length && `Not compared with the paper: ${different.join("; ")}.`,
    recipe.length && `What was compared differs from the paper’s recipe: ${recipe.join("; ")}.`];
}

export function formalLanguagesSection(groups, options = {}) {
  const runs = groups.flatMap(runsOf), several = groups.some((group) => group.configurations.some((it) => it.runs.length > 1));
  const compared = comparable(runs).some((run) => paperScore(run.model, run.task) !== null);
  return section(compared ? "Formal languages, beside the paper" : "Formal languages",
    languageTable(runs, options),
    note("Scaled accuracy, the mean over all lengths tested: 0 is as good as guessing, 1 always right.",
      several ? "The best seed counts, as in the paper." : null,
      runs.some((run) => run.evaluation?.constant_answer) && "Beside it, what the best constant answer gets.", ...languageNotes(runs),
      runs.some((run) => !run.evaluation) && "For runs without an eval.json it is the last evaluation during training, on " +
        "validation sequences."),
    grid(groups.map((group) => figure(languageChart(group))), ""),
    note(several && "Thin lines are single seeds and the thick line is their median (for two seeds, their mean).", "Scores below guessing are drawn as 0."));
}
