// Runs and models that nobody made, as C++ would describe them (web/README.md), for the tests of pages.

export function wordRun(
  { name = "", group = "S3", n = 2, layers = 1, negative = true, seed = 0, length = 128, curriculum = 0, steps = 600,
    accuracies = null, validation = null, sequences = 512, hidden = 64 } = {}) {
      const rows = (list) => list.map(([at, sequence, token = sequence]) =>
    ({ length: at, sequence_accuracy: sequence, token_accuracy: token }));
      return {
    name: name || `runs/${group}-n${n}-${layers}-${seed}`, kind: "word-problem", task: group,
    model: `DeltaProduct_${n} [${negative ? -1 : 0},1]`, architecture: `DeltaProduct_${n}`, model_option: "deltaproduct",
    mlp_width: 128, parameters: 12345, command: "./dp train word-problem",
    settings: {
      task: { name: "word-problem", group, max_moved: 0, tokens_per_element: 1, most_moved_first: false },
      model: { num_householder: n, num_hidden_layers: layers, allow_neg_eigval: negative, hidden_size: hidden, num_heads: 4,
        head_dim: 16, use_short_conv: false, use_forget_gate: false, initializer_range: 0.02 },
      training: { steps, batch_size: 32, length, learning_rate: 1e-3, min_learning_rate: 0, warmup_steps: 0, weight_decay: 0,
        beta2: 0.9, label_smoothing: 0, clip_norm: 1, curriculum_first_length: curriculum,
        curriculum_first_letters: 0, curriculum_loss_below: 0.1, curriculum_most_steps: 0, seed },
      evaluation: { lengths: [], every: 100, sequences: 64, stop_at: 0 },
    },
    training: { steps, tokens: 4096 * steps, seconds: 60, tokens_per_second: 1000, broken_lines: 0, curve: curve(steps, length),
                evaluations: validation ? [{ step: steps, tokens: 4096 * steps, lengths: rows(validation) }] : [] },
    ...(accuracies ? { evaluation: { lengths: rows(accuracies), sequences } } : {}),
  };
    }

function curve(steps, length) {
  let width = 1;
  while (steps / width > 512) width *= 2;
  const points = Array.from({ length: Math.ceil(steps / width) }, (_, i) => i);
  return { width, step: points.map((i) => (i + 1) * width), count: points.map(() => width), loss: points.map((i) => 1 / (i + 1)),
    accuracy: points.map((i) => 1 - 1 / (i + 1)), length: points.map(() => length),
    tokens: points.map((i) => 4096 * (i + 1) * width) };
}

export function languageRun(
  { task = "parity", model = "DeltaProduct_2 [-1,1]", seed = 0, score = 0.5, length = 40, lengths = [40, 64, 128, 256],
    tested = true } = {}) {
      const run = wordRun({ group: task, seed, length });
      const rows = lengths.map((at) =>
      ({ length: at, sequence_accuracy: (1 + score) / 2, token_accuracy: (1 + score) / 2, scaled_accuracy: score }));
      return { ...run, name: `runs/${task}-${model}-${seed}`, kind: "formal-language", model,
    settings: { ...run.settings, task: { name: task, min_length: 3, every_token: false } },
    ...(tested ? { evaluation: { lengths: rows, sequences: 512 } } :
             { training: { ...run.training, evaluations: [{ step: 1, tokens: 1, lengths: rows }] } }) };
    }

// Losses at lengths and ranks at positions as given.
export function textRun(
  { n = 2, seed = 0, data = "data/corpus", perplexity = 50, losses = { 512: 4, 1024: 3.95, 2048: 3.9 }, ranks = null,
    tested = true, choices = [] } = {}) {
      const run = wordRun({ n, seed, length: 512 });
      return {
    ...run, name: `runs/text-${data}-${n}-${seed}`, kind: "text", task: data,
    settings: { ...run.settings, task: { name: "text", data, reset_at_documents: false } },
    training: { ...run.training,
      evaluations: [{ step: 300, tokens: 4096 * 300, lengths: [{ length: 512, loss: Math.log(perplexity) + 0.1 }] }] },
    ...(tested ? { evaluation: {
      data: `${data}/validation`, perplexity,
      lengths: Object.entries(losses).map(([length, loss]) => ({ length: Number(length), loss })), choices,
      ...(ranks ? { effective_rank: { positions: [256, 384, 512, 1024, 1800, 2048], documents: [700], layers: ranks } } :
        {}) } } : {}),
  };
    }

// A word problem's accuracies at every position up to four times the training length: `there` up to that, `beyond` after.
export function trackedRun({ there = 1, beyond = 1, tokensPerElement = 1, ...options } = {}) {
  const run = wordRun({ accuracies: [[128, there], [512, beyond]], ...options });
  const shares = Array.from({ length: 512 }, (_, i) => (i < 128 ? there : beyond));
  run.settings.task.tokens_per_element = tokensPerElement;
  return { ...run, evaluation: { ...run.evaluation, by_position: { token_accuracy: shares, sequence_accuracy: shares } } };
}

export const experiments = (results) => ({ page: "experiments", problems: [],
  results: Object.entries(results).map(([file, runs]) => ({ file, commit: "0123456789abcdef", runs })) });
export const report = (runs) => ({ page: "report", runs, problems: [] });

// The language of (ab)*: states 0 (accepting), 1, and the trap 2.
export const abAutomaton = { alphabet: ["a", "b"], states: ["0", "1", "trap"], start: 0, accepting: [true, false, false],
  moves: [[1, 2, 2], [2, 0, 2]] };
const MODEL = { layers: 1, num_householder: 2, forget_gate: false, heads: 1, key_width: 4, value_width: 4, width: 8,
  mlp_width: 16, parameters: 1234, dtype: "float32" };
export const abModel = { page: "compiled", directory: "models/ab", kind: "language", name: "(ab)*", theorem: "a theorem",
  command: "./dp compile regex '(ab)*' --out models/ab", model: MODEL,
  check: { words: 20, length: 500, wrong_at: null }, automaton: abAutomaton,
  walk: { word: [0, 1, 0, 0], answers: [0, 1, 0, 1, 2] } };

// Z3 as rotations of three dimensions about the third axis.
const rotation = (angle) => {
  const [c, s] = [Math.cos(angle * Math.PI / 180), Math.sin(angle * Math.PI / 180)];
  return [[c, -s, 0], [s, c, 0], [0, 0, 1]];
};
export const z3Model = { ...abModel, kind: "group", name: "Z3", command: "", directory: "it's here",
  automaton: { alphabet: ["0", "1", "2"], states: ["0", "1", "2"], start: 0, permutations: [[0, 1, 2], [1, 2, 0], [2, 0, 1]],
    elements: [0, 1, 2] },
  walk: { word: [1, 1, 2], answers: [0, 1, 2, 1] },
  maps: { along_word: false, dimension: 3, copies: 1, heads: 1, heads_differ: 0, count: 3,
    products: { count: 9, largest_difference: 1e-7 },
    maps: [0, 120, 240].map((angle, i) =>
            ({ element: i, name: String(i), order: i ? 3 : 1, betas: i ? [2, 2] : [0, 0], keys: [[1, 0, 0], [0.5, 0.866, 0]],
                matrix: rotation(angle), angles: [angle] })) } };

export const analysisData = {
  page: "analysis", group: "Z2", elements: [{ name: "0", order: 1 }, { name: "1", order: 2 }], factors: 1, length: 16,
  sequences: 64, near_two: 1.9, accuracy: { sequences: 1, answers: 1 },
  most_important: { layer: 0, head: 1 }, summary: ["Head 1 matters most."],
  layers: [{ exact: true, fewest_occurrences: 1,
      heads: [0, 1].map((head) =>
        ({ head, verdict: "a verdict", reflections: true, as_in_paper: true, accuracy_alone: { sequences: head, answers: head },
            accuracy_cut: { sequences: 1 - head, answers: 1 - head },
            gate: [1, 1], eigenvalues: [[[1, 0]], [[-1, 0]]], transition_spread: [0, 0],
            keys: { components_for_95_percent: 1, explained: [1, 1], explained_uncentred: [1, 1] },
            factors: [{ mean: 1, least: 0, most: 2, near_two: 1, beta: [0, 2], beta_std: [0, 0],
        keys: { components_for_95_percent: 1, explained: [1, 1], explained_uncentred: [1, 1] },
        coordinates: [[0, 0, 0], [1, 0, 0]] }] })) }],
};

const region = { theta: 45, x: [0.5, 1.5], y: [0.5, 1.5], turn: [[0, 0], [0, 60]], boundary: [[[1, 1], [2, 2]]],
  disagreements: 0 };
export const theoryData = { page: "theory", width: 8, factors: 2, equal_betas: region, regions: [region],
  norms: [{ label: "RWKV-7, in turn", runs: [{ product: [1, 1.2, 40], state: [0, 1, 2] }] },
    { label: "DeltaProduct", runs: [{ product: [1, 0.9, 0.8], state: [0, 1, 1] }] }], radii: [[0, 1], [60, 1.23]],
  claims: [{ claim: "a claim", found: "a finding", holds: true }] };
