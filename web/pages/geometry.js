// Orthogonal matrices for people: angles, axes, mirrors and transpositions. A matrix is a list of rows.
import { degrees } from "./numbers.js";

const DEGREES = 180 / Math.PI;
const TINY = 1e-4;  // radians, and entries of matrices, that are rounding

export const multiplyMatrices = (a, b) =>
  a.map((row) => b[0].map((_, j) => row.reduce((sum, value, i) => sum + value * b[i][j], 0)));
export const identityMatrix = (n) => Array.from({ length: n }, (_, i) => Array.from({ length: n }, (_, j) => Number(i === j)));

function determinant(m) {
  if (m.length === 2) return m[0][0] * m[1][1] - m[0][1] * m[1][0];
  return [0, 1, 2].reduce((sum, i) =>
    sum + m[0][i] * (m[1][(i + 1) % 3] * m[2][(i + 2) % 3] - m[1][(i + 2) % 3] * m[2][(i + 1) % 3]), 0);
}

// A rotation of three dimensions: {degrees: from 0 to 180, axis: unit vector, or null if nothing turns}, counterclockwise when seen from
// the tip of the axis; of 180 degrees, either of the two axes.
export function rotationOf(m) {
  const twice = [m[2][1] - m[1][2], m[0][2] - m[2][0], m[1][0] - m[0][1]], sine = Math.hypot(...twice) / 2;
  const cosine = (m[0][0] + m[1][1] + m[2][2] - 1) / 2;
  const angle = Math.atan2(sine, cosine);
  if (angle < TINY) return { degrees: 0, axis: null };
  // The symmetric part is cos I + (1 - cos) a a^T: good at all angles that are not small, but for the sign.
  const most = [0, 1, 2].reduce((best, i) => (m[i][i] > m[best][best] ? i : best), 0);
  const axis = [0, 1, 2].map((i) => (m[i][most] + m[most][i]) / 2 - (i === most ? cosine : 0));
  const along = axis.reduce((sum, value, i) => sum + value * twice[i], 0);
  const size = Math.hypot(...axis) * (along < 0 && sine > TINY ? -1 : 1);
  return { degrees: angle * DEGREES, axis: axis.map((value) => value / size) };
}

// An isometry of the plane: {mirror, degrees: of a rotation below 360, of a mirror with the first axis, below 180}.
export function planeMapOf(m) {
  const wrapped = (angle, period) => {
    const within = (angle + period) % period;
    return within > period - TINY * DEGREES ? 0 : within;
  };
  const angle = Math.atan2(m[1][0], m[0][0]) * DEGREES;
  return determinant(m) > 0 ? { mirror: false, degrees: wrapped(angle, 360) } :
    { mirror: true, degrees: wrapped(angle / 2, 180) };
}

// The rows that a reflection with this key exchanges, as "(1 2)", with or without a change of both signs; null if it does
// something else.
export function transpositionOf(key) {
  const used = key.flatMap((value, i) => (Math.abs(value) > 0.01 ? [i] : []));
  return used.length === 2 && Math.abs(Math.abs(key[used[0]]) - Math.abs(key[used[1]])) <= 0.01 ? `(${used[0] + 1} ${used[1] + 1})` : null;
}
export const transpositionsOf = (map) => map.keys.map((key, j) => (map.betas[j] === 0 ? null : transpositionOf(key)));

// What all maps of a model are: "transpositions" (every factor exchanges two rows), "plane", "rotations" (of three dimensions), "other".
export function geometryOf({ dimension, maps }) {
  if (dimension === 3 && maps.every((map) => determinant(map.matrix) > 0)) return "rotations";
  if (dimension > 2 && maps.every((map) => map.keys.every((key, j) => map.betas[j] === 0 || transpositionOf(key))))
    return "transpositions";
  return dimension === 2 ? "plane" : "other";
}

export const axisText = (axis) =>
  `(${axis.map((value) => value.toFixed(3).replace(/^-0\.000$/, "0.000").replace("-", "−")).join(", ")})`;

// "rotation by 72.00°", "mirror at 36.00°"
export function describeMatrix(m, geometry, withAxis = false) {
  if (geometry === "plane") {
    const map = planeMapOf(m);
    return `${map.mirror ? "mirror at" : "rotation by"} ${degrees(map.degrees)}`;
  }
  const rotation = rotationOf(m);
  return rotation.axis === null ? "no rotation" :
    `rotation by ${degrees(rotation.degrees)}${withAxis ? ` about ${axisText(rotation.axis)}` : ""}`;
}

// Of a map: that, or "(1 2), then (2 3)", or the angles of its eigenvalues.
export function describeMap(map, geometry) {
  if (geometry === "transpositions") return transpositionsOf(map).filter(Boolean).join(", then ") || "nothing";
  return geometry === "other" ? `eigenvalues at ${map.angles.map(degrees).join(", ")}` : describeMatrix(map.matrix, geometry);
}

// A number to sort by: the angle, or how many factors act.
export function sizeOfMap(map, geometry) {
  if (geometry === "plane") { const plane = planeMapOf(map.matrix); return plane.degrees + (plane.mirror ? 360 : 0); }
  return geometry === "rotations" ? rotationOf(map.matrix).degrees : map.betas.filter((beta) => beta !== 0).length;
}
