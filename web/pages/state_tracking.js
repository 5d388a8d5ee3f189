// Word problems of groups: accuracy against length, as in the paper's figure.
import { lineChart } from "./charts.js";
import { choice, figure, grid, h, note, section, table } from "./elements.js";
import { fixed, percent, times } from "./numbers.js";
import { lengthRows, longestLength, runsOf, sequenceAccuracy, testedSequences, trainedLengths, trainingLength,
  unique } from "./runs.js";
import { deviation, mean, seedInterval, shareInterval } from "./statistics.js";

// Every position at first, then ever fewer; the training length and the last one among them.
export function samplePositions(count, trained) {
  const positions = new Set([count, ...(trained >= 1 && trained <= count ? [trained] : [])]);
  for (let p = 1; p < count; p += Math.max(1, Math.floor(p / 32))) positions.add(p);
  return [...positions].sort((a, b) => a - b);
}

function accuracyLine(run, answers) {
  const values = run.evaluation?.by_position?.[answers ? "token_accuracy" : "sequence_accuracy"];
  if (values?.length) return samplePositions(values.length, trainingLength(run)).map((p) => ({ x: p, y: values[p - 1] }));
  return lengthRows(run).map((row) => ({ x: row.length, y: answers ? row.token_accuracy : row.sequence_accuracy }));
}

export function accuracyChart(group, { answers = false, log = false } = {}) {
  const what = answers ? "answers right at this position" : "sequences right up to this length";
  return lineChart({
    title: group.name, subtitle: what, description: `Accuracy on ${group.name} against length: share of ${what}`,
    x: { title: "length", log }, y: { share: true }, trained: trainedLengths(runsOf(group)),
    points: runsOf(group).some((run) => !run.evaluation?.by_position && lengthRows(run).length),
    series: group.configurations.map(({ label, colour, runs }) =>
      ({ label, colour, runs: runs.map((run) => accuracyLine(run, answers)) })) });
}

// The longest length at which every evaluated run was measured; 0: none.
export function commonLength(group) {
  const evaluated = runsOf(group).filter((run) => longestLength(run) > 0);
  const candidates = unique(
    evaluated.flatMap((run) => [longestLength(run), trainingLength(run), ...lengthRows(run).map((row) => row.length)]));
  return candidates.reverse().find((length) => evaluated.every((run) => sequenceAccuracy(run, length) !== null)) ?? 0;
}

// Of each configuration that was measured at this length, the best first.
function outcomes(group, length) {
  return group.configurations.map(({ label, runs }) =>
    ({ label, accuracies: runs.map((run) => sequenceAccuracy(run, length)).filter((it) => it !== null) }))
    .filter((it) => it.accuracies.length).sort((a, b) => mean(b.accuracies) - mean(a.accuracies));
}

function compareWithTraining(group, length) {
  const trained = trainedLengths(runsOf(group));
  if (trained.length !== 1) return "";
  if (length === trained[0]) return ", the training length";
  return length < trained[0] ? `, shorter than the training length ${trained[0]}` :
    `, ${times(length / trained[0])} the training length`;
}

function shareOfSeeds(accuracies) {
  const middle = percent(mean(accuracies));
  if (accuracies.length === 1) return middle;
  return accuracies.every((it) => it === accuracies[0]) ? `${middle} (each of ${accuracies.length} seeds)`
    : `${middle} (mean of ${accuracies.length} seeds, standard deviation ${percent(deviation(accuracies))})`;
}

const outcomeSentence = (group, found, length) => found.map(({ label, accuracies }, i) =>
  `${label} gets ${shareOfSeeds(accuracies)}` +
  (i === 0 ? ` of sequences of length ${length} right${compareWithTraining(group, length)}` : "")).join("; ");

// "S3: n = 2 gets 99.2% of sequences of length 512 right, four times the training length; n = 1 gets 0%."
export function accuracyVerdict(group) {
  const length = commonLength(group), found = outcomes(group, length);
  if (!found.length) return `${group.name}: no run has been evaluated, or no two at the same length.`;
  const unknown = group.configurations.filter((it) => !found.some(({ label }) => label === it.label)).map((it) => it.label);
  const others = unknown.length ? `; not evaluated: ${unknown.join(", ")}` : "";
  let text = `${group.name}: ${outcomeSentence(group, found, length)}${others}.`;
  // Where all fail, there may still be a difference at the length that they were trained on.
  const trained = trainingLength(runsOf(group)[0]), there = outcomes(group, trained);
  if (mean(found[0].accuracies) === 0 && trained < length && there.length && mean(there[0].accuracies) > 0)
    text += ` At length ${trained}: ${outcomeSentence(group, there, trained)}.`;
  return text;
}

// Accuracies of runs that differ in their seed, with a 95 % interval.
export function accuracyCell(values, trials) {
  if (!values.length) return null;
  const interval = values.length > 1 ? seedInterval(values, [0, 1]) : trials > 0 ? shareInterval(values[0], trials) : null;
  return { text: values.length > 1 ? `${fixed(mean(values))} ± ${fixed(deviation(values))}` : fixed(values[0]),
    value: mean(values),
    small: interval && `95% CI ${fixed(interval[0])} to ${fixed(interval[1])}` };
}

function resultsTable(groups) {
  const rows = groups.flatMap((group) =>
    group.configurations.map((configuration) => ({ group, configuration, longest: commonLength(group) })));
  const at = (length) => ({ group, configuration, longest }) => {
    const where = length === "longest" ? longest : trainingLength(configuration.runs[0]);
    const measured = configuration.runs.filter((run) => where > 0 && sequenceAccuracy(run, where) !== null);
    const cell = accuracyCell(measured.map((run) => sequenceAccuracy(run, where)),
      measured.length === 1 ? testedSequences(measured[0]) : 0);
    return cell && { ...cell, text: `${cell.text} at ${where}` };
  };
  return table([
    { head: "task", cell: ({ group }) => group.name },
    { head: "model", cell: ({ configuration }) => ({ text: configuration.label, swatch: configuration.colour }) },
    { head: "seeds", cell: ({ configuration }) => configuration.runs.length, number: true },
    { head: "sequences right at the training length", cell: at("training"), number: true },
    { head: "sequences right at the longest common length", cell: at("longest"), number: true },
  ], rows, "results");
}

export function stateTrackingSection(groups) {
  const chosen = (settings) => ({ answers: settings.share === "answers", log: settings.length === "log" });
  const runs = groups.flatMap(runsOf), untested = runs.some((run) => !run.evaluation && lengthRows(run).length);
  const several = groups.some((group) => group.configurations.some((it) => it.runs.length > 1));
  const single = groups.flatMap((group) => group.configurations)
    .some((it) => it.runs.length === 1 && testedSequences(it.runs[0]) > 0);
  if (!runs.some((run) => longestLength(run) > 0)) return null;
  return section("Accuracy by length",
    h("form", { class: "choices" }, choice("share", "Share of", [["sequences", "sequences"], ["answers", "answers"]]),
      choice("length", "Length axis", [["linear", "linear"], ["log", "logarithmic"]])),
    grid(groups.map((group) => figure((settings) => accuracyChart(group, chosen(settings)), ["share", "length"])),
      groups.length >= 4 ? "panels" : ""),
    note("A sequence counts as right at a length if every answer up to there is right. n is the number of Householder factors " +
      "per token.",
      several && "Thin lines are single seeds and the thick line is their median (for two seeds, their mean).",
      untested && "Runs without an eval.json show the last evaluation during training, on validation sequences, as points; " +
        "there, “answers” are all answers up to the length."),
    resultsTable(groups),
    several || single ? note(
      several && "Mean ± standard deviation over seeds, with a 95% confidence interval of the mean (Student’s t).",
      single && "For a single run, the interval is the binomial one (Wilson) for the number of sequences tested.") : null);
}
