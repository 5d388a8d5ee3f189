// Opens a page in Chromium and prints what is to be seen, as JSON. Request on stdin: {browser, modules, page,
// pictures (a folder or null), quick}, and for other pages than that of dp report {looks, choose (a selector of
// a setting to choose), type (a word for a compiled model), name (of the pictures)}. report_test.py and
// analysis_test.py judge.
import fs from "node:fs";
import path from "node:path";
import { createRequire } from "node:module";

const request = JSON.parse(fs.readFileSync(0, "utf8"));
const { chromium } = createRequire(path.join(request.modules, "x"))("playwright-core");
const LOOKS = {
  light: { viewport: { width: 1200, height: 900 }, colorScheme: "light" },
  dark: { viewport: { width: 1200, height: 900 }, colorScheme: "dark" },
  phone: { viewport: { width: 390, height: 740 }, colorScheme: "light", deviceScaleFactor: 2, isMobile: true, hasTouch: true },
};

const problems = [], requests = new Set();
const drawn = (page) => page.waitForSelector("body[data-drawn=yes]");

async function open(browser, look) {
  const context = await browser.newContext(look);
  const page = await context.newPage();
  page.on("console", (message) => { if (["error", "warning"].includes(message.type())) problems.push(message.text()); });
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("dialog", (dialog) => { problems.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  page.on("request", (it) => { if (!it.url().startsWith("data:") && !it.url().startsWith("blob:")) requests.add(it.url()); });
  await page.goto(request.page);
  await drawn(page);
  return page;
}

// Runs in the page.
function measure() {
  const light = (colour) => {  // relative luminance as WCAG defines it
    const parts = colour.match(/[\d.]+/g).slice(0, 3).map((c) => c / 255)
      .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  };
  const body = getComputedStyle(document.body);
  const background = light(body.backgroundColor), text = light(body.color);
  // Pairs of labels of one axis or legend that overlap, and texts beyond the picture.
  const boxes = (list) => list.map((element) =>
    ({ text: element.textContent, box: element.getBoundingClientRect() })).filter(({ text, box }) => text && box.width > 0);
  const shown = (element) => Number(element.getAttribute("opacity") ?? 1) > 0;
  const rotated = (element) => /rotate\((?!0[,)])/.test(element.getAttribute("transform") ?? "");
  const overlaps = (group) => {
    const found = boxes([...group.querySelectorAll("text")].filter((it) => shown(it) && !rotated(it)));
    return found.flatMap((a, i) =>
      found.slice(i + 1).filter((b) => a.box.left < b.box.right - 1 && b.box.left < a.box.right - 1 &&
        a.box.top < b.box.bottom - 1 && b.box.top < a.box.bottom - 1).map((b) => `${a.text} | ${b.text}`));
  };
  const outside = (chart) => {
    const frame = chart.getBoundingClientRect();
    return boxes([...chart.querySelectorAll("svg text")].filter(shown)).filter(({ box }) => box.left < frame.left - 1 ||
      box.right > frame.right + 1 || box.bottom > frame.bottom + 1).map(({ text }) => text);
  };
  const charts = [...document.querySelectorAll(".chart")].map((chart) => ({
    overlaps: [...chart.querySelectorAll("svg .role-axis-label, svg .role-legend, svg .role-title")].flatMap(overlaps),
    outside: outside(chart),
    lines: chart.querySelectorAll("svg .mark-line.role-mark path").length,
    title: chart.querySelector("svg .role-title-text text")?.textContent,
    bars: chart.querySelectorAll("svg .mark-rect.role-mark path").length,
    points: chart.querySelectorAll("svg .mark-symbol.role-mark path").length,
    dashed: chart.querySelectorAll("svg .mark-rule.role-mark line[stroke-dasharray]").length,
    legend: [...chart.querySelectorAll("svg .role-legend-label text")].map((label) => label.textContent),
    width: chart.querySelector("svg.marks").getBoundingClientRect().width,
    room: chart.clientWidth - 2 * parseFloat(getComputedStyle(chart).paddingLeft),
  }));
  const cut = [...document.querySelectorAll("td, th, p, h1, h2, pre")].filter((it) =>
    it.getBoundingClientRect().right > innerWidth + 1 || it.scrollWidth > it.clientWidth + 1)
    .filter((it) => it.getBoundingClientRect().width > 0).map((it) => it.textContent);
  return {
    charts, cut, background, page_width: document.documentElement.scrollWidth, window_width: innerWidth,
    contrast: (Math.max(background, text) + 0.05) / (Math.min(background, text) + 0.05),
  };
}

async function use(page) {
  const answer = {};
  const first = page.locator(".chart").first();
  const box = await first.locator("svg.marks").boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  await page.mouse.move(box.x + box.width / 2 + 3, box.y + box.height / 2);
  answer.tooltip = await page.locator("#vg-tooltip-element.visible").innerText();
  if (request.pictures) await page.screenshot({ path: path.join(request.pictures, "tooltip.png") });
  await page.check("input[value=answers]");
  await drawn(page);
  answer.answers_subtitle = await first.locator("svg.marks .role-title-subtitle text").textContent();
  await page.check("input[value=log]");
  await drawn(page);
  answer.log_ticks = await first.locator("svg.marks .role-axis-label").first().locator("text").allTextContents();
  if (request.pictures) await page.screenshot({ path: path.join(request.pictures, "answers-log.png") });
  const header = page.getByRole("button", { name: "parameters" });
  const column = await page.locator(".runs th").allTextContents().then((names) => names.indexOf("parameters"));
  await header.click();
  await header.click();
  answer.sorted = await page.locator(`.runs tbody tr td:nth-child(${column + 1})`).evaluateAll((cells) =>
    cells.map((cell) => cell.dataset.value));
  await first.locator("summary").click();
  answer.exports = await first.locator(".vega-actions a").allTextContents();
  const [download] = await Promise.all([page.waitForEvent("download"), first.locator(".vega-actions a").first().click()]);
  answer.svg = fs.readFileSync(await download.path(), "utf8").slice(0, 200);
  const [table] = await Promise.all(
    [page.waitForEvent("download"), page.locator(".chart").nth(0).locator(".vega-actions a").last().click()]);
  answer.csv = fs.readFileSync(await table.path(), "utf8");
  await page.locator("tbody a").last().click();
  // The event that opens it comes a moment after the click.
  answer.opened = await page.waitForFunction(() => document.querySelector(location.hash).open).then(() => true, () => false);
  return answer;
}

// A word is followed, if the page can: by slider, by click, by the button, and as typed.
async function stroll(page) {
  const look = () => page.evaluate(() => {
    const walk = document.querySelector(".walk");
    const list = (selector, field) => [...walk.querySelectorAll(selector)].map((element) => element.dataset[field]);
    return {
      steps: walk.querySelectorAll(".strip li").length, wrong: walk.querySelectorAll(".strip .wrong").length,
      states: list(".strip li", "state"), now: list(".strip .now", "state"), state: list("svg .state.now", "state"),
      edge: list("svg .edge.now", "edge"),
      visited: list("svg .state.visited", "state"), status: walk.querySelector("output").textContent,
      answers: [...walk.querySelectorAll(".strip .answer")].map((answer) => answer.textContent),
      colour: getComputedStyle(walk.querySelector("svg .state.now .rim") ?? walk).fill,
    };
  });
  const answer = { first: await look() };
  const slider = page.locator(".walk input[type=range]");
  await slider.fill("3");
  answer.third = await look();
  await slider.fill(String(answer.first.steps - 2));
  await page.locator(".walk .play").click();
  answer.playing = await page.locator(".walk .play").textContent();
  await page.waitForFunction(() => document.querySelector(".walk .strip li:last-child").classList.contains("now"));
  answer.button = await page.locator(".walk .play").textContent();
  answer.last = await look();
  await page.locator(".strip li").nth(1).click();
  answer.clicked = await look();
  answer.states = await page.locator("svg .state").count();
  answer.edges = await page.locator("svg .edge").count();
  answer.labels = await page.locator("svg .label").evaluateAll((labels) => labels.map((label) => label.firstChild.textContent));
  return answer;
}

async function typeWord(page) {
  const field = page.locator(".walk input[name=word]"), answers = () => page.locator(".strip .answer").allTextContents();
  await field.fill(`${request.type} unknown!`);
  const error = await page.locator(".walk .error").textContent();
  await field.fill(request.type);
  const list = (selector) => page.locator(selector).evaluateAll((found) => found.map((it) => it.dataset.state));
  return { error, answers: await answers(), status: await page.locator(".walk output").textContent(),
    state: await list("svg .state.now"), cleared: await page.locator(".walk .error").textContent(),
    steps: await page.locator(".walk .details tbody tr").evaluateAll((rows) =>
             rows.map((row) => [...row.cells].map((cell) => cell.textContent))) };
}

const browser = await chromium.launch(
  { executablePath: request.browser,
    args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
      "--disable-sync"] });
try {
  const answer = { looks: {} };
  const looks = request.looks ?? (request.quick ? ["light"] : Object.keys(LOOKS));
  for (const name of looks) {
    const page = await open(browser, LOOKS[name]);
    answer.looks[name] = await page.evaluate(measure);
    if (request.pictures && (request.looks || !request.quick))
      await page.screenshot({ path: path.join(request.pictures, `${request.name ? `${request.name}-` : ""}${name}.png`),
          fullPage: true });
    if (name === "light") {
      answer.tables = await page.evaluate(() =>
        Object.fromEntries([...document.querySelectorAll("table[class]")].map((it) =>
            [it.classList[0], [...it.tBodies[0].rows].map((row) =>
                [...row.cells].map((cell) => cell.innerText.replaceAll("\u00a0", " ")))])));
      answer.commands = await page.locator("pre.command").allTextContents();
      answer.title = await page.title();
      answer.text = (await page.locator("main").innerText()).replaceAll("\u00a0", " ");
      answer.scripts = await page.locator("script").count();
      if (request.choose) {
        await page.check(request.choose);
        await drawn(page);
        answer.chosen = await page.evaluate(measure);
      }
      if (await page.locator(".walk").count()) answer.walk = await stroll(page);
      if (request.type) answer.typed = await typeWord(page);
      if (!request.quick) Object.assign(answer, await use(page));
    }
  }
  console.log(JSON.stringify({ ...answer, problems, requests: [...requests] }));
} finally {
  await browser.close();
}
