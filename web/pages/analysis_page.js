// The page of dp analyze: what the heads of a trained model do. Its data is documented in src/lab/analysis/analysis_json.h.
import { circleLayer, circleRows, COLOURS, columnLabels, fitted, legendBelow, planeAxis, square, tooltip } from "./charts.js";
import { figure, grid, h, note, paragraphs, radios, section, table } from "./elements.js";
import { fixed, grouped, percent } from "./numbers.js";
import { shareInterval } from "./statistics.js";

const MOST_ELEMENTS = 240;  // more would be stripes

const headsOf = (data) =>
  data.layers.flatMap((layer, l) =>
    layer.heads.map((head) =>
      ({ ...head, layer: l, exact: layer.exact, id: `${l}.${head.head}`,
          name: `head ${head.head}${data.layers.length > 1 ? ` of layer ${l}` : ""}` })));
const shownElements = (data) => data.elements.slice(0, MOST_ELEMENTS);

// Accuracy of sequences or of answers with each head alone and without it: a pair of bars per head.
export function headsChart(data, what) {
  const rows = headsOf(data).flatMap((head) =>
    [["this head alone", head.accuracy_alone], ["without this head", head.accuracy_cut]].map(([which, score]) =>
    ({ head: head.name, which, share: score[what], sequences: percent(score.sequences), answers: percent(score.answers) })));
  const y = (field) => ({ field, type: "quantitative", axis: { title: null, format: ".0%", tickCount: 5 },
      scale: { domain: [0, 1] } });
  return {
    title: what === "answers" ? "Answers right" : "Sequences right", subtitle: `of test sequences of length ${data.length}`,
    description: "Accuracy with each head alone and with each head removed",
    data: { heads: rows, whole: [{ whole: data.accuracy[what] }] },
    csv: rows.map(({ head, which, share }) => ({ head, which, [`${what} right`]: share })),
    spec: (width) => ({ ...fitted(220), layer: [
      { data: { name: "heads" }, mark: "bar", encoding: {
        x: { field: "head", type: "nominal", sort: null,
          axis: { title: null, labelAngle: rows.length * 30 > width ? -40 : 0, labelOverlap: true } },
        xOffset: { field: "which", type: "nominal", sort: null }, y: y("share"),
        color: { field: "which", type: "nominal", sort: null,
          scale: { domain: ["this head alone", "without this head"], range: COLOURS.slice(0, 2) },
          legend: legendBelow(["this head alone", "without this head"], width) },
        tooltip: tooltip({ head: "head", which: "which", sequences: "sequences right", answers: "answers right" }) } },
      { data: { name: "whole" }, mark: { type: "rule", strokeDash: [5, 4], opacity: 0.7 }, encoding: { y: y("whole") } }] }),
  };
}

// Beta of every element, a row per head and factor of one layer.
export function betaChart(data, l) {
  const layer = data.layers[l];
  const rows = layer.heads.flatMap((head) => head.factors.flatMap((factor, j) => shownElements(data).map(({ name, order }, e) =>
    ({ element: name, order, row: `head ${head.head}, factor ${j + 1}`, beta: factor.beta[e],
        text: fixed(factor.beta[e]) + (layer.exact ? "" : ` ± ${fixed(factor.beta_std[e])}`) }))));
  const lines = layer.heads.length * data.factors;
  return {
    title: `Beta of every element${data.layers.length > 1 ? `, layer ${l}` : ""}`,
    subtitle: "elements by order; a beta of 2 is a reflection",
    description: "Heat map of beta: a column per element, a row per head and factor",
    data: { beta: rows }, csv: rows.map(({ element, order, row, beta }) => ({ element, order, "head and factor": row, beta })),
    spec: (width) => ({ ...fitted(Math.max(60, lines * (lines > 16 ? 14 : 20))), data: { name: "beta" }, mark: "rect", encoding: {
      x: { field: "element", type: "nominal", sort: null,
        axis: columnLabels(shownElements(data).map(({ name }) => name), width) },
      y: { field: "row", type: "nominal", sort: null, axis: { title: null } },
      color: { field: "beta", type: "quantitative", scale: { domain: [0, 2], scheme: "viridis" },
        legend: { title: "beta", orient: "bottom", direction: "horizontal" } },
      tooltip: tooltip({ element: "element", order: "order", row: "where", text: "beta" }) } }),
  };
}

export function eigenvalueChart(data, head) {
  const rows = shownElements(data).flatMap(({ name, order }, e) => head.eigenvalues[e].map(([x, y]) =>
    ({ x, y, element: name, order, size: fixed(Math.hypot(x, y)), angle: `${(Math.atan2(y, x) * 180 / Math.PI).toFixed(1)}°` })));
  return {
    title: `Eigenvalues of ${head.name}`, subtitle: "of each element’s transition matrix",
    description: "Eigenvalues of every element’s transition matrix in the complex plane",
    data: { eigenvalues: rows, circle: circleRows },
    csv: rows.map(({ element, order, x, y }) => ({ element, order, real: x, imaginary: y })),
    spec: (width) => ({ ...square(width),
        layer: [circleLayer(1.1, ["real part", "imaginary part"]),
          { data: { name: "eigenvalues" }, mark: { type: "point", filled: true, size: 40, opacity: 0.7 }, encoding: {
      x: planeAxis("x", 1.1, "real part"), y: planeAxis("y", 1.1, "imaginary part"),
      color: { field: "order", type: "nominal", legend: legendBelow([...new Set(rows.map((row) => row.order))], width, "order") },
      tooltip: tooltip({ element: "element", order: "order", size: "absolute value", angle: "angle" }) } }] }),
  };
}

// Keys along the first principal component and another, 1 or 2.
export function keyChart(data, head, component) {
  const rows = head.factors.flatMap((factor, j) => shownElements(data).map(({ name, order }, e) =>
    ({ x: factor.coordinates[e][0], y: factor.coordinates[e][component], factor: `factor ${j + 1}`, element: name, order })));
  const other = component === 1 ? "second" : "third";
  const limit = Number(Math.max(0.1,
        ...head.factors.flatMap((factor) => factor.coordinates.flat().map((value) => 1.05 * Math.abs(value)))).toPrecision(5));
  return {
    title: `Keys of ${head.name}`, subtitle: `first and ${other} principal component`,
    description: "Keys of all elements in the plane of two principal components",
    data: { keys: rows }, csv: rows.map(({ element, order, factor, x, y }) =>
      ({ element, order, factor, "first component": x, [`${other} component`]: y })),
    spec: (width) => ({ ...square(width), data: { name: "keys" }, mark: { type: "point", filled: true, size: 45, opacity: 0.75 },
        encoding: {
      x: planeAxis("x", limit, "first component"), y: planeAxis("y", limit, `${other} component`),
      color: { field: "factor", type: "nominal", sort: null,
        legend: legendBelow([...new Set(rows.map((row) => row.factor))], width) },
      shape: { field: "factor", type: "nominal", sort: null },
      tooltip: tooltip({ element: "element", order: "order", factor: "factor" }) } }),
  };
}

export function varianceChart(data, head) {
  const series = [["all factors", head.keys.explained], ["all, not centred", head.keys.explained_uncentred],
                  ...(head.factors.length > 1 ? head.factors.map((factor, j) => [`factor ${j + 1}`, factor.keys.explained]) :
                    [])];
  const rows = series.flatMap(([name, explained]) =>
    explained.slice(0, 8).map((share, i) => ({ n: i + 1, share, text: percent(share), series: name })));
  const y = { field: "share", type: "quantitative", axis: { title: null, format: ".0%", tickCount: 5 },
    scale: { domain: [0, 1] } };
  return {
    title: `Dimensions of the keys of ${head.name}`, subtitle: "variance held by the first principal components",
    description: "Share of the variance of keys that the first principal components hold",
    data: { variance: rows, rules: [{ share: 0.95 }] },
    csv: rows.map(({ series: keys, n, share }) => ({ keys, components: n, share })),
    spec: (width) => ({ ...fitted(240), layer: [
      { data: { name: "variance" }, mark: { type: "line", point: true },
        encoding: { x: { field: "n", type: "ordinal", axis: { title: "principal components", labelAngle: 0 } }, y,
        color: { field: "series", type: "nominal", sort: null, legend: legendBelow(series.map(([name]) => name), width) },
        tooltip: tooltip({ series: "keys", n: "components", text: "variance" }) } },
      { data: { name: "rules" }, mark: { type: "rule", strokeDash: [5, 4], opacity: 0.7 }, encoding: { y } }] }),
  };
}

function headsTable(data) {
  const accuracy = (field, what) => (head) => {
    const share = head[field][what], interval = what === "sequences" ? shareInterval(share, data.sequences) : null;
    return { text: fixed(share), value: share, small: interval && `${fixed(interval[0])} to ${fixed(interval[1])}` };
  };
  const betas = (head) => head.factors.flatMap((factor) => [factor.least, factor.most]);
  const inThree = (head) => head.keys.explained[Math.min(3, head.keys.explained.length) - 1];
  return table([
    { head: "head", cell: (head) => ({ text: head.name, value: 10000 * head.layer + head.head }) },
    { head: "sequences right alone", cell: accuracy("accuracy_alone", "sequences"), number: true },
    { head: "answers right alone", cell: accuracy("accuracy_alone", "answers"), number: true },
    { head: "sequences right without", cell: accuracy("accuracy_cut", "sequences"), number: true },
    { head: "answers right without", cell: accuracy("accuracy_cut", "answers"), number: true },
    { head: "elements other than the identity with beta near 2, per factor",
      cell: (head) => ({ text: head.factors.map((factor) => factor.near_two).join(", "),
          value: Math.min(...head.factors.map((factor) => factor.near_two)) }), number: true },
    { head: "beta", cell: (head) => `${fixed(Math.min(...betas(head)), 2)} to ${fixed(Math.max(...betas(head)), 2)}`,
      number: true },
    { head: "components for 95%", cell: (head) => head.keys.components_for_95_percent, number: true },
    { head: "variance in three", cell: (head) => ({ text: percent(inThree(head)), value: inThree(head) }), number: true },
    { head: "verdict", cell: (head) => ({ text: head.verdict, value: head.as_in_paper ? 0 : head.reflections ? 1 : 2 }) },
  ], headsOf(data), "heads");
}

export function analysisPage(data) {
  const heads = headsOf(data), important = `${data.most_important.layer}.${data.most_important.head}`;
  const averaged = data.layers.some((layer) => !layer.exact);
  const chosen = (choices) => heads.find((head) => head.id === choices.head) ?? heads.find((head) => head.id === important);
  const forms = data.layers.map((layer, l) =>
    radios("head", data.layers.length > 1 ? `Layer ${l}, head` : "Head",
      layer.heads.map((head) => [`${l}.${head.head}`, String(head.head)]), important));
  const perHead = [eigenvalueChart, (it, head) => keyChart(it, head, 1), (it, head) => keyChart(it, head, 2), varianceChart];
  return {
    title: `the heads of a model for ${data.group}`,
    body: [
      h("h1", null, `How a trained model solves the word problem of ${data.group}`),
      paragraphs(data.summary),
      averaged || data.elements.length > MOST_ELEMENTS ? note(averaged && `Where a layer sees more than the current token, ` +
        `betas and keys are means over ${data.sequences} test sequences of length ${data.length}, and eigenvalues are those of ` +
        `the mean transition matrix.`,
        data.elements.length > MOST_ELEMENTS &&
          `Charts show the first ${MOST_ELEMENTS} of ${grouped(data.elements.length)} elements.`) : null,
      section("Which head does the work",
        grid([figure(headsChart(data, "sequences")), figure(headsChart(data, "answers"))], "pairs"),
        note(`Measured on ${data.sequences} test sequences of length ${data.length}. “Alone”: the outputs of all other heads ` +
          `of the layer are set to zero. “Without”: the output of this head is. The dashed line is the whole model. A sequence ` +
          `counts as right if every answer in it is right; small figures are binomial 95% intervals (Wilson). The identity is not ` +
          "counted among elements with a beta near 2, since it needs no reflection."),
        headsTable(data)),
      section("Betas", grid(data.layers.map((_, l) => figure(betaChart(data, l))), "single"),
        note("The transition matrix of an element is a product of factors I − beta k kᵀ, applied one after the other. A factor " +
          "with a beta of 2 is a reflection; two reflections make a rotation or, if their keys are equal, the identity.")),
      section("One head", heads.length > 1 ? h("form", { class: "choices" }, forms) : null,
        grid(perHead.map((chart) => figure((choices) => chart(data, chosen(choices)), ["head"]))),
        note("Eigenvalues are those of the transition matrix gate ∏ (I − beta k kᵀ), without the many that equal the gate. A " +
          "rotation has a pair of them on the unit circle; for an element of order n the angles should be multiples of 360°/n.",
          "Principal components are those of the keys of all elements and factors, centred unless a label says otherwise; the " +
          "dashed line is at 95%.")),
    ],
  };
}
