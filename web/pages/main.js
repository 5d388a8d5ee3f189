// Shows the data of a page: builds its elements, then draws charts in the reader's colours and the chosen settings.
import { toDom } from "./elements.js";
import { toCsv } from "./numbers.js";
import { analysisPage } from "./analysis_page.js";
import { compiledPage } from "./compiled_page.js";
import { experimentsPage } from "./experiments_page.js";
import { reportPage } from "./report_page.js";
import { theoryPage } from "./theory_page.js";

const PAGES = { analysis: analysisPage, compiled: compiledPage, experiments: experimentsPage, report: reportPage, theory: theoryPage };

const data = JSON.parse(document.getElementById("data").textContent), page = PAGES[data.page](data);
document.title = `DeltaProduct: ${page.title}`;
const content = document.querySelector("main");
content.replaceChildren(...page.body.flat(Infinity).filter(Boolean).map((node) => toDom(node)));

const dark = matchMedia("(prefers-color-scheme: dark)"), figures = [...content.querySelectorAll("figure.chart")];
const chosenSettings = () =>
  Object.fromEntries([...content.querySelectorAll(".choice input:checked")].map((input) => [input.name, input.value]));

// Text in lines of at most `width` pixels; words that are too long are broken.
const canvas = document.createElement("canvas").getContext("2d");
function wrapped(text, width, font) {
  canvas.font = font;
  const fits = (line) => canvas.measureText(line).width <= width, lines = [""];
  for (let word of text.split(" ")) {
    const longer = lines.at(-1) ? `${lines.at(-1)} ${word}` : word;
    if (fits(longer)) { lines[lines.length - 1] = longer; continue; }
    if (lines.at(-1)) lines.push("");
    for (; !fits(word); word = word.slice(lines.at(-1).length), lines.push("")) {
      let end = word.length;
      while (end > 1 && !fits(word.slice(0, end))) --end;
      lines[lines.length - 1] = word.slice(0, end);
    }
    lines[lines.length - 1] = word;
  }
  return lines;
}

function saveLink(element, chart, name) {
  const link = document.createElement("a");
  link.textContent = "Save data as CSV";
  link.href = "#";
  link.addEventListener("click", (event) => {
    event.preventDefault();
    const url = URL.createObjectURL(new Blob([toCsv(chart.csv)], { type: "text/csv" })), download = document.createElement("a");
    download.href = url, download.download = `${name}.csv`;
    download.click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
  });
  element.querySelector(".vega-actions")?.append(link);
}

const views = new Map();  // element -> what vega-embed gave for it
async function draw(element) {
  const chart = element.chart(chosenSettings()), style = getComputedStyle(document.body), width = element.clientWidth - 18;
  const line = style.getPropertyValue("--line"), quiet = style.getPropertyValue("--quiet");
  const name = `${chart.title} ${chart.subtitle}`.replace(/[^\w]+/g, "-");
  views.get(element)?.finalize();
  views.set(element, await vegaEmbed(element, {
    ...chart.spec(width), description: chart.description, datasets: chart.data,
    title: { text: wrapped(chart.title, width - 40, `bold 15px ${style.fontFamily}`),
      subtitle: wrapped(chart.subtitle, width - 40, `12px ${style.fontFamily}`), anchor: "start", frame: "bounds" },
  }, {
    mode: "vega-lite", renderer: "svg", theme: dark.matches ? "dark" : undefined, downloadFileName: name,
    actions: { export: { svg: true, png: true }, source: false, compiled: false, editor: false },
    tooltip: { theme: dark.matches ? "dark" : "light" },
    config: {
      background: "transparent", font: style.fontFamily, view: { stroke: null },
      axis: { labelFontSize: 11, titleFontSize: 11, titleFontWeight: "normal", domainColor: quiet, tickColor: quiet,
        gridColor: line },
      legend: { labelFontSize: 12, titleFontSize: 12, titleFontWeight: "normal" },
      title: { fontSize: 15, subtitleFontSize: 12, subtitlePadding: 4, subtitleColor: style.color, color: style.color },
      text: { color: style.color }, rule: { color: style.color },
    },
  }));
  saveLink(element, chart, name);
}

// One after the other: a change while drawing waits for its turn.
let turn = Promise.resolve();
const redraw = (which) => {
  turn = turn.then(async () => {
    document.body.dataset.drawn = "no";
    for (const element of which) await draw(element);
    document.body.dataset.drawn = "yes";
  });
};
redraw(figures);
dark.addEventListener("change", () => redraw(figures));
content.addEventListener("change", (event) => {
  if (event.target.closest(".choice"))
    redraw(figures.filter((element) => element.getAttribute("uses").split(" ").includes(event.target.name)));
});
let drawnWidth = innerWidth, waiting = 0;
addEventListener("resize", () => {
  clearTimeout(waiting);
  waiting = setTimeout(() => { if (innerWidth !== drawnWidth) { drawnWidth = innerWidth; redraw(figures); } }, 200);
});

// A link to a run opens its settings.
const openTarget = () => {
  const target = document.getElementById(location.hash.slice(1));
  if (target instanceof HTMLDetailsElement) { target.open = true; target.scrollIntoView(); }
};
addEventListener("hashchange", openTarget);
openTarget();
