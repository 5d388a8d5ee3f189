// The page of dp theory: spectra and stability of transitions.
import { fitted, lineChart, tooltip } from "./charts.js";
import { figure, grid, h, note, paragraphs, section, table } from "./elements.js";
import { fixed, grouped } from "./numbers.js";

const BOUNDARY = "#e45756";
const NORM_COLOURS = ["#e45756", "#f58518", "#54a24b", "#4c78a8", "#72b7b2", "#b279a2", "#9d755d"];
const BETA = { begin: 0.8, end: 2 };  // nothing below 0.8 is complex

// Where two factors have complex eigenvalues, with the closed form over it. Each axis is { title, begin, end }.
function regionChart(region, { title, subtitle, x, y, betaOnY }) {
  const wide = x.end / region.x.length, high = y.end / region.y.length, overlap = 0.55;  // else seams show between the cells
  const cells = region.y.flatMap((b, i) =>
    region.x.map((a, j) => (
        { a, b, turn: region.turn[i][j], x: a - wide / 2, x2: a + wide * overlap, y: b - high / 2,
          y2: b + high * overlap }))).filter((cell) => cell.turn > 0);
  const axis = (field, { title: name, begin, end }) =>
    ({ field, type: "quantitative", axis: { title: name, tickCount: 5, grid: false },
        scale: { domain: [begin, end], nice: false } });
  const rule = (channel) =>
    ({ data: { values: [{}] }, mark: { type: "rule", strokeDash: [5, 4], opacity: 0.5 }, encoding: { [channel]: { datum: 1 } } });
  return {
    title, subtitle, description: "Where two factors have complex eigenvalues, with the closed form over it",
    data: { cells, boundary: region.boundary.flatMap((line, number) => line.map(([a, b]) => ({ x: a, y: b, line: number }))) },
    csv: region.y.flatMap((b, i) =>
      region.x.map((a, j) => ({ [x.title]: a, [y.title]: b, "angle in degrees": region.turn[i][j] }))),
    spec: () => ({ ...fitted(290), layer: [
      { data: { name: "cells" }, mark: { type: "rect", clip: true },
        encoding: { x: axis("x", x), x2: { field: "x2" }, y: axis("y", y), y2: { field: "y2" },
        color: { field: "turn", type: "quantitative", scale: { domain: [0, 180], scheme: "viridis" },
          legend: { title: "rotates by, in degrees", orient: "bottom", values: [0, 45, 90, 135, 180] } },
        tooltip: tooltip({ a: x.title, b: y.title, turn: "rotates by, in degrees" }) } },
      rule("x"), ...(betaOnY ? [rule("y")] : []),
      { data: { name: "boundary" }, mark: { type: "line", color: BOUNDARY, strokeWidth: 2.5, clip: true },
        encoding: { x: axis("x", x), y: axis("y", y), detail: { field: "line", type: "nominal" } } }] }),
  };
}

export const twoBetasChart = (region) =>
  regionChart(region, { title: `Keys at θ = ${Number(region.theta.toPrecision(4))}°`,
      subtitle: "where eigenvalues are complex, over both betas",
      x: { title: "β₁", ...BETA }, y: { title: "β₂", ...BETA }, betaOnY: true });
export const equalBetasChart = (region) => regionChart(region, { title: "Equal betas", subtitle: "eigenvalues are complex " +
  "above β = 2 / (1 + sin θ)", x: { title: "β", ...BETA }, y: { title: "θ, in degrees", begin: 0, end: 90 }, betaOnY: false });

const normSeries = (norms, what) => norms.map(({ label, runs }, i) => ({ label, colour: NORM_COLOURS[i % NORM_COLOURS.length],
  runs: runs.map((run) => run[what].map((y, x) => ({ x, y })).filter((point) => point.y > 0)) }));  // 0 has no logarithm
export const productChart = (norms) =>
  lineChart({ title: "Product of all transitions", subtitle: "spectral norm of Aₜ ⋯ A₁",
      description: "Spectral norm of the product of transitions against the number of steps",
      x: { title: "steps" }, y: { log: true }, series: normSeries(norms, "product") });
export const stateChart = (norms) =>
  lineChart({ title: "State with random inputs", subtitle: "norm of the state",
      description: "Norm of the state against the number of steps", x: { title: "steps" }, y: { log: true },
      series: normSeries(norms, "state") });
export const radiusChart = (radii) =>
  lineChart({ title: "Two RWKV-7 transitions", subtitle: "spectral radius of their product",
      description: "Spectral radius of the product against the angle of the keys", x: { title: "θ, in degrees" },
      series: [{ label: "k = (sin θ, cos θ) and (cos θ, sin θ)", colour: NORM_COLOURS[0],
      runs: [radii.map(([x, y]) => ({ x, y }))] }] });

const largest = (series) => Math.max(...series.flatMap(({ runs }) => runs.flatMap((run) => run.product)));

function theorySummary(data) {
  const regions = [data.equal_betas, ...data.regions], all = regions.reduce((sum, it) => sum + it.x.length * it.y.length, 0);
  const complex = regions.reduce((sum, it) => sum + it.turn.flat().filter((turn) => turn > 0).length, 0);
  const disagreements = regions.reduce((sum, it) => sum + it.disagreements, 0);
  const delta = data.norms.filter(({ label }) => !label.startsWith("RWKV-7")), steps = data.norms[0].runs[0].product.length - 1;
  return [
    `Two factors can rotate a plane only if both betas are above 1. Of ${grouped(all)} products here, ${grouped(complex)} have ` +
      `complex eigenvalues; the closed form ${disagreements ? `disagrees on ${grouped(disagreements)}` : "predicts exactly these"}.`,
    `Transitions of DeltaProduct never increase the norm of a state: the largest norm of a product of up to ${steps} of them is ` +
      `${fixed(largest(delta), 4)}. Two transitions of RWKV-7, applied in turn, reach ` +
      `${grouped(Math.round(largest([data.norms[0]])))}.`,
  ];
}

export function theoryPage(data) {
  return {
    title: "spectra and stability of its transitions",
    body: [
      h("h1", null, "Spectra and stability of DeltaProduct’s transitions"),
      paragraphs(theorySummary(data)),
      section("When two factors rotate",
        grid([equalBetasChart(data.equal_betas), ...data.regions.map(twoBetasChart)].map((chart) => figure(chart))),
        note("The product of (I − β₁ k₁ k₁ᵀ) and (I − β₂ k₂ k₂ᵀ) changes only the plane that the two keys span; θ is the angle " +
          "between them. Cells are coloured where the eigenvalues in this plane are a complex pair, computed from the matrix, " +
          "and the colour is the angle of the pair. Elsewhere the eigenvalues are real.",
          "The red lines are the closed form: the pair is complex if and only if cos²θ lies between (√(β₁ − 1) − √(β₂ − 1))² / " +
          "β₁β₂ and (√(β₁ − 1) + √(β₂ − 1))² / β₁β₂. Dashed lines are at β = 1: below it there are no complex pairs, so the " +
          "axes begin at 0.8. At β₁ = β₂ = 2, two reflections rotate the plane by 2θ.")),
      section("How the norm of the state grows",
        grid([productChart(data.norms), stateChart(data.norms), radiusChart(data.radii)].map((chart) => figure(chart))),
        note("Thin lines are seeds and thick lines their median (for two seeds, their mean).",
          `DeltaProduct has random keys in ${data.width} dimensions and ${data.factors} factors per step; each of its ` +
          "transitions has a norm of at most 1, and so has every product of them.",
          "A transition of RWKV-7 is diag(w) − c k (k ⊙ a)ᵀ. The pair that is applied in turn has c = 1 and w = 1 and differs " +
          "in k and a: neither has an eigenvalue above 1, but their product has one of (27 + √153) / 32 ≈ 1.23 at θ = 60°, and " +
          "above 1 at all angles between 45° and 90°.",
          `Swaps and copies of ${data.width} states (c = 2) can follow any finite automaton; their products have a norm of at ` +
          `most √${data.width}, because they are again maps of states. In the second chart the state starts at 0 and receives ` +
          `random inputs: where transitions neither grow nor forget, as with β = 2, its norm grows like a random walk.`)),
      data.claims.length ? section("Claims",
        table([{ head: "claim", cell: ({ claim }) => claim }, { head: "found", cell: ({ found }) => found },
            { head: "holds", cell: ({ holds }) => (holds ? "yes" : "no") }], data.claims, "claims")) : null,
    ],
  };
}
