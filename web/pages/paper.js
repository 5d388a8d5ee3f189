// What the paper reports on formal languages: Siems et al., DeltaProduct (arXiv 2502.10297), the table of the appendix on the Chomsky
// hierarchy. Its rows on Transformer, xLSTM, Mamba and DeltaNet are those of Grazzi et al. (ICLR 2025). Mean scaled accuracies at
// lengths from 40 to 256 of models trained on lengths from 3 to 40; the best of three seeds.
export const PAPER_TASKS = ["parity", "mod-arith", "mod-arith-brackets"];
export const PAPER_SCORES = {
  "Transformer": [0.022, 0.031, 0.067],
  "mLSTM": [0.087, 0.040, 0.114],
  "sLSTM": [1.000, 0.787, 0.178],
  "Mamba [0,1]": [0.000, 0.095, 0.123],
  "Mamba [-1,1]": [1.000, 0.241, 0.116],
  "DeltaNet [0,1]": [0.233, 0.302, 0.253],
  "DeltaProduct_2 [0,1]": [0.264, 0.402, 0.249],
  "DeltaProduct_3 [0,1]": [0.285, 0.402, 0.288],
  "DeltaProduct_4 [0,1]": [0.295, 0.369, 0.288],
  "DeltaNet [-1,1]": [0.982, 0.915, 0.281],
  "DeltaProduct_2 [-1,1]": [0.896, 0.887, 0.329],
  "DeltaProduct_3 [-1,1]": [0.932, 0.736, 0.330],
  "DeltaProduct_4 [-1,1]": [0.982, 0.893, 0.342],
};
const PAPER_LENGTHS = { first: 3, trained: 40, longest: 256 };

// The name of a model's row: DeltaProduct with one factor per token is DeltaNet.
export const paperModel = (model) => model.replace(/^DeltaProduct_1 /, "DeltaNet ");
export const paperScore = (model, task) => PAPER_SCORES[paperModel(model)]?.[PAPER_TASKS.indexOf(task)] ?? null;

// How the task of a run differs from the paper's, in words; none: it can be compared.
export function differencesFromPaper(run) {
  const { task, training } = run.settings, lengths = (run.evaluation?.lengths ?? []).map((row) => row.length), differences = [];
  if (task.min_length !== PAPER_LENGTHS.first || training.length !== PAPER_LENGTHS.trained)
    differences.push(`trained on lengths ${task.min_length} to ${training.length} (paper: 3 to 40)`);
  if (!run.evaluation) differences.push("evaluated on validation sequences only");
  else if (Math.min(...lengths) !== PAPER_LENGTHS.trained || Math.max(...lengths) !== PAPER_LENGTHS.longest)
    differences.push(`tested on lengths ${Math.min(...lengths)} to ${Math.max(...lengths)} (paper: 40 to 256)`);
  return differences;
}
// What differs in the recipe of a run that can be compared.
export function recipeDifferences(run) {
  const { task, training, model } = run.settings, brackets = run.task === "mod-arith-brackets";
  const headDim = model.head_dim ?? model.hidden_size * (model.expand_k ?? 1) / model.num_heads;  // as DeltaNet's config.json has it
  const steps = run.task === "parity" ? 20000 : 100000;
  return [
    model.num_hidden_layers !== 3 && `${model.num_hidden_layers} layers (paper: 3)`,
    (task.answers === "every" || task.every_token) && "parity is asked at every token in training (paper: at the end)",
    /^(Gated )?Delta/.test(run.model) &&
      (model.num_heads !== (brackets ? 12 : 1) || headDim !== (brackets ? 32 : 128)) &&
        `${model.num_heads} heads of ${headDim} (paper: ${brackets ? "12 of 32" : "1 of 128"})`,
    training.steps !== steps && `${training.steps} steps (paper: ${steps})`,
    training.batch_size !== 1024 && `batch ${training.batch_size} (paper: 1024)`,
    training.learning_rate !== 5e-4 && `learning rate ${training.learning_rate} (paper: 0.0005)`,
    training.curriculum_first_length > 0 && "a curriculum (paper: none)",
    training.label_smoothing > 0 && `label smoothing ${training.label_smoothing} (paper: none)`,
  ].filter(Boolean);
}
