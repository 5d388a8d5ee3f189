// Numbers as text.

export const fixed = (value, decimals = 3) => {
  const text = value.toFixed(decimals);
  return Number(text) === 0 ? (0).toFixed(decimals) : text.replace("-", "−");
};
// 0.9923 -> "99.2%". Only what is exactly so is called 0% or 100%.
export const percent = (share) =>
  share === 0 || share === 1 ? `${100 * share}%` : share < 0.0005 ? "<0.1%" : share > 0.9995 ? ">99.9%" :
    `${(100 * share).toFixed(1)}%`;
export const grouped = (number) => number.toLocaleString("en-US");
export const counted = (number, noun) => `${grouped(number)} ${noun}${number === 1 ? "" : "s"}`;
// 59922 -> "59.9k"
export const shortCount = (number) => {
  for (const [unit, letter] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]])
    if (number >= unit) return `${Number((number / unit).toPrecision(3))}${letter}`;
  return String(number);
};
export const duration = (seconds) =>
  seconds < 60 ? `${Math.round(seconds)} s` : seconds < 3600 ? `${Math.round(seconds / 60)} min` :
    `${(seconds / 3600).toFixed(1)} h`;
// ["a", "b", "c"] -> "a, b and c"
export const listed = (words) => (words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`);
export const degrees = (angle) => `${angle.toFixed(2)}°`;
const TIMES = ["", "", "twice", "three times", "four times", "five times", "six times", "seven times", "eight times",
  "nine times", "ten times"];
export const times = (ratio) => TIMES[ratio] || `${Number(ratio.toPrecision(3))} times`;

// Rows of objects as CSV (RFC 4180); the columns are those of the first row that has them.
export function toCsv(rows) {
  const columns = [...new Set(rows.flatMap(Object.keys))];
  const cell = (value) => {
    const text = String(value ?? "");
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [columns, ...rows.map((row) => columns.map((column) => row[column]))].map((row) =>
    row.map(cell).join(",")).join("\r\n") + "\r\n";
}
