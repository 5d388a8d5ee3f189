// The page of dp report about the results that a folder of experiments holds (web/README.md, "Experiments"): the paper's figures and
// tables, ours beside what the paper says.
import { COLOURS, lineChart, withRoom } from "./charts.js";
import { choice, figure, grid, h, note, paragraphs, section, table } from "./elements.js";
import { counted, fixed, listed } from "./numbers.js";
import { formalLanguagesSection } from "./formal_languages.js";
import { languageModelSections, perplexity, textVerdicts } from "./language_models.js";
import { groupRuns, lengthRows, runsOf, trainingLength, unique } from "./runs.js";
import { accuracyChart } from "./state_tracking.js";
import { median } from "./statistics.js";
import { trainingSection } from "./training.js";

const GROUPS = ["S3", "S4", "A5", "S5"];
const ENOUGH = 0.9;  // share of answers right at a position, from which on it counts as learnt

const factors = (run) => run.settings.model.num_householder, layers = (run) => run.settings.model.num_hidden_layers;
const tokens = (run) => run.settings.task.tokens_per_element;
const named = (prefix) => ({ file }) => file.startsWith(`state-tracking/results/${prefix}`);

// Figures of the paper on state tracking, and what it says of each group: with which value of `of` a model suffices.
export const FIGURES = [
  { title: "One layer, eigenvalues in [-1,1]: n_h factors per token", of: factors, symbol: "n_h", groups: GROUPS,
    includes: named("grid-"), paper: { S3: "2", S4: "2", A5: "2", S5: "4" } },
  { title: "One factor per token, eigenvalues in [-1,1]: several layers", of: layers, symbol: "layers", groups: GROUPS,
    includes: (result) => named("layers-")(result) || named("grid-")(result), chosen: (run) => factors(run) === 1,
    paper: { S3: "3", S4: "6", A5: "3", S5: "none up to 10" } },
  { title: "One layer, eigenvalues in [0,1]", of: factors, symbol: "n_h", groups: GROUPS, includes: named("positive-"),
    paper: { S3: "none", S4: "none", A5: "none", S5: "none" } },
  { title: "Permutations that move at most m points", of: (run) => `${run.settings.task.max_moved}, ${factors(run)}`, symbol: "m, n_h", groups: ["S5"], includes: named("moved-"),
    paper: {} },
  { title: "One factor per token, k tokens per element", of: tokens, symbol: "k", groups: ["S3", "S4"], includes: named("tokens-"),
    paper: {} },
  { title: "Small models, curricula over lengths and elements", of: (run) => `n_h ${factors(run)}, ${layers(run)} layer${layers(run) > 1 ? "s" : ""}, ` +
    `${run.settings.model.allow_neg_eigval ? "[-1,1]" : "[0,1]"}`, symbol: "model", groups: GROUPS,
    includes: ({ file }) => /^state-tracking\/results\/(s3|s3-positive|s4|a5|s5)\.json$/.test(file), paper: {} },
];

export const figureRuns = (results, { includes, chosen = () => true }) =>
  results.filter(includes).flatMap((result) => result.runs).filter((run) => run.kind === "word-problem" && chosen(run));

// The share of answers right at a position, or where only that is known of all answers up to it, the median over runs; null: not measured.
function answersAt(runs, position) {
  const values = runs.map((run) => run.evaluation.by_position?.token_accuracy[position - 1] ??
    lengthRows(run).find((row) => row.length === position)?.token_accuracy).filter(Number.isFinite);
  return values.length ? median(values) : null;
}

// By value of `of`: {value, seeds, trained, longest}.
export function trackingOutcomes(runs, of) {
  return unique(runs.map((run) => String(of(run)))).map((value) => {
    const own = runs.filter((run) => String(of(run)) === value), length = trainingLength(own[0]);
    return { value, seeds: own.length, trained: answersAt(own, length), longest: answersAt(own, 4 * length) };
  });
}

const suffices = (found, field) => {
  const enough = found.filter((it) => it[field] !== null && it[field] >= ENOUGH);
  return enough.length ? enough[0].value : found.length ? "none" : null;
};

function trackingTable({ of, symbol, groups, paper }, runs) {
  const rows = groups.map((name) => ({ name, found: trackingOutcomes(runs.filter((run) => run.task === name), of) }));
  const shares = (field) => ({ found }) => found.length ? listed(found.map((it) =>
    `${it.value}: ${it[field] === null ? "–" : fixed(it[field])}`)) : "not yet run";
  return table([
    { head: "group", cell: ({ name }) => name },
    { head: `${symbol} that suffices, paper`, cell: ({ name }) => paper[name] ?? null },
    { head: "here, at the training length", cell: ({ found }) => suffices(found, "trained") },
    { head: "here, at four times that", cell: ({ found }) => suffices(found, "longest") },
    { head: `answers right at the training length by ${symbol}`, cell: shares("trained") },
    { head: "and at four times that", cell: shares("longest") },
    { head: "runs", cell: ({ found }) => found.reduce((sum, it) => sum + it.seeds, 0), number: true },
  ], rows);
}

function trackingFigure(plan, results) {
  const runs = figureRuns(results, plan), found = groupRuns(runs, "word-problem");
  const settings = (chosen) => ({ answers: chosen.share !== "sequences", log: chosen.length === "log" });
  const panel = (name) => {
    const group = found.find((it) => it.name === name);
    return group ? figure((chosen) => accuracyChart(group, settings(chosen)), ["share", "length"]) :
      h("div", { class: "chart" }, h("p", null, h("b", null, name)), note("Not yet run."));
  };
  return [h("h3", null, plan.title), grid(plan.groups.map(panel), "panels"), trackingTable(plan, runs)];
}

function trackingSection(results) {
  const shown = FIGURES.filter((plan) => figureRuns(results, plan).length);
  return shown.length === 0 ? null : section("State tracking",
    h("form", { class: "choices" }, choice("share", "Share of", [["answers", "answers"], ["sequences", "sequences"]]),
      choice("length", "Length axis", [["linear", "linear"], ["log", "logarithmic"]])),
    shown.map((plan) => trackingFigure(plan, results)),
    note("Thin lines are single seeds and the thick line is their median (for two seeds, their mean). A value suffices if the median over " +
      `seeds of the share of answers right at that position is at least ${ENOUGH}; of runs that were only measured at some lengths, shown as ` +
      "points, of all answers up to there. The same recipe for every model of a group; experiments/state-tracking/README.md has them."),
    FIGURES.length > shown.length ? note(`Not yet run: ${FIGURES.filter((plan) => !shown.includes(plan)).map((plan) =>
      plan.title.toLowerCase()).join("; ")}.`) : null);
}

function filesTable(results) {
  return table([
    { head: "file", cell: ({ file }) => file },
    { head: "runs", cell: ({ runs }) => runs.length, number: true },
    { head: "commits", cell: ({ commit, runs }) => unique(runs.map((run) => (run.commit ?? commit).slice(0, 10))).join(", ") || null },
    { head: "tokens", cell: ({ runs }) => runs.reduce((sum, run) => sum + run.training.tokens, 0).toLocaleString("en-US"),
      number: true },
  ], results);
}

// Perplexity against size, of the sweeps scaling-*.json: models of one size differ in how parameters were matched.
export function scalingChart(results) {
  const runs = results.filter(({ file }) => file.startsWith("language/results/scaling-")).flatMap((result) => result.runs)
    .filter((run) => Number.isFinite(perplexity(run)));
  if (!runs.length) return null;
  const full = Math.max(...runs.map((run) => run.settings.model.head_dim));
  const label = (run) => (factors(run) === 1 ? "n_h = 1" :
    `n_h = ${factors(run)}, ${run.settings.model.head_dim === full ? "fewer heads" : "smaller heads"}`);
  // A size is about the same for all; where seeds are several, a point is their median.
  const line = (own) => unique(own.map((run) => run.parameters)).map((size) =>
    ({ x: size, y: median(own.filter((run) => run.parameters === size).map(perplexity)) }));
  const labels = unique(runs.map(label));
  const series = labels.map((name, i) => ({ label: name, colour: COLOURS[i % COLOURS.length], runs: [line(runs.filter((run) => label(run) === name))] }));
  return lineChart({ title: "Perplexity against size", subtitle: "validation text; medians over seeds",
    description: "Validation perplexity against the number of parameters, by factors per token and by how parameters were matched",
    x: { title: "parameters", count: true }, y: { domain: withRoom(series.flatMap((it) => it.runs[0].map((point) => point.y))) },
    points: true, series });
}

// Of formal languages, the runs with chosen settings where there are some; those that settings were chosen by are no part of the table.
export function tableRuns(results) {
  const of = (name) => results.find(({ file }) => file === `chomsky/results/${name}.json`)?.runs;
  return of("table-seeds") ?? of("table") ?? [];
}

export function experimentsPage(data) {
  const { results } = data, runs = results.flatMap((result) => result.runs);
  const words = groupRuns(runs, "word-problem"), languages = groupRuns(tableRuns(results), "formal-language");
  const texts = groupRuns(results.filter(({ file }) => !file.startsWith("language/results/scaling-")).flatMap((result) => result.runs), "text");
  const scaling = scalingChart(results);
  const title = "the paper’s experiments";
  return {
    title,
    body: [
      h("h1", null, `The paper’s experiments: ${counted(runs.length, "run")}`),
      texts.length ? paragraphs(texts.flatMap(textVerdicts)) : null,
      data.problems.length ? h("ul", { class: "problems" }, data.problems.map((line) => h("li", null, `Left out: ${line}`))) : null,
      trackingSection(results),
      languages.length ? formalLanguagesSection(languages, { everyRow: true }) : null,
      texts.length ? languageModelSections(texts, () => "#files") : null,
      scaling ? section("Scaling", grid([figure(scaling)], "pairs")) : null,
      words.length ? trainingSection(figureGroups(results)) : null,
      h("section", { id: "files" }, h("h2", null, "Files"), filesTable(results),
        note("Each was written by ./dp report --export json from the runs of a sweep, whose settings are in the file beside the folder.")),
    ],
  };
}

// Training curves of the main figure alone: one chart of each kind for every group.
const figureGroups = (results) =>
  groupRuns(figureRuns(results, FIGURES[0]), "word-problem").filter((group) => runsOf(group).length);
