// Language models: a table, loss in training and by position, effective ranks, and what became of them beyond the training length.
import { lineChart, withRoom } from "./charts.js";
import { choice, figure, grid, h, note, section, table } from "./elements.js";
import { duration, fixed, percent, shortCount, times } from "./numbers.js";
import { commonWidth, lengthRows, runLabel, runsOf, trainedLengths, trainingLength, trainingLine, unique } from "./runs.js";
import { deviation, mean, seedInterval, shareInterval } from "./statistics.js";

const MOST_DOCUMENTS = 40;  // more rules are a grey veil
const finite = (value) => value !== null && value !== undefined && Number.isFinite(value);

// Validation losses in training, at the training length.
const validation = (run) => run.training.evaluations.flatMap(({ tokens, lengths }) =>
  lengths.filter((row) => row.length === trainingLength(run) && finite(row.loss)).map((row) => ({ x: tokens, y: row.loss })));
export const perplexity = (run) => run.evaluation?.perplexity ??
  (validation(run).length ? Math.exp(validation(run).at(-1).y) : null);
const measuredOn = (run) =>
  (finite(run.evaluation?.perplexity) ? `on ${run.evaluation.data || "unknown data"}` : validation(run).length ?
    "on validation data during training" : "");
const testedLengths = (run) => (run.evaluation ? lengthRows(run).filter((row) => finite(row.loss)) : []);
const lossAt = (run, length) => testedLengths(run).find((row) => row.length === length)?.loss ?? null;

// From the training length to the longest that was tested: {from, to, first, last}, losses there; null: not measured.
export function lossChange(run) {
  const from = trainingLength(run), first = lossAt(run, from), last = testedLengths(run).at(-1);
  return first === null || last.length <= from ? null : { from, to: last.length, first, last: last.loss };
}

const ranksOf = (run) =>
  (run.evaluation?.effective_rank?.layers.some((heads) => heads.length) ? run.evaluation.effective_rank : null);
// At each position the mean over heads, of one layer or of all.
function meanRank(ranks, layer = null) {
  const heads = layer === null ? ranks.layers.flat() : ranks.layers[layer];
  return ranks.positions.map((_, i) => {
    const known = heads.map((head) => head[i]).filter(finite);
    return known.length ? mean(known) : null;
  });
}
// The mean over all heads: in the second half of the training length, and in the last quarter of the text.
export function rankChange(run) {
  const ranks = ranksOf(run), trained = trainingLength(run), length = ranks?.positions.at(-1);
  if (!ranks || length <= trained) return null;
  const means = meanRank(ranks);
  const between = (begin, end) => {
    const known = means.filter((value, i) => ranks.positions[i] > begin && ranks.positions[i] <= end && value !== null);
    return known.length ? mean(known) : null;
  };
  const first = between(trained / 2, trained), last = between(Math.max(trained, 0.75 * length), length);
  return first === null || last === null ? null : { length, first, last };
}

// --- words

// Values of each configuration's runs, the smallest mean first.
const measure = (group, valueOf) =>
  group.configurations.map(({ label, runs }) => ({ label, values: runs.map(valueOf).filter(finite) }))
  .filter((it) => it.values.length).sort((a, b) => mean(a.values) - mean(b.values));
const ofSeeds = (values, decimals) =>
  (values.length < 2 ? "" : ` (mean of ${values.length} seeds, standard deviation ${fixed(deviation(values), decimals)})`);

function perplexitySentence(group, where) {
  const all = measure(group, (run) => (measuredOn(run) === where ? perplexity(run) : null));
  const value = ({ values }) => fixed(mean(values), 2) + ofSeeds(values, 2);
  if (all.length === 1) return `${all[0].label} has a perplexity of ${value(all[0])} ${where}.`;
  const others = all.slice(1).map((it) => `${it.label} ${value(it)}`).join("; ");
  return `${all[0].label} has the lowest perplexity ${where}, ${value(all[0])}; ${others}.`;
}

// Runs are compared only if they were measured on the same data and trained on the same length.
function comparisons(group, has) {
  const terms = unique(runsOf(group).filter(has).map((run) => JSON.stringify([run.evaluation.data, trainingLength(run)]))).map(
    (it) => JSON.parse(it));
  return terms.map(([data, trained]) =>
    ({ data, trained, includes: (run) => Boolean(has(run)) && run.evaluation.data === data && trainingLength(run) === trained }));
}

function lossSentence(group, { data, trained, includes }) {
  const runs = runsOf(group).filter(includes);
  const to = unique(runs.flatMap((run) => testedLengths(run).map((row) => row.length))).reverse().find((length) =>
    length > trained && runs.every((run) => lossAt(run, length) !== null));
  if (!to) return null;
  let last = "";
  const parts = measure(group,
    (run) => (includes(run) ? lossAt(run, to) - lossAt(run, trained) : null)).map(({ label, values }) => {
      const rise = mean(values), small = Math.abs(rise) < 0.005, verb = small ? "changes" : rise > 0 ? "rises" : "falls";
      const size = small ? "less than 0.01" : fixed(Math.abs(rise), 2);
      const text = `${label} ${verb === last ? "" : `${verb} `}by ${size}${ofSeeds(values, 2)}`;
      last = verb;
      return text;
    });
  return `${data ? `On ${data}, from` : "From"} ${trained} tokens, the training length, to ${to}, ${times(to / trained)} that, ` +
    `the loss of ${parts.join(", that of ")}.`;
}

function rankSentence(group, { includes }) {
  const lines = group.configurations.map(({ label, runs }) =>
    ({ label, changes: runs.filter(includes).map(rankChange) })).filter((it) => it.changes.length)
    .map(({ label, changes }) =>
      ({ label, changes, first: mean(changes.map((it) => it.first)), last: mean(changes.map((it) => it.last)),
          rise: 100 * (mean(changes.map((it) => it.last / it.first)) - 1) }))
    .sort((a, b) => a.rise - b.rise);
  const longest = Math.max(...lines.flatMap(({ changes }) => changes.map((it) => it.length)));
  const text = lines.map(({ label, changes, first, last, rise }, i) =>
    `${label} ${i === 0 ? "goes from" : "from"} ${fixed(first, 1)} to ${fixed(last, 1)} ` +
    `(${Math.round(rise) > 0 ? "+" : ""}${fixed(Math.round(rise), 0)}%` +
    `${changes.length > 1 ? `, mean of ${changes.length} seeds` : ""})`);
  return `Between the end of the training length and the end of a text of ${longest} tokens, the mean effective rank of the ` +
    `states of ${text.join(", that of ")}.`;
}

export function textVerdicts(group) {
  const sentences = [
    ...unique(runsOf(group).filter((run) => perplexity(run) !== null).map(measuredOn)).map((where) =>
      perplexitySentence(group, where)),
    ...comparisons(group, lossChange).map((terms) => lossSentence(group, terms)).filter(Boolean),
    ...comparisons(group, rankChange).map((terms) => rankSentence(group, terms))];
  if (!sentences.length) return [`Trained on ${group.name}: no run has been evaluated.`];
  return [`Trained on ${group.name}: ${sentences[0]}`, ...sentences.slice(1)];
}

// --- table

const fileName = (file) => file.replace(/^.*\//, "").replace(/\..*$/, "");

function questionColumns(runs, kind) {
  return [...new Set(runs.flatMap((run) => run.evaluation?.[kind] ?? []).map((it) => it.file))].map((file) =>
    ({ head: fileName(file), number: true, better: -1, cell: ({ run }) => {
      const it = run.evaluation?.[kind]?.find((row) => row.file === file);
      if (!it) return null;
      const interval = shareInterval(it.accuracy, it.items);
      return { text: percent(it.accuracy), value: it.accuracy, title: `${file}, ${it.items} items`,
             small: [`95% CI ${percent(interval[0])} to ${percent(interval[1])}`,
               finite(it.accuracy_normalised) && `${percent(it.accuracy_normalised)} per character`,
               finite(it.perplexity) && `perplexity ${Number(it.perplexity.toPrecision(4))}`].filter(Boolean).join("; ") };
    } }));
}

// Where a length is the same for all, the head says it.
function lossColumn(runs, what, find) {
  const lengths = unique(runs.map(find).filter(Boolean).map((it) => it.length)), same = lengths.length === 1;
  return { head: `loss at ${same ? lengths[0] : what}`, number: true,
    cell: ({ run }) => {
      const it = find(run);
      return it && { text: fixed(it.loss), value: it.loss, small: same ? null : `at ${it.length}` };
    } };
}

const COLUMNS = (runs) => [
  { head: "parameters", number: true, cell: ({ run }) => ({ text: shortCount(run.parameters), value: run.parameters }) },
  { head: "tokens trained on", number: true,
    cell: ({ run: { training, settings } }) => ({ text: shortCount(training.tokens), value: training.tokens,
    title: `${training.steps} of ${settings.training.steps} steps in ${duration(training.seconds)}`,
    small: training.steps < settings.training.steps ? percent(training.steps / settings.training.steps) : null }) },
  { head: "tokens per second", number: true, better: -1,
    cell: ({ run }) => run.training.tokens_per_second > 0 &&
      { text: run.training.tokens_per_second.toFixed(0), value: run.training.tokens_per_second } || null },
  { head: "perplexity", number: true, better: 1,
    cell: ({ run }) => perplexity(run) === null ? null :
      { text: fixed(perplexity(run), 2), value: perplexity(run), title: measuredOn(run),
    small: !finite(run.evaluation?.perplexity) ? "in training" : finite(run.evaluation.bits_per_byte) ?
      `${fixed(run.evaluation.bits_per_byte)} bits/byte` : null } },
  lossColumn(runs, "the training length",
    (run) => (lossAt(run, trainingLength(run)) === null ? null :
      { length: trainingLength(run), loss: lossAt(run, trainingLength(run)) })),
  lossColumn(runs, "the longest", (run) => testedLengths(run).at(-1)),
  { head: "difference", number: true, better: 1,
    cell: ({ run }) => {
      const it = lossChange(run);
      return it && { text: (it.last > it.first ? "+" : "") + fixed(it.last - it.first), value: it.last - it.first };
    } },
  { head: "far less near, over texts", number: true,
    cell: ({ run }) => {
      const it = run.evaluation?.by_text?.far_minus_near;
      return it && { text: (it.mean > 0 ? "+" : "") + fixed(it.mean), value: it.mean, small: `95% CI ${fixed(it.low)} to ${fixed(it.high)}`,
        title: "the loss at the longest positions less that at the training length, bootstrap over texts" };
    } },
  { head: "effective rank", number: true,
    cell: ({ run }) => {
      const it = rankChange(run);
      return it && { text: `${fixed(it.first, 1)} → ${fixed(it.last, 1)}`, value: it.last - it.first,
        title: `in the second half of the training length, and in the last quarter of ${it.length} tokens` };
    } },
  ...questionColumns(runs, "choices"), ...questionColumns(runs, "last_word"),
];

export function textTable(groups, anchor) {
  const rows = groups.flatMap((group) =>
    group.configurations.flatMap((configuration) => configuration.runs.map((run) => ({ group, configuration, run }))));
  // Best among the runs of the same data, and only if there is another to compare with.
  const best = (column) => (row) => {
    const cell = column.cell(row);
    if (!column.better || !cell) return cell;
    const others = rows.filter((it) => it !== row &&
      it.run.task === row.run.task &&
        (it.run.evaluation?.data ?? "") === (row.run.evaluation?.data ?? "")).map(column.cell).filter(Boolean);
    return { ...cell, bold: others.length > 0 && others.every((other) => column.better * (other.value - cell.value) >= 0) };
  };
  return table([
    { head: "model", cell: ({ configuration, run }) =>
      ({ text: runLabel(configuration, run), swatch: configuration.colour, href: anchor(run), title: run.name }) },
    ...(groups.length > 1 ? [{ head: "trained on", cell: ({ run }) => run.task }] : []),
    ...COLUMNS(rows.map((row) => row.run)).map((column) => ({ ...column, cell: best(column) })),
  ], rows, "models");
}

function seedsTable(groups) {
  const rows = groups.flatMap((group) =>
    group.configurations.filter((it) => it.runs.length > 1).map((configuration) => ({ group, configuration })));
  const over = (valueOf, decimals) => ({ configuration }) => {
    const values = configuration.runs.map(valueOf).filter(finite), interval = seedInterval(values);
    return interval && { text: `${fixed(mean(values), decimals)} ± ${fixed(deviation(values), decimals)}`, value: mean(values),
      small: `95% CI ${fixed(interval[0], decimals)} to ${fixed(interval[1], decimals)}` };
  };
  if (!rows.length) return null;
  return [h("h3", null, "Over seeds"), table([
    { head: "model", cell: ({ configuration }) => ({ text: configuration.label, swatch: configuration.colour }) },
    { head: "seeds", cell: ({ configuration }) => configuration.runs.length, number: true },
    { head: "perplexity", cell: over(perplexity, 2), number: true },
    { head: "loss difference beyond the training length",
      cell: over((run) => { const it = lossChange(run); return it && it.last - it.first; }, 3), number: true },
  ], rows), note("Mean ± standard deviation, with a 95% confidence interval of the mean (Student’s t).")];
}

// --- charts

// The fall at the beginning would leave no room for the differences that count: the axis ends at the highest value after a tenth of the
// training.
export function textTrainingChart(group) {
  const begun = runsOf(group).filter((run) => run.training.curve.step.length > 0);  // others were stored without their curve
  if (!begun.length) return null;
  const width = commonWidth(begun, 96), tokens = Math.max(...begun.map((run) => run.training.tokens));
  const series = group.configurations.map(({ label, colour, runs }) =>
    ({ label, colour, runs: runs.map((run) => trainingLine(run, "loss", width, { x: "tokens" })),
        marks: runs.flatMap(validation) }));
  const all = series.flatMap((it) => [...it.runs.flat(), ...it.marks]), low = Math.min(...all.map((it) => it.y));
  const late = all.filter((it) => it.x >= tokens / 10).map((it) => it.y);
  return lineChart({ title: "Training loss",
      subtitle: `${group.name}${series.some((it) => it.marks.length) ? "; points: validation" : ""}`,
      description: `Training on ${group.name}: loss against tokens`,
      x: { title: "tokens", count: true }, y: { domain: withRoom([low, ...late]) }, holdLast: true, series });
}

function lossLine(run) {
  const curve = run.evaluation?.by_position;
  return (curve ? curve.positions.map((x, i) => ({ x, y: curve.loss[i] })) :
    testedLengths(run).map((row) => ({ x: row.length, y: row.loss }))).filter(({ x, y }) => x >= 1 && finite(y));
}

const firstPosition = (series) =>
  Math.max(1, Math.min(...series.flatMap(({ runs }) => runs.filter((line) => line.length).map((line) => line[0].x))));

export function positionChart(group, data, log) {
  const measured = (run) => (run.evaluation?.data ?? "") === data && lossLine(run).length > 0;
  const runs = runsOf(group).filter(measured);
  const window = Math.max(...runs.map((run) => run.evaluation.by_position?.window ?? 0));
  const series = group.configurations.map((it) =>
    ({ label: it.label, colour: it.colour, runs: it.runs.filter(measured).map(lossLine) })).filter((it) => it.runs.length);
  return lineChart({ title: "Loss by position",
      subtitle: `${data || "unknown data"}${window > 1 ? `; moving average over ${window} positions` : ""}`,
      description: `Loss on ${data} against the position in a long text`,
      x: { title: "position", log, first: log ? firstPosition(series) : 0 },
      y: { domain: withRoom(series.flatMap((it) => it.runs.flat().map((point) => point.y))) },
      trained: trainedLengths(runs), points: runs.some((run) => !run.evaluation.by_position), series });
}

const rankLine = (ranks, values) => ranks.positions.map((x, i) => ({ x, y: values[i] })).filter(({ y }) => finite(y));
// The lines that are thin: heads of a layer, or means of layers.
const rankParts = (ranks, layer) =>
  (layer === null ? ranks.layers.map((heads, i) => (heads.length ? rankLine(ranks, meanRank(ranks, i)) : [])).filter((it) =>
      it.length) : ranks.layers[layer].map((head) => rankLine(ranks, head)));

// All models together, or one run with the parts of its mean; all charts of a group have the same axis, so that models can be compared.
export function rankChart(group, choices, one = null) {
  const runs = runsOf(group).filter(ranksOf), log = choices.position !== "linear", chosen = Number(choices.layer ?? NaN);
  const layerOf = (run) => (Number.isInteger(chosen) && chosen < ranksOf(run).layers.length ? chosen : null);
  const layer = layerOf(one?.run ?? runs[0]);
  const highest = Math.max(1, ...runs.flatMap((run) => rankParts(ranksOf(run), layerOf(run)).flat().map((point) => point.y)));
  const series = one ? [{ label: one.configuration.label, colour: one.configuration.colour,
      runs: rankParts(ranksOf(one.run), layer) }]
    : group.configurations.map((it) =>
      ({ label: it.label, colour: it.colour,
          runs: it.runs.filter(ranksOf).map((run) => rankLine(ranksOf(run), meanRank(ranksOf(run), layerOf(run)))) })).filter(
            (it) => it.runs.length);
  const where = layer === null ? "all layers" : `layer ${layer}`;
  const documents = one ? ranksOf(one.run).documents : [];
  const subtitle = !one ? `mean effective rank of the heads of ${where}` : layer === null ?
    "effective rank: layers thin, their mean thick" : `effective rank in layer ${layer}: heads thin, their mean thick`;
  return lineChart({ title: one ? runLabel(one.configuration, one.run) : "All models", subtitle,
      description: `Effective rank of the states against the position: ${subtitle}`,
      x: { title: "position", log, first: log ? firstPosition(series) : 0 },
      y: { domain: [0, Number((1.05 * highest).toPrecision(5))] }, trained: trainedLengths(one ? [one.run] : runs),
      documents: documents.length <= MOST_DOCUMENTS ? documents : [], middle: mean, legend: !one, series });
}

// --- where documents meet

const boundaries = (run) => run.evaluation?.boundary_ranks ?? null;

// A row per model: what becomes of its heads' ranks when a new document begins.
export function boundaryTable(groups) {
  const rows = groups.flatMap((group) => group.configurations.flatMap((configuration) =>
    configuration.runs.filter(boundaries).map((run) => ({ configuration, run, heads: boundaries(run).layers.flat() }))));
  const meanOf = (field) => ({ heads }) => fixed(mean(heads.map((head) => head[field])), 2);
  const share = (test) => ({ heads }) => ({ text: `${heads.filter(test).length} of ${heads.length}`,
    value: heads.filter(test).length / heads.length });
  return table([
    { head: "model", cell: ({ configuration, run }) => ({ text: runLabel(configuration, run), swatch: configuration.colour }) },
    { head: "boundaries", cell: ({ run }) => boundaries(run).documents - 1, number: true },
    { head: "rank before", cell: meanOf("before"), number: true },
    { head: "rank after BOS", cell: meanOf("after"), number: true },
    { head: "heads that fall", cell: share((head) => head.high < 0), number: true },
    { head: "by half or more", cell: share((head) => head.high < 0 && head.after <= head.before / 2), number: true },
    { head: "heads that rise", cell: share((head) => head.low > 0), number: true },
  ], rows);
}

// --- sections

export function languageModelSections(groups, anchor) {
  const runs = groups.flatMap(runsOf), withRanks = groups.filter((group) => runsOf(group).some(ranksOf));
  const layers = Math.max(0, ...runs.filter(ranksOf).map((run) => ranksOf(run).layers.length));
  const several = groups.some((group) => group.configurations.some((it) => it.runs.length > 1));
  const positions = groups.map((group) =>
    unique(runsOf(group).filter((run) => lossLine(run).length).map((run) => run.evaluation.data)).map((data) =>
      ({ group, data }))).flat();
  const beyond = positions.length > 0;
  const training = groups.map((group) => ({ group, chart: textTrainingChart(group) }));
  const asked = runs.some((run) => run.evaluation?.choices?.length || run.evaluation?.last_word?.length);
  return [
    section("Models", textTable(groups, anchor),
      note("Loss is in nats per token.", runs.some(lossChange) && "The loss at a length is the mean over the positions up to " +
        "it and beyond the length before; the difference is between the training length and the longest. With more text before " +
        "it a token is easier to predict, so the loss of a model that copes with long texts falls.",
        runs.length > 1 && "The best value is bold where models were measured on the same data.",
        "Names lead to the settings. Tokens per second are those of training.",
        runs.some(rankChange) && "The effective rank is the mean over all heads, in the second half of the training length and " +
          "in the last quarter of the text.",
        asked && "Accuracies on questions have binomial 95% intervals (Wilson); “per character” chooses by likelihood per " +
          "character."),
      seedsTable(groups)),
    section(beyond ? "Training, and beyond the training length" : "Training",
      beyond ? h("form", { class: "choices" },
        choice("position", "Position axis", [["log", "logarithmic"], ["linear", "linear"]])) : null,
      grid([...training.filter((it) => it.chart).map(({ chart }) => figure(chart)),
          ...positions.map(({ group, data }) =>
            figure((choices) => positionChart(group, data, choices.position !== "linear"), ["position"]))], "pairs"),
      note("Training loss is the mean over neighbouring steps; its axis leaves out the first tenth of training where that is " +
        "higher.", several && "Thin lines are single seeds and the thick line is their median (for two seeds, their mean).")),
    withRanks.length ? section("Effective rank of the states",
      h("form", { class: "choices" },
        choice("layer", "Layer", [["all", "all"], ...Array.from({ length: layers }, (_, i) => [String(i), String(i)])])),
      withRanks.map((group) => grid([
        runsOf(group).filter(ranksOf).length > 1 && figure((choices) => rankChart(group, choices), ["layer", "position"]),
        ...group.configurations.flatMap((configuration) =>
          configuration.runs.filter(ranksOf).map((run) =>
            figure((choices) => rankChart(group, choices, { configuration, run }), ["layer", "position"])))])),
      note("The effective rank, exp of the entropy of the normalised singular values, counts how many directions of a head’s " +
        "state are in use while a long text is read.",
        runs.some((run) => ranksOf(run)?.documents.length && ranksOf(run).documents.length <= MOST_DOCUMENTS) &&
          "Faint upright lines are ends of documents.",
        "All charts have the same vertical axis. The paper explains losses that rise beyond the training length by ranks that " +
        "climb there: the model reaches states that it has not learnt to read.")) : null,
    runs.some(boundaries) ? section("Effective rank where documents meet", boundaryTable(groups),
      note("Short excerpts, each after a BOS, are read as one text. Before is the end of an excerpt, after are the first tokens of the " +
        "next; a head falls or rises if the 95% interval of its mean change over boundaries lies on one side of 0. The paper found that " +
        "gated heads and some of DeltaProduct fall at BOS.")) : null,
  ];
}
