// Seeds and shares: means, deviations, intervals.

export const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
export function median(values) {
  const sorted = [...values].sort((a, b) => a - b), middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}
// The sample's standard deviation, with n - 1; needs two values.
export const deviation = (values) =>
  Math.sqrt(values.reduce((sum, value) => sum + (value - mean(values)) ** 2, 0) / (values.length - 1));

const Z = 1.959964;
// The 97.5 % quantile of Student's t distribution: tabulated for few degrees of freedom, then a series in 1 / freedom.
const STUDENT = [NaN, 12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.306, 2.2622, 2.2281];
export const student = (freedom) => STUDENT[freedom] ??
  Z + (Z ** 3 + Z) / (4 * freedom) + (5 * Z ** 5 + 16 * Z ** 3 + 3 * Z) / (96 * freedom ** 2) + (
    3 * Z ** 7 + 19 * Z ** 5 + 17 * Z ** 3 - 15 * Z) / (384 * freedom ** 3);

// A 95 % confidence interval of the mean over seeds, which are taken to be normal; null for one. `range` is what is possible.
export function seedInterval(values, range = [-Infinity, Infinity]) {
  if (values.length < 2) return null;
  const half = student(values.length - 1) * deviation(values) / Math.sqrt(values.length);
  return [Math.max(range[0], mean(values) - half), Math.min(range[1], mean(values) + half)];
}

// Wilson's 95 % interval of a share that was measured on `trials` independent trials.
export function shareInterval(share, trials) {
  const centre = (share + Z * Z / (2 * trials)) / (1 + Z * Z / trials);
  const half = Z * Math.sqrt(share * (1 - share) / trials + Z * Z / (4 * trials * trials)) / (1 + Z * Z / trials);
  return [share === 0 ? 0 : centre - half, share === 1 ? 1 : centre + half];
}
