// Training runs: what tells them apart, and what was measured (web/README.md, "Runs").
import { COLOURS } from "./charts.js";

export const trainingLength = (run) => run.settings.training.length;
export const seedOf = (run) => run.settings.training.seed;
// delta_net and gated_deltanet, with fla's fields, have no head_dim.
export const headWidth = (model) => model.head_dim ?? model.expand_k * model.hidden_size / model.num_heads;

// What makes a run another configuration, in words, in an order that all runs share. Not the seed. The first three are model, layers
// and eigenvalues.
export function traits(run) {
  const { task, model, training } = run.settings, word = run.kind === "word-problem";
  const withOrNo = (there, what) => (there ? what : `no ${what}`);
  return [
    !word ? run.model : run.model_option === "deltaproduct" ? `n = ${model.num_householder}` : run.architecture,
    `${model.num_hidden_layers} layer${model.num_hidden_layers === 1 ? "" : "s"}`,
    !word ? "" : model.allow_neg_eigval ? "[-1,1]" : "[0,1]",
    training.curriculum_first_length > 0 ? `curriculum from ${training.curriculum_first_length}` : "no curriculum",
    training.curriculum_first_letters > 0 ?
      `elements from ${training.curriculum_first_letters}, moving ${task.most_moved_first ? "most" : "least"}` : "all elements",
    `trained on length ${training.length}`,
    task.max_moved > 0 ? `moves at most ${task.max_moved}` : "moves any number",
    `${task.tokens_per_element ?? 1} tokens per element`,
    task.answers === "every" || task.every_token ? "asked at every token" : "asked at the end",
    task.reset_at_documents ? "reset at documents" : "state kept between documents",
    `width ${model.hidden_size}`, `${model.num_heads} heads`, `heads of ${headWidth(model)}`, `MLP ${run.mlp_width}`,
    model.use_short_conv ? `convolution ${model.conv_size}` : "no convolution",
    withOrNo(model.use_forget_gate, "forget gate"), withOrNo(model.use_output_gate ?? model.use_gate, "output gate"),
    `lr ${training.learning_rate}`, `min lr ${training.min_learning_rate}`, `batch ${training.batch_size}`,
    `weight decay ${training.weight_decay}`,
    `${training.steps} steps`, `warm-up ${training.warmup_steps}`, `beta2 ${training.beta2}`,
    `label smoothing ${training.label_smoothing}`,
    `clip ${training.clip_norm}`, `curriculum loss ${training.curriculum_loss_below}`,
    `curriculum steps ${training.curriculum_most_steps}`,
    `initial deviation ${model.initializer_range}`,
  ];
}

// Model always; layers and eigenvalues where a task has several of these; of the rest, what is needed to tell configurations apart.
function traitsToShow(tasks, all) {
  const labels = (shown, run) => shown.map((i) => all.get(run)[i]).filter(Boolean).join(", ");
  const different = (shown) =>
    [...tasks.values()].reduce((sum, runs) => sum + new Set(runs.map((run) => labels(shown, run))).size, 0);
  let shown = [0, ...[1, 2].filter((trait) => different([trait]) > tasks.size)];
  const count = all.size ? [...all.values()][0].length : 0;
  for (let trait = 3; trait < count; ++trait)
    if (different([...shown, trait]) > different(shown)) shown.push(trait);
  return shown;
}

// Runs of one kind by task, and there by configuration: runs that differ in nothing but their seed. Returns
// [{name, configurations: [{label, colour, runs}]}]; a label has the same colour on the whole page.
export function groupRuns(runs, kind) {
  const key = (run) => [run.settings.model.num_householder, run.settings.model.num_hidden_layers,
    run.settings.model.allow_neg_eigval ? 0 : 1];
  const compare = (a, b) => {
    const [x, y] = [key(a), key(b)], i = x.findIndex((value, at) => value !== y[at]);
    return i < 0 ? a.model.localeCompare(b.model) || seedOf(a) - seedOf(b) : x[i] - y[i];
  };
  const tasks = new Map();
  for (const run of runs.filter((it) => it.kind === kind).sort(compare))
    tasks.set(run.task, [...(tasks.get(run.task) ?? []), run]);
  const all = new Map([...tasks.values()].flat().map((run) => [run, traits(run)])), shown = traitsToShow(tasks, all);
  const colours = new Map();
  return [...tasks].sort(([a], [b]) => a.localeCompare(b)).map(([name, members]) => {
    const configurations = new Map();
    for (const run of members) {
      const label = shown.map((i) => all.get(run)[i]).filter(Boolean).join(", ");
      if (!colours.has(label)) colours.set(label, COLOURS[colours.size % COLOURS.length]);
      if (!configurations.has(label)) configurations.set(label, { label, colour: colours.get(label), runs: [] });
      configurations.get(label).runs.push(run);
    }
    return { name, configurations: [...configurations.values()] };
  });
}

export const runsOf = (group) => group.configurations.flatMap((configuration) => configuration.runs);
export const unique = (values) => [...new Set(values)].sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
export const trainedLengths = (runs) => unique(runs.map(trainingLength));
// Where each run has its own line: its configuration's label, with the seed if there are several.
export const runLabel = (configuration, run) =>
  (configuration.runs.length === 1 ? configuration.label : `${configuration.label}, seed ${seedOf(run)}`);

// Accuracies at lengths, ascending: of eval.json, or else of the last evaluation in training.
export function lengthRows(run) {
  const rows = run.evaluation?.lengths ?? run.training.evaluations.at(-1)?.lengths ?? [];
  return [...rows].sort((a, b) => a.length - b.length);
}
// How many sequences that was measured on; null: unknown.
export const testedSequences = (run) => (run.evaluation ? run.evaluation.sequences ?? null : run.settings.evaluation.sequences);
export function sequenceAccuracy(run, length) {
  const byPosition = run.evaluation?.by_position?.sequence_accuracy;
  return byPosition?.[length - 1] ?? lengthRows(run).find((row) => row.length === length)?.sequence_accuracy ?? null;
}
export const longestLength = (run) =>
  Math.max(run.evaluation?.by_position?.sequence_accuracy?.length ?? 0, lengthRows(run).at(-1)?.length ?? 0);
// Over all lengths measured, of a task that asks once: 0 is guessing, 1 always right; null: unknown.
export function meanScaledAccuracy(run) {
  const scores = lengthRows(run).map((row) => row.scaled_accuracy);
  return scores.length && scores.every(Number.isFinite) ? scores.reduce((a, b) => a + b) / scores.length : null;
}

// A column of a training curve on a grid of `width` steps, itself a multiple of the curve's: means, or for `last` the last value.
export function trainingLine(run, column, width, { last = false, x = "step" } = {}) {
  const { curve } = run.training, line = [];
  for (let begin = 0, end; begin < curve.step.length; begin = end) {
    const part = Math.ceil(curve.step[begin] / width);
    let sum = 0, count = 0;
    for (end = begin; end < curve.step.length && Math.ceil(curve.step[end] / width) === part; ++end)
      sum += curve.count[end] * curve[column][end], count += curve.count[end];
    line.push({ x: x === "step" ? part * width : curve[x][end - 1], y: last ? curve[column][end - 1] : sum / count });
  }
  return line;
}
// The finest common grid with at most `most` points.
export function commonWidth(runs, most = 256) {
  let width = Math.max(...runs.map((run) => run.training.curve.width));
  while (Math.max(...runs.map((run) => run.training.steps)) / width > most) width *= 2;
  return width;
}
