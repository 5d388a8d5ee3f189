import assert from "node:assert/strict";
import path from "node:path";
import { createRequire } from "node:module";
import test from "node:test";
import { drawAutomaton, edgeLabel, mergedEdges, parseWord, stepper, wordText } from "../pages/automaton.js";
import { compiledPage } from "../pages/compiled_page.js";
import { textOf } from "../pages/elements.js";
import { describeMap, geometryOf, multiplyMatrices, planeMapOf, rotationOf, transpositionOf } from "../pages/geometry.js";
import { followWord, stepStatus } from "../pages/walk.js";
import { abAutomaton, abModel, z3Model } from "./made_up.mjs";

globalThis.dagre = createRequire(path.join(process.env.DP_NODE_MODULES, "x"))("@dagrejs/dagre");
const near = (found, expected) =>
  found.forEach((value, i) => assert.ok(Math.abs(value - expected[i]) < 1e-6, `${found}, expected ${expected}`));
const pageText = (data) =>
  compiledPage(data).body.flat(Infinity).filter(Boolean).map(textOf).join("\n").replaceAll("\u00a0", " ");

// Rodrigues' formula.
function rotationMatrix(axis, angle) {
  const size = Math.hypot(...axis), [x, y, z] = axis.map((value) => value / size), c = Math.cos(angle * Math.PI / 180);
  const s = Math.sin(angle * Math.PI / 180);
  return [[c + x * x * (1 - c), x * y * (1 - c) - z * s, x * z * (1 - c) + y * s],
    [y * x * (1 - c) + z * s, c + y * y * (1 - c), y * z * (1 - c) - x * s],
    [z * x * (1 - c) - y * s, z * y * (1 - c) + x * s, c + z * z * (1 - c)]];
}

test("angle and axis of rotations, also small ones and half turns", () => {
  for (const [axis, angle] of [[[1, 2, 3], 72], [[0, 0, -1], 120], [[-1, 0.5, 0], 0.5], [[1, 1, 1], 179.5]]) {
    const found = rotationOf(rotationMatrix(axis, angle)), size = Math.hypot(...axis);
    near([found.degrees, ...found.axis], [angle, ...axis.map((value) => value / size)]);
  }
  const half = rotationOf(rotationMatrix([0, 3, 4], 180));
  near([half.degrees, Math.abs(half.axis[0]), Math.abs(half.axis[1] + half.axis[2])], [180, 0, 1.4]);
  assert.deepEqual(rotationOf(rotationMatrix([1, 0, 0], 0)), { degrees: 0, axis: null });
  near([rotationOf(multiplyMatrices(rotationMatrix([0, 0, 1], 50), rotationMatrix([0, 0, 1], 40))).degrees], [90]);
});

test("isometries of the plane and transpositions", () => {
  assert.equal(planeMapOf([[0, -1], [1, 0]]).degrees, 90);
  near([planeMapOf([[0, 1], [1, 0]]).degrees], [45]);
  assert.equal(planeMapOf([[0, 1], [1, 0]]).mirror, true);
  assert.equal(planeMapOf([[1, 1e-9], [-1e-9, 1]]).degrees, 0, "just below 360 is 0");
  assert.equal(transpositionOf([0, 0.7071, 0, -0.7071]), "(2 4)");
  assert.equal(transpositionOf([0, 0.7071, 0, 0.7071]), "(2 4)");
  assert.equal(transpositionOf([0, 0.6, 0, -0.8]), null);
  const swap = { betas: [2, 0], keys: [[0.7071, -0.7071, 0], [0, 0, 0]], matrix: [[0, 1, 0], [1, 0, 0], [0, 0, 1]] };
  assert.equal(geometryOf({ dimension: 3, maps: [swap] }), "transpositions");
  assert.equal(describeMap(swap, "transpositions"), "(1 2)");
  assert.equal(geometryOf(z3Model.maps), "rotations");
});

test("words are read as dp predict reads them", () => {
  assert.deepEqual(parseWord("ab a", ["a", "b"]), { word: [0, 1, 0] });
  assert.deepEqual(parseWord("(1 2) (1 2)(3 4), (1,2)", ["()", "(1 2)", "(1 2)(3 4)"]), { word: [1, 2, 1] });
  assert.match(parseWord("abc", ["a", "b"]).error, /^“c” is not a symbol of this model\. Its symbols are a, b\.$/);
  assert.deepEqual(parseWord("", ["a"]), { word: [] });
  assert.equal(wordText([1, 2], ["()", "(1 2)", "(1 2)(3 4)"]), "(1 2) (1 2)(3 4)");
});

test("the last element of a product is on the left", () => {
  const s3 = { permutations: [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]], elements: [1, 2] };
  const next = stepper(s3);
  // First (2 3), then (1 2): 1 -> 1 -> 2, 2 -> 3 -> 3, 3 -> 2 -> 1.
  assert.deepEqual(s3.permutations[next(next(0, 0), 1)], [1, 2, 0]);
});

test("a word is followed through states, answers and rotations", () => {
  const steps = followWord(z3Model, [1, 1, 2]);
  assert.deepEqual(steps.map((step) => step.name), ["0", "1", "2", "1"]);
  assert.deepEqual(steps.slice(1).map((step) => step.applies),
    ["rotation by 120.00°", "rotation by 120.00°", "rotation by 120.00°"]);
  assert.equal(steps[2].total, "rotation by 120.00° about (0.000, 0.000, −1.000)");
  assert.match(stepStatus(steps, 2, "group", true),
    /^Symbol 2 of 3, 1 \(rotation by 120\.00°\): the model answers 2, which is right; in all, a rotation by 120\.00° about/);
  const language = followWord(abModel, [0, 1]);
  assert.deepEqual(language.map((step) => step.accepted), [true, false, true]);
  assert.match(stepStatus(language, 2, "language", false), /^Symbol 2 of 2, b: the state is 0; accepted\.$/);
});

test("a wrong answer of the model is shown and said", () => {
  const wrong = { ...abModel, walk: { word: [0, 1], answers: [0, 1, -1] } };
  assert.deepEqual(followWord(wrong, [0, 1]).map((step) => step.right), [true, true, false]);
  assert.match(stepStatus(followWord(wrong, [0, 1]), 2, "language", true), /the model answers none, but the state is 0/);
  assert.match(pageText(wrong), /This model is wrong: its answers to the example below are not those of the automaton\./);
  assert.match(pageText({ ...abModel, check: { words: 20, length: 500, wrong_at: 7 } }),
    /its answer after symbol 7 of a random word is not that of the automaton/);
  assert.match(pageText(abModel), /it is right after every symbol of 20 random words of 500 symbols/);
});

test("the graph has each state and each merged edge once, within its frame", () => {
  const { states, edges } = mergedEdges(abAutomaton);
  assert.deepEqual([states, edges.length], [[0, 1, 2], 5]);
  assert.deepEqual(edges.find(({ from, to }) => from === 2 && to === 2).symbols, [0, 1]);
  for (const vertical of [false, true]) {
    const svg = drawAutomaton(abAutomaton, vertical);
    const of = (name) => svg.children.filter((child) => child.attributes.class === name);
    assert.deepEqual([of("state").length, of("edge").length, of("label").length, of("start").length], [3, 5, 5, 1]);
    assert.equal(of("state").filter((state) => state.children.some((child) => child.attributes.class === "ring")).length, 1,
      "one accepts");
    for (const label of of("label"))
      assert.ok(Number(label.attributes.x) > 0 && Number(label.attributes.x) < svg.attributes.width);
  }
  assert.deepEqual(mergedEdges({ alphabet: ["a"], start: 0, moves: [[0, 1]] }).states, [0],
    "states that the start does not lead to are left out");
});

test("labels of many symbols are short", () => {
  const alphabet = [..."abcdefgh"];
  const label = (count) => edgeLabel(alphabet, { symbols: alphabet.map((_, i) => i).slice(0, count) });
  assert.deepEqual([label(2), label(5), label(7), label(8)], ["a, b", "a, b, c, … (5)", "all but h", "any"]);
});

test("commands: how it was compiled where that is known, and quoted paths", () => {
  assert.match(pageText(abModel),
    /\.\/dp compile regex '\(ab\)\*' --out models\/ab\n\.\/dp verify models\/ab\necho abaa \| \.\/dp predict models\/ab/);
  assert.match(pageText(z3Model), /Verify it, query it\n?\.\/dp verify 'it'\\''s here'\necho '?112'? \|/);
  assert.equal(compiledPage(z3Model).title, "the group Z3, compiled");
});
