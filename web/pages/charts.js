// Charts as Vega-Lite specifications: https://vega.github.io/vega-lite/docs/.
//
// A chart is { title, subtitle, description, data: {name: rows}, csv: rows to download, spec: (width) => specification }. The
// specification names its data; `width` is how many pixels wide it will be drawn. Text from outside gets into data, titles and domains,
// never into expressions.
import { fixed, percent } from "./numbers.js";
import { median } from "./statistics.js";

// Readable on white and on black, also for most of those who see colours differently.
export const COLOURS = ["#4c78a8", "#f58518", "#54a24b", "#e45756", "#72b7b2", "#b279a2", "#eeca3b", "#9d755d", "#ff9da6",
  "#8a8f98",
  "#2ca6c9", "#7f5fc4", "#a3b13a", "#c2527e", "#1f8a70"];
export const GREY = "#8a8f98";

export const fitted = (height) => ({ width: "container", height, autosize: { type: "fit-x", contains: "padding" } });
// Both axes of a plane must have the same scale; a phone leaves less than 270 pixels.
export const square = (width) => ({ width: Math.min(270, width - 70), height: Math.min(270, width - 70) });

// Labels below columns stand upright where they fit, about 7 pixels for each character.
export const columnLabels = (names, width) => ({ title: null, labelOverlap: true,
  labelAngle: 7 * Math.max(...names.map((name) => name.length)) < 0.85 * (width - 110) / names.length ? 0 : -60 });

// As many columns as there is room for.
export function legendBelow(labels, width, title = null) {
  const longest = Math.max(...labels.map((label) => String(label).length), 1);
  const columns = Math.max(1, Math.min(labels.length, Math.floor((width - 20) / (6.8 * longest + 34))));
  return { title, orient: "bottom", direction: "horizontal", columns, labelLimit: width - 60, symbolStrokeWidth: 3 };
}

export const tooltip = (fields) => Object.entries(fields).map(([field, title]) => ({ field, type: "nominal", title }));

// Lines: series is [{label, colour, runs: [[{x, y}]], marks: [{x, y}]}]. A series has a thin line per run and, with several runs, a
// thick one of their median, or of what `middle` gives. Options:
//   x: { title, log, first, count }    log: to base 2; first: where the axis begins; count: large numbers as 20M
//   y: { log, share, unit, domain }    share: from 0% to 100%; unit: from 0 to 1; what is beyond the domain is cut off
//   trained: [x], dashed rules at training lengths; documents: [x], faint rules
//   steps: lines are stairs; points: mark the points, there are few; holdLast: a run that ends early counts with its last value
export function lineChart(
  { title, subtitle, description, x, y = {}, series, trained = [], documents = [], steps = false, points = false,
                            holdLast = false, middle = median, legend = true }) {
                              const lines = [], hover = new Map(), csv = [];
                              const add = (label, run, line, thick) => {
                                for (const point of line) lines.push({ x: point.x, y: point.y, series: label, run, thick });
                              };
                              series.forEach(({ label, runs }, i) => {
                                if (runs.length > 1) runs.forEach((line, run) => add(label, run, line, false));
                                runs.forEach((line, run) => {
                                  for (const point of line)
                                    csv.push({ series: label, run: run + 1, [x.title]: point.x, [subtitle]: point.y });
                                });
                                for (const point of middleLine(runs, holdLast, middle)) {
                                  if (!hover.has(point.x)) hover.set(point.x, { x: point.x });
                                  hover.get(point.x)[`s${i}`] = valueText(y, point.y);
                                }
                              });
                              series.forEach(({ label, runs }) =>
                                add(label, -1, middleLine(runs, holdLast, middle), true));  // drawn last, on top
                              const marks = series.flatMap(({ label, marks = [] }) =>
                                marks.map((mark) => ({ ...mark, series: label })))
    .filter((mark) => !y.domain || (mark.y >= y.domain[0] && mark.y <= y.domain[1]));
                              const hoverRows = [...hover.values()].map((row) =>
    Object.assign(Object.fromEntries(series.map((_, i) => [`s${i}`, "–"])), row));
                              const xs = lines.map((row) => row.x), ys = lines.map((row) => row.y);
                              const colour = (width) =>
    ({ field: "series", type: "nominal", scale: { domain: series.map((it) => it.label), range: series.map((it) => it.colour) },
                               legend: legend ? { ...legendBelow(series.map((it) => it.label), width), symbolType: "stroke" } :
                                 null });
                              return {
    title, subtitle, description, csv,
    data: { lines, marks, hover: hoverRows, trained: trained.map((it) => ({ x: it })),
      documents: documents.map((it) => ({ x: it })) },
    spec: (width) => ({
      ...fitted(220),
      layer: [
        ...(documents.length ? [
            { data: { name: "documents" }, mark: { type: "rule", opacity: 0.22 },
              encoding: { x: { field: "x", type: "quantitative" } } }] : []),
        ...(trained.length ? trainingRules() : []),
        { data: { name: "lines" },
          mark: { type: "line", interpolate: steps ? "step-after" : "linear", clip: Boolean(y.domain),
            ...(points ? { point: { size: 40 } } : {}) },
          encoding: {
            x: { field: "x", type: "quantitative", axis: xAxis(x, xs, trained, width), scale: xScale(x, xs) },
            y: { field: "y", type: "quantitative", axis: yAxis(y, ys), scale: yScale(y, ys) },
            color: colour(width), detail: { field: "run" },
            strokeWidth: { condition: { test: "datum.thick", value: 2.5 }, value: 1 },
            opacity: { condition: { test: "datum.thick", value: 1 }, value: 0.55 } } },
        ...(marks.length ? [{ data: { name: "marks" },
            mark: { type: "point", filled: true, size: 70, opacity: 1, stroke: "white", strokeWidth: 1 },
            encoding: { x: { field: "x", type: "quantitative" }, y: { field: "y", type: "quantitative" },
            color: colour(width) } }] : []),
        { data: { name: "hover" }, mark: { type: "rule" },  // an upright line at the pointer with the value of every series there
          params: [{ name: "hover",
              select: { type: "point", fields: ["x"], nearest: true, on: "pointerover", clear: "pointerout" } }],
          encoding: {
            x: { field: "x", type: "quantitative" },
            opacity: { condition: { param: "hover", empty: false, value: 0.4 }, value: 0 },
            tooltip: [{ field: "x", type: "quantitative", title: x.title, ...(x.count ? { format: ".3s" } : {}) },
                      ...series.map((it, i) => ({ field: `s${i}`, type: "nominal", title: it.label }))] } },
      ],
    }),
  };
                            }

// x -> median or mean of the runs that have a point there, or with holdLast had one before.
export function middleLine(runs, holdLast = false, middle = median) {
  if (runs.length === 1) return runs[0];
  const columns = new Map();
  for (const run of runs) for (const { x, y } of run) columns.set(x, [...(columns.get(x) ?? []), y]);
  if (holdLast)
    for (const run of runs.filter((it) => it.length))
      for (const [x, values] of columns) if (x > run.at(-1).x) values.push(run.at(-1).y);
  return [...columns].sort((a, b) => a[0] - b[0]).map(([x, values]) => ({ x, y: middle(values) }));
}

const valueText = (y, value) => (y.share ? percent(value) : y.unit ? fixed(value) : String(Number(value.toPrecision(4))));

// Dashed, behind the lines, with a word along them.
const trainingRules = () => [
  { data: { name: "trained" }, mark: { type: "rule", strokeDash: [5, 4], opacity: 0.7 },
    encoding: { x: { field: "x", type: "quantitative" } } },
  { data: { name: "trained" },
    mark: { type: "text", text: "training length", angle: 270, align: "right", baseline: "bottom", dy: -3, y: 2, fontSize: 10,
      opacity: 0.8 },
    encoding: { x: { field: "x", type: "quantitative" } } },
];

const firstX = (x) => (x.log ? Math.max(1, x.first ?? 1) : x.first ?? 0);
const lastX = (xs) => xs.reduce((most, value) => Math.max(most, value), 1);
const xScale = (x, xs) =>
  ({ type: x.log ? "log" : "linear", ...(x.log ? { base: 2 } : {}), domain: [firstX(x), lastX(xs)], nice: false });

function xAxis(x, xs, trained, width) {
  const axis = { title: x.title, grid: false, labelFlush: false, labelOverlap: true, labelSeparation: 6,
    tickCount: Math.max(3, Math.floor(width / 70)), ...(x.count ? { labelExpr: "format(datum.value, '~s')" } : {}) };
  const last = lastX(xs), values = [];
  if (x.log) for (let at = 1; at <= last; at *= 2) { if (at >= firstX(x)) values.push(at); }
  // In units of the training length, as long as these are few.
  else if (trained[0] > 0 && last >= trained[0] && last / trained[0] <= 8) for (let at = 0; at <= last; at += trained[0])
    values.push(at);
  return values.length ? { ...axis, values } : axis;
}

function yScale(y, ys) {
  if (y.share || y.unit) return { domain: [0, 1] };
  if (y.domain) return { type: y.log ? "log" : "linear", domain: y.domain, nice: false };
  if (!y.log) return { type: "linear" };
  const [low, high] = positiveRange(ys);
  return { type: "log", domain: [10 ** Math.floor(Math.log10(low)), high * 1.1], nice: false };
}

function yAxis(y, ys) {
  const axis = { title: null, tickCount: 5, ...(y.share ? { format: ".0%" } : y.unit ? { format: ".1f" } : {}) };
  if (!y.log) return axis;
  // Whole powers of ten only: lines for all between them are too many.
  const [low, high] = y.domain ?? positiveRange(ys), first = Math.floor(Math.log10(low)), last = Math.log10(high);
  const by = Math.ceil((last - first) / 8) || 1, values = [];
  for (let power = first; power <= last; power += by) values.push(10 ** power);
  return { ...axis, format: low < 1e-3 ? ".0e" : "~g", values, tickCount: values.length };
}

function positiveRange(values) {
  const positive = values.filter((value) => value > 0);
  return positive.length ? [positive.reduce((a, b) => Math.min(a, b)), positive.reduce((a, b) => Math.max(a, b))] : [0.1, 1];
}

// A domain around values, with a little room.
export function withRoom(values) {
  const low = values.reduce((a, b) => Math.min(a, b)), high = values.reduce((a, b) => Math.max(a, b));
  const room = Math.max(0.01, (high - low) / 20);
  return [Number((low - room).toPrecision(5)), Number((high + room).toPrecision(5))];
}

// An axis of a plane from -limit to limit; `title` null hides it.
export const planeAxis = (field, limit, title = null) =>
  ({ field, type: "quantitative", axis: title === null ? null : { title, tickCount: 5 },
      scale: { domain: [-limit, limit], nice: false } });

// The unit circle as a layer of a plane; its rows are circleRows.
export const circleLayer = (limit, titles = [null, null]) => ({
  data: { name: "circle" }, mark: { type: "line", color: GREY, strokeWidth: 1, tooltip: null },
  encoding: { x: planeAxis("x", limit, titles[0]), y: planeAxis("y", limit, titles[1]),
    order: { field: "i", type: "quantitative" } } });
export const circleRows = Array.from({ length: 97 },
  (_, i) => ({ i, x: Math.cos(i * Math.PI / 48), y: Math.sin(i * Math.PI / 48) }));
