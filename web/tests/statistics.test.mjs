import assert from "node:assert/strict";
import test from "node:test";
import { deviation, mean, median, seedInterval, shareInterval, student } from "../pages/statistics.js";

const near = (found, expected, tolerance = 1e-4) =>
  assert.ok(Math.abs(found - expected) < tolerance, `${found}, expected ${expected}`);

test("means, medians and deviations", () => {
  assert.equal(mean([1, 2, 6]), 3);
  assert.equal(median([6, 1, 2]), 2);
  assert.equal(median([6, 1]), 3.5);
  near(deviation([2, 4, 4, 4, 5, 5, 7, 9]), 2.13809);
});

test("quantiles of Student's t as tables have them", () => {
  for (const [freedom, expected] of [[1, 12.7062], [2, 4.3027], [10, 2.2281], [11, 2.2010], [30, 2.0423], [100, 1.9840]])
    near(student(freedom), expected, 2e-4);
});

test("an interval over seeds needs two and stays within what is possible", () => {
  assert.equal(seedInterval([0.5]), null);
  const [low, high] = seedInterval([0.7, 0.8, 0.9]);  // 0.8 ± 4.3027 * 0.1 / sqrt(3)
  near(low, 0.55159), near(high, 1.04841);
  assert.deepEqual(seedInterval([0.9, 1], [0, 1])[1], 1);
});

test("Wilson's interval", () => {
  const [low, high] = shareInterval(0.8, 10);
  near(low, 0.49016), near(high, 0.94332);
  assert.equal(shareInterval(1, 512)[1], 1);
  near(shareInterval(1, 512)[0], 0.99255);
  assert.equal(shareInterval(0, 512)[0], 0);
});
