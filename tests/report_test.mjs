// Opens a report in Chromium and prints what is to be seen, as JSON. Request on stdin: {browser, modules,
// page, pictures (a folder or null), quick}, and for other pages than that of dp report {looks, choose (a
// selector of a setting to choose), name (of the pictures)}. report_test.py and analysis_test.py judge.
import fs from "node:fs";
import path from "node:path";
import { createRequire } from "node:module";

const request = JSON.parse(fs.readFileSync(0, "utf8"));
const { chromium } = createRequire(path.join(request.modules, "x"))("playwright-core");
const LOOKS = {
  light: { viewport: { width: 1280, height: 900 }, colorScheme: "light" },
  dark: { viewport: { width: 1280, height: 900 }, colorScheme: "dark" },
  phone: { viewport: { width: 375, height: 740 }, colorScheme: "light", deviceScaleFactor: 2, isMobile: true, hasTouch: true },
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
  const charts = [...document.querySelectorAll(".chart")].map((chart) => ({
    lines: chart.querySelectorAll("svg .mark-line.role-mark path").length,
    title: chart.querySelector("svg .role-title-text text")?.textContent,
    bars: chart.querySelectorAll("svg .mark-rect.role-mark path").length,
    points: chart.querySelectorAll("svg .mark-symbol.role-mark path").length,
    dashed: chart.querySelectorAll("svg .mark-rule.role-mark line[stroke-dasharray]").length,
    legend: [...chart.querySelectorAll("svg .role-legend-label text")].map((label) => label.textContent),
    width: chart.querySelector("svg.marks").getBoundingClientRect().width,
    room: chart.clientWidth - 2 * parseFloat(getComputedStyle(chart).paddingLeft),
  }));
  return {
    charts, background, page_width: document.documentElement.scrollWidth, window_width: innerWidth,
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
  const column = await page.locator("th").allTextContents().then((names) => names.indexOf("parameters"));
  await header.click();
  await header.click();
  answer.sorted = await page.locator(`tbody tr td:nth-child(${column + 1})`).evaluateAll((cells) => cells.map((cell) => cell.dataset.value));
  await first.locator("summary").click();
  answer.exports = await first.locator(".vega-actions a").allTextContents();
  const [download] = await Promise.all([page.waitForEvent("download"), first.locator(".vega-actions a").first().click()]);
  answer.svg = fs.readFileSync(await download.path(), "utf8").slice(0, 200);
  await page.locator("tbody a").last().click();
  // The event that opens it comes a moment after the click.
  answer.opened = await page.waitForFunction(() => document.querySelector(location.hash).open).then(() => true, () => false);
  return answer;
}

// A word walked through a graph, if the page has one: by slider, by click and by the button.
async function stroll(page) {
  const look = () => page.evaluate(() => {
    const walk = document.querySelector(".walk");
    const list = (selector, field) => [...walk.querySelectorAll(selector)].map((element) => element.dataset[field]);
    return {
      steps: walk.querySelectorAll(".strip li").length, wrong: walk.querySelectorAll(".strip .wrong").length,
      now: list(".strip .now", "state"), state: list("svg .state.now", "state"), edge: list("svg .edge.now", "edge"),
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
  await page.locator(".walk button").click();
  answer.playing = await page.locator(".walk button").textContent();
  await page.waitForFunction(() => document.querySelector(".walk .strip li:last-child").classList.contains("now"));
  answer.button = await page.locator(".walk button").textContent();
  answer.last = await look();
  await page.locator(".strip li").nth(1).click();
  answer.clicked = await look();
  answer.states = await page.locator("svg .state").count();
  answer.edges = await page.locator("svg .edge").count();
  answer.labels = await page.locator("svg .label").evaluateAll((labels) => labels.map((label) => label.firstChild.textContent));
  return answer;
}

const browser = await chromium.launch({ executablePath: request.browser, args: ["--no-sandbox", "--disable-gpu"] });
try {
  const answer = { looks: {} };
  const looks = request.looks ?? (request.quick ? ["light"] : Object.keys(LOOKS));
  for (const name of looks) {
    const page = await open(browser, LOOKS[name]);
    answer.looks[name] = await page.evaluate(measure);
    if (request.pictures && (request.looks || !request.quick))
      await page.screenshot({ path: path.join(request.pictures, `${request.name ? `${request.name}-` : ""}${name}.png`), fullPage: true });
    if (name === "light") {
      answer.title = await page.title();
      answer.text = await page.locator("body").innerText();
      answer.scripts = await page.locator("script").count();
      if (request.choose) {
        await page.check(request.choose);
        await drawn(page);
        answer.chosen = await page.evaluate(measure);
      }
      if (await page.locator(".walk").count()) answer.walk = await stroll(page);
      if (!request.quick) Object.assign(answer, await use(page));
    }
  }
  console.log(JSON.stringify({ ...answer, problems, requests: [...requests] }));
} finally {
  await browser.close();
}
