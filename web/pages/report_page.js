// The page of dp report about training runs.
import { h, note, paragraphs, section, table } from "./elements.js";
import { counted, duration, fixed, listed, shortCount } from "./numbers.js";
import { formalLanguagesSection, languageVerdict } from "./formal_languages.js";
import { languageModelSections, textVerdicts } from "./language_models.js";
import { groupRuns, lengthRows, longestLength, meanScaledAccuracy, seedOf, sequenceAccuracy, testedSequences,
  trainingLength } from "./runs.js";
import { accuracyVerdict, stateTrackingSection } from "./state_tracking.js";
import { shareInterval } from "./statistics.js";
import { trainingSection } from "./training.js";

// The directory that all runs are below, with the slash at its end; empty: none, or only one run.
function commonDirectory(runs) {
  if (runs.length < 2) return "";
  let common = runs[0].name;
  for (const { name } of runs) while (!name.startsWith(common)) common = common.slice(0, -1);
  return common.slice(0, common.lastIndexOf("/") + 1);
}

function runsTable(runs, nameOf, anchor) {
  const accuracyAt = (lengthOf, sayLength) => (run) => {
    const length = lengthOf(run), accuracy = length > 0 ? sequenceAccuracy(run, length) : null;
    if (accuracy === null || run.kind !== "word-problem") return null;
    const interval = testedSequences(run) > 0 ? shareInterval(accuracy, testedSequences(run)) : null;
    return { text: fixed(accuracy) + (sayLength ? ` at ${length}` : ""), value: accuracy,
      small: interval && `${fixed(interval[0])} to ${fixed(interval[1])}` };
  };
  return table([
    { head: "run", cell: (run) => ({ text: nameOf(run), href: anchor(run) }) },
    { head: "task", cell: (run) => run.task },
    { head: "model", cell: (run) => run.model, nowrap: true },
    { head: "layers", cell: (run) => run.settings.model.num_hidden_layers, number: true },
    { head: "seed", cell: seedOf, number: true },
    { head: "parameters", cell: (run) => ({ text: shortCount(run.parameters), value: run.parameters }), number: true },
    { head: "steps", cell: ({ training, settings }) =>
      ({ text: training.steps === settings.training.steps ? String(training.steps) :
          `${training.steps} of ${settings.training.steps}`, value: training.steps }), number: true },
    { head: "time", cell: ({ training }) => training.seconds > 0 ?
      { text: duration(training.seconds), value: training.seconds } : null, number: true },
    { head: "training length", cell: trainingLength, number: true },
    { head: "sequences right there", cell: accuracyAt(trainingLength, false), number: true },
    { head: "and at the longest", cell: accuracyAt(longestLength, true), number: true },
    { head: "scaled accuracy",
      cell: (run) => meanScaledAccuracy(run) === null ? null :
        { text: fixed(meanScaledAccuracy(run)), value: meanScaledAccuracy(run) }, number: true },
    { head: "measured on", cell: (run) => (run.evaluation ? "test" : lengthRows(run).length ? "validation" : null) },
  ], runs, "runs");
}

const settingsOf = (run, name, id) => h("details", { id }, h("summary", null, name),
  run.command ? h("pre", { class: "command" }, run.command) : null, h("pre", null, JSON.stringify(run.settings, null, 2)));

function problemList(data) {
  const lines = [...data.problems.map((problem) => `Left out: ${problem}`), ...data.runs.flatMap((run) => [
    run.training.broken_lines > 0 && `${run.name}/metrics.jsonl: ${counted(run.training.broken_lines, "line")} could not be read`,
    run.problem && `Left out: ${run.problem}`])].filter(Boolean);
  return lines.length ? h("ul", { class: "problems" }, lines.map((line) => h("li", null, line))) : null;
}

// "Word problems of S3 and S4", "Formal languages: parity", "Language models trained on data/corpus"
function subjects(words, languages, texts) {
  const names = (groups) => (groups.length > 4 ? `${groups.length} tasks` : listed(groups.map((group) => group.name)));
  return [
    words.length && `word problem${words.length > 1 ? "s" : ""} of ${names(words).replace(/ tasks$/, " groups")}`,
    languages.length && `formal languages (${names(languages)})`,
    texts.length && `language models trained on ${names(texts).replace(/ tasks$/, " datasets")}`].filter(Boolean);
}

export function reportPage(data) {
  const { runs } = data, words = groupRuns(runs, "word-problem"), languages = groupRuns(runs, "formal-language");
  const texts = groupRuns(runs, "text");
  const place = commonDirectory(runs), nameOf = (run) => run.name.slice(place.length);
  const anchor = (run) => `#run-${runs.indexOf(run)}`;
  const subject = subjects(words, languages, texts).join(", "), answered = runs.filter((run) => run.kind !== "text");
  const commands = runs.some((run) => run.command);
  return {
    title: subject,
    body: [
      h("h1", null, `${subject[0].toUpperCase()}${subject.slice(1)}: ${counted(runs.length, "run")}`),
      paragraphs([...words.map(accuracyVerdict), ...languages.map(languageVerdict), ...texts.flatMap(textVerdicts)]),
      problemList(data),
      texts.length ? languageModelSections(texts, anchor) : null,
      languages.length ? formalLanguagesSection(languages) : null,
      words.length ? stateTrackingSection(words) : null,
      trainingSection([...words, ...languages]),
      answered.length ? section("Runs", place ? note(`Directories below ${place}`) : null, runsTable(answered, nameOf, anchor),
        answered.some((run) => run.kind === "word-problem" && lengthRows(run).length && testedSequences(run) > 0) ?
          note("Small figures are binomial 95% intervals (Wilson) for the number of sequences tested.") : null) : null,
      section(commands ? "Commands and settings" : "Settings",
        commands ? note("A command gives the same weights to the bit with the same number of threads.") : null,
        runs.map((run, i) => settingsOf(run, nameOf(run), `run-${i}`))),
    ],
  };
}
