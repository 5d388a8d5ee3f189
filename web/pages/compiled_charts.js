// Charts of what the weights of a compiled model do.
import { circleLayer, circleRows, columnLabels, fitted, legendBelow, GREY, planeAxis, square, tooltip } from "./charts.js";
import { axisText, planeMapOf, rotationOf, sizeOfMap, transpositionsOf } from "./geometry.js";
import { degrees } from "./numbers.js";

export const MOST_SHOWN = 240;  // more rows or columns would not be a picture
const ORDER_COLOURS = ["#8a8f98", "#f58518", "#4c78a8", "#b279a2", "#54a24b", "#e45756", "#72b7b2", "#9d755d", "#eeca3b"];
const labelOf = (data, i) => `${data.along_word ? `${i + 1}: ` : ""}${data.maps[i].name}`;

// Every order has its colour, the same in all charts; `least` is the least that occurs in this one.
function orderColour(data, least, width) {
  const orders = [...new Set([1, ...data.maps.map((map) => map.order)])].sort((a, b) => a - b);
  const colours = orders.map((order, i) => [order, ORDER_COLOURS[Math.min(i, ORDER_COLOURS.length - 1)]]).filter(([order]) =>
    order >= least);
  return { field: "order", type: "nominal",
    scale: { domain: colours.map(([order]) => order), range: colours.map(([, colour]) => colour) },
    legend: legendBelow(colours.map(([order]) => order), width, "order") };
}

// A little from the right and from above, so that no axis of a solid is on the rim; from behind it is the same solid with its other
// side to the front. The third coordinate points to who looks.
function seenFrom([a, b, c], front) {
  const turn = 70 * Math.PI / 180, tilt = 21 * Math.PI / 180;
  const x = Math.cos(turn) * a + Math.sin(turn) * b, depth = -Math.sin(turn) * a + Math.cos(turn) * b;
  const y = Math.cos(tilt) * c - Math.sin(tilt) * depth, z = Math.sin(tilt) * c + Math.cos(tilt) * depth;
  return front ? [x, y, z] : [-x, y, -z];
}

// Of all rotations but the identity; one by 180 degrees has two axes.
function axesOf(data) {
  return data.maps.flatMap((map) => {
    const { degrees: angle, axis } = rotationOf(map.matrix);
    return axis === null ? [] : (angle > 179.9 ? [axis, axis.map((value) => -value)] : [axis]).map((at) => ({ map, at, angle }));
  });
}

// Lines on the sphere between the nearest of the axes of highest order, as far as they are on this side.
function solidRows(axes, front) {
  const order = Math.max(3, ...axes.map(({ map }) => map.order)), own = axes.filter(({ map }) => map.order === order);
  const least = Math.min(...own.map(({ angle }) => angle));
  const corners = own.filter(({ angle }) => angle < least + 1).map(({ at }) => seenFrom(at, front));
  const apart = (a, b) => Math.hypot(...a.map((value, i) => value - b[i]));
  const pairs = corners.flatMap((a, i) => corners.slice(i + 1).map((b) => [a, b])).filter(([a, b]) => apart(a, b) < 1.99);
  const nearest = Math.min(...pairs.map(([a, b]) => apart(a, b)).filter((distance) => distance > 0.01));
  return pairs.filter(([a, b]) => apart(a, b) > 0.01 &&
    apart(a, b) <= 1.01 * nearest).flatMap(([a, b], line) => Array.from({ length: 13 }, (_, i) => {
      const at = a.map((value, c) => value + (b[c] - value) * i / 12), size = Math.hypot(...at);
      return { line, i, x: at[0] / size, y: at[1] / size, z: at[2] };
    }).filter((row) => row.z >= 0));
}

// Axes of rotations as points on a sphere, seen from the front or from behind.
export function sphereChart(data, front) {
  const limit = 1.08, axes =
    axesOf(data).sort((a, b) => b.angle - a.angle);  // large rings first: what is on top can be pointed at
  const rows = axes.map(({ map, at, angle }) => {
    const [x, y, z] = seenFrom(at, front);
    return { x, y, z, degrees: angle, order: map.order, element: map.name, angle: degrees(angle), axis: axisText(at) };
  }).filter((row) => row.z >= 0);
  return {
    title: front ? "Axes, from the front" : "Axes, from behind", subtitle: "a ring for each rotation; its size is the angle",
    description: "Axes of all rotations on a sphere; larger rings are larger angles",
    data: { circle: circleRows, solid: solidRows(axes, front), axes: rows },
    csv: rows.map(({ element, order, degrees: angle, axis }) => ({ element, order, "angle in degrees": angle, axis })),
    spec: (width) => ({ ...square(width), layer: [
      circleLayer(limit),
      { data: { name: "solid" }, mark: { type: "line", color: GREY, opacity: 0.55, strokeWidth: 1, tooltip: null },
        encoding: { x: planeAxis("x", limit), y: planeAxis("y", limit), detail: { field: "line" },
          order: { field: "i", type: "quantitative" } } },
      { data: { name: "axes" }, mark: { type: "point", strokeWidth: 2.5, fill: "transparent", opacity: 1 },
        encoding: { x: planeAxis("x", limit), y: planeAxis("y", limit),
        size: { field: "degrees", type: "quantitative", scale: { type: "pow", exponent: 2, domain: [0, 180], range: [0, 400] },
          legend: null }, color: orderColour(data, 2, width),
        tooltip: tooltip({ element: "element", order: "order", angle: "angle", axis: "axis" }) } }] }),
  };
}

// How many rotations there are of each angle and order.
export function angleChart(data) {
  const counts = new Map();
  for (const map of data.maps) {
    const key = JSON.stringify([Math.round(100 * rotationOf(map.matrix).degrees) / 100, map.order]);
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  const rows = [...counts].map(([key, count]) => {
    const [angle, order] = JSON.parse(key);
    return { size: angle, angle: degrees(angle), order, count };
  }).sort((a, b) => a.size - b.size || a.order - b.order);
  return {
    title: "Angles", subtitle: data.along_word ? "symbols of the word by angle" : "elements of the alphabet by angle",
    description: "How many elements rotate by each angle",
    data: { angles: rows }, csv: rows.map(({ size, order, count }) => ({ "angle in degrees": size, order, count })),
    spec: (width) => ({ ...fitted(270), data: { name: "angles" }, mark: "bar", encoding: {
      x: { field: "angle", type: "nominal", sort: null, axis: { title: null, labelAngle: rows.length > 5 ? -40 : 0 } },
      y: { field: "count", type: "quantitative", axis: { title: null, tickMinStep: 1, tickCount: 5 } },
      color: orderColour(data, 1, width), tooltip: tooltip({ angle: "angle", order: "order", count: "elements" }) } }),
  };
}

// Isometries of the plane: where rotations take a point of the circle, and mirrors.
export function planeChart(data) {
  const limit = 1.35, places = new Map();  // several tokens of a word can share one
  data.maps.slice(0, MOST_SHOWN).forEach((map, i) => {
    const { mirror, degrees: angle } = planeMapOf(map.matrix), key = JSON.stringify([mirror, Math.round(100 * angle) / 100]);
    places.set(key, [...(places.get(key) ?? []), labelOf(data, i)]);
  });
  const rows = [...places].map(([key, names]) => {
    const [mirror, angle] = JSON.parse(key), x = Math.cos(angle * Math.PI / 180), y = Math.sin(angle * Math.PI / 180);
    const length = mirror ? 0.88 : 1;
    return { element: names.join(", "), kind: mirror ? "mirror" : "rotation", angle: degrees(angle), degrees: angle,
      x: length * x, y: length * y, x2: -length * x, y2: -length * y,
             // Of a mirror, beside the line: its end can be where a rotation is.
             labelX: mirror ? 0.74 * x + 0.09 * y : 1.2 * x, labelY: mirror ? 0.74 * y - 0.09 * x : 1.2 * y };
  });
  const kinds = [["rotation", "#4c78a8"], ["mirror", "#f58518"]].filter(([kind]) => rows.some((row) => row.kind === kind));
  const [x, y] = [planeAxis("x", limit), planeAxis("y", limit)];
  const shown = tooltip({ element: data.along_word ? "symbols" : "element", kind: "is a", angle: "at" });
  const colour = (width) =>
    ({ field: "kind", type: "nominal", scale: { domain: kinds.map(([kind]) => kind), range: kinds.map(([, it]) => it) },
        legend: legendBelow(kinds.map(([kind]) => kind), width) });
  return {
    title: "The plane of the state", subtitle: "where rotations take the point at 0°, and mirrors",
    description: "Rotations as points of a circle, reflections as their mirrors",
    data: { circle: circleRows, mirrors: rows.filter((row) => row.kind === "mirror"),
      rotations: rows.filter((row) => row.kind === "rotation"),
      labels: data.along_word || rows.length > 26 ? [] : rows.filter((row) => row.element.length <= 8) },
    csv: rows.map(({ element, kind, degrees: angle }) => ({ element, kind, degrees: angle })),
    spec: (width) => ({ ...square(width), layer: [
      circleLayer(limit),
      { data: { name: "mirrors" }, mark: { type: "rule", strokeWidth: 2.5 },
        encoding: { x, y, x2: { field: "x2" }, y2: { field: "y2" }, color: colour(width), tooltip: shown } },
      { data: { name: "rotations" }, mark: { type: "point", filled: true, size: 90, opacity: 1 },
        encoding: { x, y, color: colour(width), tooltip: shown } },
      { data: { name: "labels" }, mark: { type: "text", fontSize: 11 },
        encoding: { x: planeAxis("labelX", limit), y: planeAxis("labelY", limit),
          text: { field: "element", type: "nominal" } } }] }),
  };
}

// A column for each map, a row for each factor: what it exchanges.
export function transpositionChart(data) {
  const order = data.maps.map((_, i) => i);
  if (!data.along_word) order.sort((i, j) =>
    sizeOfMap(data.maps[i], "transpositions") - sizeOfMap(data.maps[j], "transpositions") ||
      data.maps[i].order - data.maps[j].order || i - j);
  const columns = order.slice(0, MOST_SHOWN), factors = data.maps[0].keys.map((_, j) => `factor ${j + 1}`);
  const rows = columns.flatMap((i) =>
    transpositionsOf(data.maps[i]).flatMap((swap, j) =>
      (swap === null ? [] : [{ element: labelOf(data, i), order: data.maps[i].order, factor: factors[j], swap }])));
  const swaps = [...new Set(rows.map((row) => row.swap))].sort();
  return {
    title: "Factors as transpositions",
    subtitle: `${data.along_word ? "along the word" : "elements by number of factors"}; the factor that acts first is on top`,
    description: "Which two rows of the state each factor exchanges, by element",
    data: { factors: rows },
    csv: rows.map(({ element, order: size, factor, swap }) => ({ element, order: size, factor, exchanges: swap })),
    spec: (width) => ({ ...fitted(Math.max(60, factors.length * 30)), data: { name: "factors" }, mark: "rect", encoding: {
      x: { field: "element", type: "nominal", scale: { domain: columns.map((i) => labelOf(data, i)) },
        axis: columnLabels(columns.map((i) => labelOf(data, i)), width) },
      y: { field: "factor", type: "nominal", scale: { domain: factors }, axis: { title: null } },
      color: { field: "swap", type: "nominal", scale: { domain: swaps, scheme: swaps.length > 10 ? "tableau20" : "tableau10" },
        legend: legendBelow(swaps, width, "exchanges rows") },
      tooltip: tooltip({ element: data.along_word ? "symbol" : "element", order: "order", factor: "which",
          swap: "exchanges rows" }) } }),
  };
}
