// Every specification compiles without a warning, at the width of a phone and of a screen, and names data that it has.
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { createRequire } from "node:module";
import test from "node:test";
import { pathToFileURL } from "node:url";
import { lineChart, middleLine } from "../pages/charts.js";
import { toCsv } from "../pages/numbers.js";
import { analysisPage } from "../pages/analysis_page.js";
import { compiledPage } from "../pages/compiled_page.js";
import { experimentsPage } from "../pages/experiments_page.js";
import { reportPage } from "../pages/report_page.js";
import { theoryPage } from "../pages/theory_page.js";
import { abModel, analysisData, experiments, languageRun, report, textRun, theoryData, trackedRun, wordRun, z3Model } from "./made_up.mjs";

const MODULES = process.env.DP_NODE_MODULES;
if (!MODULES || !fs.existsSync(path.join(MODULES, "vega-lite"))) throw new Error(
  "DP_NODE_MODULES must name the folder that npm installed vega-lite into");
globalThis.dagre = createRequire(path.join(MODULES, "x"))("@dagrejs/dagre");
const vegaLite = await import(pathToFileURL(path.join(MODULES, "vega-lite/build/index.js")));

const RANKS = [[[5, 5, 5, 5, 5, 5], [6, 6, 6, 6, 6, 6]], [[7, 7, 7, 8, 9, 9]]];
const PAGES = {
  report: reportPage(report([
    ...[0, 1].map((seed) => wordRun({ seed, accuracies: [[128, 1], [512, 0.9 + 0.05 * seed]] })),
    wordRun({ n: 1, curriculum: 4, accuracies: [[128, 0.2], [512, 0]] }), wordRun({ group: "S4", validation: [[128, 0.4]] }),
    languageRun(), languageRun({ task: "mod-arith" }), textRun({ ranks: RANKS }), textRun({ n: 1, ranks: RANKS })])),
  experiments: experimentsPage(experiments({
    "state-tracking/results/grid-s3.json": [trackedRun(), trackedRun({ seed: 1 }), trackedRun({ n: 1, there: 0.2, beyond: 0 })],
    "state-tracking/results/layers-s3.json": [trackedRun({ n: 1, layers: 3, beyond: 0.5 })],
    "chomsky/results/table.json": [languageRun()], "language/results/models.json": [textRun({ ranks: RANKS })],
    "language/results/scaling-1m.json": [textRun(), { ...textRun({ perplexity: 40 }), parameters: 1e6 }] })),
  analysis: analysisPage(analysisData), theory: theoryPage(theoryData), rotations: compiledPage(z3Model),
  automaton: compiledPage(abModel),
};

function figuresOf(node) {
  if (Array.isArray(node)) return node.flatMap(figuresOf);
  if (typeof node !== "object" || node === null) return [];
  return [...(node.attributes.chart ? [node.attributes.chart] : []), ...node.children.flatMap(figuresOf)];
}
const namedData = (spec) => [spec.data?.name, ...(spec.layer ?? []).flatMap(namedData)].filter(Boolean);

const SETTINGS = [{}, { share: "answers", length: "log", position: "linear", layer: "1", head: "0.0" }];
for (const [name, page] of Object.entries(PAGES))
  test(`charts of the page ${name}`, () => {
    const figures = figuresOf(page.body);
    assert.equal(figures.length > 0, name !== "automaton");
    for (const figure of figures) for (const settings of SETTINGS) for (const width of [320, 1160]) {
      const chart = figure(settings), spec = chart.spec(width), warnings = [];
      const logger = { level: () => logger, error: (...it) => { warnings.push(it); return logger; },
        warn: (...it) => { warnings.push(it); return logger; }, info: () => logger, debug: () => logger };
      for (const data of namedData(spec)) assert.ok(Array.isArray(chart.data[data]), `${chart.title} names ${data}`);
      const { spec: compiled } = vegaLite.compile({ ...spec, datasets: chart.data }, { logger });
      assert.deepEqual(warnings, [], chart.title);
      assert.ok(compiled.marks.length > 0);
      assert.ok(typeof spec.width === "string" || spec.width <= width,
        `${chart.title} is ${spec.width} wide, there are ${width}`);
      assert.ok(chart.title && chart.subtitle && chart.description);
      assert.ok(chart.csv.length > 0 && Object.keys(chart.csv[0]).length > 1, `${chart.title} has data to save`);
      assert.ok(JSON.stringify(chart.data).indexOf("null,\"y\"") < 0);
    }
  });

const point = (x, y) => ({ x, y });
const SERIES = { label: "n = 2", colour: "#123456",
  runs: [[point(1, 0.2), point(2, 0.4)], [point(1, 0.6)], [point(1, 0.1), point(2, 0.8)]] };

test("seeds are thin, their median is thick and drawn last", () => {
  const chart = lineChart({ title: "t", subtitle: "s", description: "d", x: { title: "x" }, series: [SERIES] });
  assert.deepEqual(chart.data.lines.map(({ x, y, thick }) => [x, y, thick]),
    [[1, 0.2, false], [2, 0.4, false], [1, 0.6, false], [1, 0.1, false], [2, 0.8, false], [1, 0.2, true],
      [2, 0.6000000000000001, true]]);
  assert.equal(chart.csv.length, 5, "all points of all runs, not the median");
  assert.deepEqual(lineChart(
      { title: "t", subtitle: "s", description: "d", x: { title: "x" },
        series: [{ ...SERIES, runs: [SERIES.runs[0]] }] }).data.lines.map((row) => row.thick), [true, true],
          "one run is its own median");
});

test("a run that ended early counts with its last value if asked to", () => {
  assert.equal(middleLine(SERIES.runs)[1].y, 0.6000000000000001);
  assert.equal(middleLine(SERIES.runs, true)[1].y, 0.6);
});

test("axes: powers of two, multiples of the training length, powers of ten", () => {
  const chart = (x, y, trained) =>
    lineChart({ title: "t", subtitle: "s", description: "d", x: { title: "x", ...x }, y, trained,
        series: [{ label: "a", colour: "#000", runs: [[point(1, 0.002), point(512, 30)]] }] }).spec(400).layer.find((layer) =>
          layer.data.name === "lines").encoding;
  assert.deepEqual(chart({ log: true }, {}, []).x.axis.values, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]);
  assert.deepEqual(chart({}, {}, [128]).x.axis.values, [0, 128, 256, 384, 512]);
  assert.deepEqual(chart({}, { log: true }, []).y.axis.values, [0.001, 0.01, 0.1, 1, 10]);
  assert.deepEqual(chart({}, { share: true }, []).y.scale.domain, [0, 1]);
});

test("legends get fewer columns where it is narrow", () => {
  const columns = (width) =>
    lineChart({ title: "t", subtitle: "s", description: "d", x: { title: "x" },
        series: ["DeltaProduct_2 [-1,1]", "DeltaProduct_3 [-1,1]", "Mamba"].map((label) => ({ ...SERIES, label })) }).spec(
          width).layer.find((layer) => layer.data.name === "lines").encoding.color.legend.columns;
  assert.deepEqual([columns(320), columns(600)], [1, 3]);
});

test("CSV quotes what needs it", () => {
  assert.equal(toCsv([{ a: 1, "b,c": 'say "hi"' }, { a: 2 }]), 'a,"b,c"\r\n1,"say ""hi"""\r\n2,\r\n');
});
