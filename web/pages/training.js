// How training went: loss, accuracy and the length of sequences against the step.
import { lineChart } from "./charts.js";
import { figure, grid, note, section } from "./elements.js";
import { commonWidth, runsOf, trainingLine } from "./runs.js";

const SMALLEST_LOSS = 1e-6;  // a logarithmic axis has no zero

function trainingChart(group, what, y, line, options = {}) {
  return lineChart({ title: group.name, subtitle: what, description: `Training on ${group.name}: ${what} against the step`,
      x: { title: "step", count: true }, y, holdLast: true,
      series: group.configurations.map(({ label, colour, runs }) => ({ label, colour, runs: runs.map(line) })), ...options });
}

export function trainingCharts(group) {
  const begun = runsOf(group).filter((run) => run.training.steps > 0);
  if (!begun.length) return [];
  const width = commonWidth(begun);
  const charts = [
    trainingChart(group, "training loss", { log: true },
      (run) => trainingLine(run, "loss", width).map(({ x, y }) => ({ x, y: Math.max(y, SMALLEST_LOSS) }))),
    trainingChart(group, "answers right in training", { share: true }, (run) => trainingLine(run, "accuracy", width))];
  if (begun.some((run) => run.settings.training.curriculum_first_length > 0))
    charts.push(trainingChart(group, "length of training sequences", {},
        (run) => trainingLine(run, "length", width, { last: true }), { steps: true }));
  return charts;
}

export function trainingSection(groups) {
  const charts = groups.map(trainingCharts).filter((it) => it.length);
  const several = groups.some((group) => group.configurations.some((it) => it.runs.length > 1));
  return charts.length === 0 ? null : section("Training", grid(charts.flat().map((chart) => figure(chart))),
    note("Values are means over neighbouring steps.", several && "In the median over seeds, a run that stopped early keeps its " +
      "last value."));
}
